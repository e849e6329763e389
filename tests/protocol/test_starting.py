"""When a replica that starts is READY, what heartbeats say of a place in the queue, when a checkpoint is taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py.protocol.checkpointing import Checkpointing
from borealis_py.protocol.control import ControlFold, Recovery
from borealis_py.protocol.heartbeat import HeartbeatTimer
from borealis_py.protocol.incarnation import Heartbeat, Identity
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.states import ReplicaState
from borealis_py.protocol.turn import EmitEvent, FenceWriter, SaveCheckpoint, Turn
from sunion.model import Input
from sunion.units import Bucket
from tests.protocol.chain_node import Node, manager
from tests.protocol.settling import cut, settled
from tests.protocol.toy import MS, TIMING, make_world
from tests.sunion.lists import FRAGMENT, W, batch, claim
from tests.sunion.unions import output_of, union
from tests.support.heartbeats import heartbeat

OWN = heartbeat(0, state="RECOVERING")
PEER = heartbeat(1, ack_s=20, ack_l=20)


def heard(*beats: Heartbeat) -> ControlFold:
    control = ControlFold(0, 1, "u0.1", 10)
    for offset, beat in enumerate(beats):
        control.read(offset, beat)
    return control


def reached(recovery: Recovery, control: ControlFold, ack_l: int, f_l: int | None = None, busy: bool = False) -> bool:
    return recovery.done(control, f_l=Bucket(ack_l if f_l is None else f_l), ack_l=Bucket(ack_l), busy=busy)


def test_the_goal_of_a_start_is_what_the_peers_had_reached_at_the_first_echo() -> None:
    recovery, control = Recovery(), heard(PEER, OWN)
    assert not reached(recovery, control, 19)
    control.read(2, replace(PEER, ack_s=90, ack_l=90))
    assert not reached(recovery, control, 19)
    assert reached(recovery, control, 20), "a goal that moves is never reached (B42)"


def test_a_peer_that_is_starting_itself_sets_no_goal() -> None:
    assert reached(Recovery(), heard(replace(PEER, state="RECOVERING"), OWN), 3)
    assert not reached(Recovery(), heard(PEER, OWN), 3)


def test_who_says_something_in_each_turn_is_ready_all_the_same() -> None:
    """Simulator, seed 95001125: rows took so long that no turn ended with all acknowledged, so it started for ever."""
    recovery, control = Recovery(), heard(OWN)
    assert not reached(recovery, control, 5, f_l=7)
    assert not reached(recovery, control, 6, f_l=8)
    assert not reached(recovery, control, 7, f_l=9, busy=True)
    assert reached(recovery, control, 7, f_l=9)


def test_who_was_not_acknowledged_is_not_ready() -> None:
    world = make_world()
    world.run(1_000 * MS)
    world.start(0).acks = False
    world.run(3_000 * MS)
    assert world.replicas[0].manager.state is ReplicaState.RECOVERING
    assert [n for n in world.replicas[0].notes if n.event == "READY"] == []
    world.replicas[0].acks = True
    world.run(3_500 * MS)
    assert settled(world)


def test_a_new_run_of_asking_does_not_carry_the_offset_of_the_one_before() -> None:
    heart, output, now = HeartbeatTimer(Identity(0, 1, "u"), Timing()), output_of(1, 0), 0

    def says(asking: bool, ask: int | None) -> int | None:
        nonlocal now
        now += Timing().heartbeat_us
        (sent,) = heart.beat(
            now=now,
            state=ReplicaState.UPSTREAM_FAILURE,
            ack_s=output.ack_s,
            ack_l=output.ack_l,
            digests=output.digests.tell,
            asking=asking,
            ask=ask,
            progress=0,
            checkpoint_bucket=-1,
        )
        return sent.heartbeat.ask_offset

    assert (says(True, None), says(True, 5)) == (None, 5)
    assert says(False, 5) == 5  # not asking: nobody looks at it
    assert says(True, 5) is None, "the end of the first run was not read back yet (B26)"
    assert (says(True, 5), says(True, 9)) == (None, 9)


def test_a_checkpoint_is_taken_as_soon_as_the_replica_is_stable_again() -> None:
    timing = replace(TIMING, checkpoint_us=60_000 * MS)
    world = make_world(timing=timing)
    cut(world, 2_000 * MS, 5_000 * MS, 1)
    world.run(6_000 * MS)
    assert settled(world)
    assert [c.bucket for c in world.checkpoints.values() if c.bucket >= 49], "a peer may adopt it (R14.3)"


def test_a_checkpoint_waits_until_the_own_heartbeat_is_read_back() -> None:
    """Simulator, seed 5000029: one whose number another process owned replaced a checkpoint of that one (B30)."""
    node, second = Node(Input.source("c")), 1_000 * MS
    node.at(0, source=[claim(0), batch(1, 0, boundary=5 * W)], index=0)
    unheard = node.at(TIMING.checkpoint_us + second)
    assert not [effect for effect in unheard if isinstance(effect, SaveCheckpoint)]
    heard = node.at(TIMING.checkpoint_us + 2 * second, beats=[(0, heartbeat(0, uid="u"))])
    assert [effect.bucket for effect in heard if isinstance(effect, SaveCheckpoint)] == [5]


def test_stability_reached_while_a_checkpoint_waits_for_its_acks_gets_one_of_its_own() -> None:
    checkpointing, rows = Checkpointing(Timing(), 0), union()
    checkpointing.soon()
    assert checkpointing.turn(1, 5, FRAGMENT.initial(), rows, 0) == []  # not acknowledged yet
    checkpointing.soon()  # stable, at 9
    saved = checkpointing.turn(2, 9, FRAGMENT.initial(), rows, 5)
    assert [s.bucket for s in saved if isinstance(s, SaveCheckpoint)] == [5]
    saved = checkpointing.turn(3, 9, FRAGMENT.initial(), rows, 9)
    assert [s.bucket for s in saved if isinstance(s, SaveCheckpoint)] == [9]


def test_who_has_complete_buckets_left_to_run_is_not_ready() -> None:
    """It begins far behind, and runs a slice a turn (B42)."""
    node = manager(Input.source("a"))
    rows = [(bucket * W, bucket) for bucket in range(100)]
    inputs = {0: [claim(0), batch(1, 0, rows, boundary=100 * W)]}
    beats = [(0, heartbeat(0, uid="u", app_uid="", state="RECOVERING"))]
    ready: list[int] = []
    for now in range(0, 2_000_000, 20_000):
        turn = Turn(now, inputs=inputs, beats=beats, read_to=now, acked=10**9 if now else None)
        inputs, beats = {}, []
        effects = node.handle(turn)
        ready += [node.f_s for e in effects if isinstance(e, EmitEvent) and e.event == "READY"]
    assert ready == [100]


def test_what_waits_to_be_corrected_keeps_nobody_from_being_ready() -> None:
    """A grant may be long in coming, and meanwhile what it says live is as good as anybody's (B42)."""
    node = Node(Input.source("a"), Input.source("b"))
    node.at(0, source=[claim(0), batch(1, 0, [(i * W, i) for i in range(20)], boundary=20 * W)], index=0)
    node.at(0, source=[claim(0)])
    node.at(5_000 * MS)
    node.at(5_010 * MS, source=[batch(1, 0, [(0, 1)], boundary=20 * W)])
    own = heartbeat(0, uid="u", app_uid="", state="RECOVERING")
    effects = node.manager.handle(Turn(5_020 * MS, beats=[(0, own)], acked=10**9))
    assert [e.event for e in effects if isinstance(e, EmitEvent)][:1] == ["READY"]
    assert node.manager.f_s < min(node.manager.f_l, node.manager.complete)


@pytest.mark.parametrize("replica", [0, 1])
def test_nobody_publishes_first_who_does_not_know_yet_which_others_live(replica: int) -> None:
    """It knows when its own heartbeat comes back: those of the others lie before it."""
    node = manager(Input.source("a"), replica=replica)
    node.handle(Turn(0))
    effects = node.handle(Turn(1, read_to=1))
    own = heartbeat(replica, uid="u", app_uid="", state="RECOVERING")
    later = node.handle(Turn(2, beats=[(0, own)]))
    assert [[e for e in some if isinstance(e, FenceWriter)] for some in (effects, later)] == [[], [FenceWriter(1)]]
