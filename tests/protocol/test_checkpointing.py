"""When a checkpoint is taken and may become durable (R12, B1)."""

from __future__ import annotations

from borealis_py.protocol.checkpointing import Checkpointing
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import SaveCheckpoint
from sunion.model import Input
from sunion.union import SUnion
from tests.sunion.lists import AHEAD_US, BUCKETS, OPS

EVERY_US = 1_000_000


class Driven:
    """Checkpoints of a replica that starts at bucket 5."""

    def __init__(self) -> None:
        self.checkpointing = Checkpointing(Timing(checkpoint_us=EVERY_US), 5)
        self.union = SUnion([Input.source("a")], 0, BUCKETS, OPS, ahead_max_us=AHEAD_US)

    def saved(self, now: int, f_s: int, ack_s: int | None = None) -> list[int]:
        effects = self.checkpointing.turn(now, f_s, f"S{f_s}", self.union, f_s if ack_s is None else ack_s)
        assert all(isinstance(e, SaveCheckpoint) and e.state == f"S{e.bucket}" for e in effects)
        return [e.bucket for e in effects]


def test_the_first_is_due_an_interval_after_the_start_and_the_next_an_interval_after_that() -> None:
    driven = Driven()
    assert driven.checkpointing.checkpoint_bucket == -1
    assert [driven.saved(now, 7) for now in (0, EVERY_US - 1, EVERY_US)] == [[], [], [7]]
    assert [driven.saved(now, 9) for now in (EVERY_US + 1, 2 * EVERY_US - 1, 2 * EVERY_US)] == [[], [], [9]]


def test_it_is_handed_out_as_taken_once_the_own_topic_holds_all_below_it() -> None:
    driven = Driven()
    driven.saved(0, 6)
    assert driven.saved(EVERY_US, 8, ack_s=6) == []
    assert driven.saved(EVERY_US + 1, 9, ack_s=7) == []
    assert driven.saved(EVERY_US + 2, 10, ack_s=8) == [8]


def test_without_a_new_bucket_there_is_none_and_soon_does_not_wait() -> None:
    driven = Driven()
    driven.saved(0, 5)
    assert driven.saved(EVERY_US, 5) == []
    assert driven.saved(EVERY_US + 1, 6) == [6]
    driven.checkpointing.soon()
    assert driven.saved(EVERY_US + 2, 6) == []
    assert driven.saved(EVERY_US + 3, 7) == [7]
    assert driven.saved(EVERY_US + 4, 8) == [], "the next one waits for its interval again"
