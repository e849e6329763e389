"""When a checkpoint is taken and may become durable (R12.1, B1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from borealis_py.protocol.checkpointing import Checkpointing, ReadingPlace, Rebuilding
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import SaveCheckpoint
from sunion.model import Input
from sunion.source import SourceFold
from sunion.union import Mark, SUnion
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


class Places:
    """Stands for an SUnion of one source, each bucket of which is one record."""

    def marks(self, bucket: int) -> tuple[Mark, ...]:
        return (Mark(bucket, SourceFold(bucket)),)


def saved(rebuilding: Rebuilding, frontier: int, buckets: Iterable[int]) -> list[SaveCheckpoint]:
    """What is saved of a start that says nothing below `frontier`, in turns that reach these buckets."""
    places: Any = Places()
    checkpointing, found = Checkpointing(Timing(checkpoint_us=1), frontier, rebuilding), list[SaveCheckpoint]()
    for now, bucket in enumerate(buckets):
        effects = checkpointing.turn(now, bucket, f"state at {bucket}", places, bucket)
        found += [one for one in effects if isinstance(one, SaveCheckpoint)]
    return found


def test_upstream_backup_keeps_where_to_read_and_no_state() -> None:
    begun = ReadingPlace(0, Places().marks(0))
    for one in saved(Rebuilding(10, "empty", begun), 0, range(1, 100)):
        assert one.state == "empty"
        assert one.marks == Places().marks(one.bucket)
        assert one.bucket == 0 or one.said - 12 <= one.bucket <= one.said - 10


def test_a_start_that_is_killed_again_need_not_read_twice_as_much() -> None:
    begun = ReadingPlace(100, Places().marks(100))
    first = saved(Rebuilding(80, "empty", begun), 180, range(101, 260))[0]
    assert (first.bucket, first.said) == (100, 181)
    last = saved(Rebuilding(80, "empty", begun), 180, range(101, 200))[-1]
    assert last.said - 90 <= last.bucket <= last.said - 80


def test_a_state_from_a_checkpoint_is_kept_until_enough_lies_behind_it() -> None:
    found = saved(Rebuilding(10, "empty", None), 50, range(51, 80))
    assert [one.state for one in found if one.frontier < 61] == [f"state at {b}" for b in range(52, 61)]
    assert {one.state for one in found if one.frontier > 62} == {"empty"}
