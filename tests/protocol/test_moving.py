"""A replica that runs moves (R17.16): a new incarnation catches up unheard, and then goes on in the place of the one
that ran; its peers never see the node without one that runs."""

from __future__ import annotations

import pytest

from borealis_py.protocol.incarnation import Identity, StartPoint
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.roles import Role
from borealis_py.protocol.states import ReplicaState
from borealis_py.protocol.turn import Append, Turn
from sunion.model import Input, StableRange
from tests.protocol.toy import DELAYS, MS, TIMING, TURN, Replica, ToyWorld, make_world
from tests.sunion.lists import FRAGMENT, W, batch, claim
from tests.support.heartbeats import heartbeat
from tests.support.managers import toy_config

SETTLES = 3_000 * MS


def standing_by() -> ToyWorld:
    """Replica 0 runs, replica 1 stands by."""
    world = make_world(replicas=2, role=Role.STANDS_BY)
    world.run(SETTLES)
    assert [world.replicas[k].manager.speaking.runs for k in (0, 1)] == [True, False]
    return world


def heard(world: ToyWorld, replica: Replica) -> list[bool]:
    """What an incarnation's heartbeats say of whether it runs."""
    return [beat.runs for _, beat in world.control if beat.uid == replica.uid]


def test_who_moves_is_heard_once_it_has_caught_up_and_its_peer_notices_nothing() -> None:
    world = standing_by()
    old, new = world.replicas[0], world.move(0)
    new.slow = {0: 2, 1: 2}
    while not new.manager.speaking.runs:
        assert heard(world, new) == []
        assert not old.dead
        world.run(world.now + TURN)
    new.slow = {}
    world.run(world.now + SETTLES)
    assert old.dead
    assert set(heard(world, new)) == {True}
    assert new.manager.state is ReplicaState.STABLE
    assert not world.replicas[1].manager.speaking.runs
    assert world.replicas[1].inc == 1
    assert world.client.stable >= (world.now - 300 * MS) // (100 * MS)


def test_readers_wait_for_no_bucket_longer_than_before() -> None:
    """The most by which the client lags, with a move and without one."""

    def worst(moves: bool) -> int:
        world = standing_by()
        if moves:
            world.move(0)
        lag = 0
        for _ in range(100):
            world.run(world.now + TURN)
            lag = max(lag, world.now - world.client.stable * 100 * MS)
        return lag

    assert worst(True) <= worst(False) + TURN


def test_nothing_is_kept_as_a_checkpoint_before_it_is_heard() -> None:
    world = standing_by()
    new = world.move(0)
    new.slow = {0: 0, 1: 0}
    world.run(world.now + SETTLES)
    assert not new.manager.speaking.runs
    kept = world.checkpoints[0]
    world.zombies.clear()
    world.replicas[1].deaf = True  # it cannot take over
    new.slow = {0: 1, 1: 1}
    while not new.manager.speaking.runs:
        assert world.checkpoints[0] == kept
        world.run(world.now + TURN)
    world.run(world.now + SETTLES)
    assert world.checkpoints[0].bucket > kept.bucket


def test_what_was_said_before_its_start_it_has_not_caught_up_with() -> None:
    """Upstream backup: its state is empty, and that of the one that runs is not. While it cannot read an input, that
    one goes on."""
    start = StartPoint(3, FRAGMENT.initial(), own=6, empty=True)
    config = toy_config(Input.source("s0"), Input.source("s1"), timing=TIMING, rebuild_buckets=3)
    new = Manager(config, identity=Identity(0, 2, "new"), start=start, delays=DELAYS, role=Role.MOVES)
    former = [(0, heartbeat(0, uid="old", runs=True, ack_s=6, ack_l=9))]
    first, second = ([claim(0), batch(1, 0, boundary=upto * W)] for upto in (8, 5))
    new.handle(Turn(0, beats=former, inputs={0: first, 1: second}))
    assert new.handle(Turn(10_000 * MS)) == []
    assert not new.speaking.runs
    new.handle(Turn(10_001 * MS, inputs={1: [batch(2, 0, boundary=8 * W)]}))
    said = [effect.record for effect in new.handle(Turn(10_002 * MS)) if isinstance(effect, Append)]
    assert new.speaking.runs
    assert [(record.first, record.end) for record in said if isinstance(record, StableRange)] == [(6, 8)]


def test_one_whose_former_incarnation_dies_goes_on_alone() -> None:
    world = make_world(replicas=1, role=Role.STANDS_BY)
    world.run(SETTLES)
    new = world.move(0)
    world.zombies.clear()
    world.run(world.now + SETTLES)
    assert new is world.replicas[0]
    assert new.manager.state is ReplicaState.STABLE


def test_it_stands_by_if_another_one_has_taken_over_meanwhile() -> None:
    world = standing_by()
    new = world.move(0)
    new.slow = {0: 0, 1: 0}
    world.zombies.clear()
    while not new.stepped_back:
        assert world.now < 3 * SETTLES
        world.run(world.now + TURN)
    world.replicas[0].slow = {}
    world.run(world.now + SETTLES)
    assert heard(world, new) == []
    assert world.replicas[1].manager.speaking.runs
    assert world.replicas[0].manager.state is ReplicaState.STANDBY


@pytest.mark.parametrize("index", [0, 1])
def test_it_begins_as_a_standby_where_its_former_incarnation_did_not_run(index: int) -> None:
    """Nobody has run yet, or another one does."""
    world = standing_by() if index else make_world(replicas=1, role=Role.STANDS_BY)
    new = world.move(index)
    world.run(world.now + TURN)
    assert new.stepped_back
    assert world.replicas[index] is not new


def test_who_steps_back_shows_that_it_has_lived_so_that_standbys_become_more_patient() -> None:
    """Simulator, seed 99767787: a bucket that took 3 s to run was begun for ever, by one replica after the other, since
    each took the other for dead, and nobody learnt that it was not."""
    world = standing_by()
    busy = world.replicas[0]
    turns, busy.turns = busy.turns, lambda: None  # type: ignore[method-assign]
    world.run(world.now + SETTLES)
    taken_over = len(world.control)
    assert world.replicas[1].manager.speaking.runs
    busy.turns = turns  # type: ignore[method-assign]
    world.run(world.now + SETTLES)
    assert busy.stepped_back
    assert [beat.runs for _, beat in world.control[taken_over:] if beat.uid == busy.uid] == [True]
    assert world.replicas[0].manager.control.roles.patient
    assert world.replicas[1].manager.control.roles.patient
