"""When a replica sends a heartbeat (R7.1)."""

from __future__ import annotations

from borealis_py.protocol.heartbeat import PLAY, HeartbeatTimer
from borealis_py.protocol.incarnation import Identity
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.states import ReplicaState
from tests.sunion.unions import output_of

BEAT_US = Timing().heartbeat_us


class Driven:
    """A timer, and what it is asked at each turn."""

    def __init__(self) -> None:
        self.timer = HeartbeatTimer(Identity(1, 7, "u", "a1"), Timing())
        self.output = output_of(7, 3)

    def sends(self, now: int, asking: bool = False, checkpoint_bucket: int = -1) -> bool:
        sent = self.timer.beat(
            now=now,
            state=ReplicaState.STABLE,
            ack_s=self.output.ack_s,
            ack_l=self.output.ack_l,
            digests=self.output.digests.tell,
            asking=asking,
            ask=None,
            progress=2,
            checkpoint_bucket=checkpoint_bucket,
        )
        return bool(sent)


def test_a_heartbeat_tells_who_and_where_the_replica_is() -> None:
    driven = Driven()
    (sent,) = driven.timer.beat(
        now=0,
        state=ReplicaState.UPSTREAM_FAILURE,
        ack_s=driven.output.ack_s,
        ack_l=driven.output.ack_l,
        digests=driven.output.digests.tell,
        asking=True,
        ask=11,
        progress=2,
        checkpoint_bucket=5,
    )
    beat = sent.heartbeat
    assert (beat.app_uid, beat.replica, beat.inc, beat.uid, beat.state) == ("a1", 1, 7, "u", "UPSTREAM_FAILURE")
    assert (beat.ack_s, beat.ack_l, beat.asking, beat.progress, beat.checkpoint_bucket) == (3, 3, True, 2, 5)


def test_a_turn_takes_it_along_from_a_tenth_before_it_is_due() -> None:
    driven = Driven()
    early = BEAT_US - BEAT_US // PLAY
    assert [driven.sends(at) for at in (0, early - 1, early, early + 1)] == [True, False, True, False]


def test_without_a_turn_to_take_it_along_it_is_sent_a_tenth_after_it_is_due() -> None:
    driven = Driven()
    assert driven.sends(0)
    assert driven.timer.next_us == BEAT_US + BEAT_US // PLAY
    assert driven.sends(driven.timer.next_us)


def test_it_is_sent_at_once_when_asking_changes_or_a_checkpoint_is_new() -> None:
    driven = Driven()
    assert driven.sends(0)
    assert driven.sends(1, asking=True)
    assert not driven.sends(2, asking=True)
    assert driven.sends(3, asking=True, checkpoint_bucket=4)
    assert not driven.sends(4, asking=True, checkpoint_bucket=4)
    assert driven.sends(5, checkpoint_bucket=4)
