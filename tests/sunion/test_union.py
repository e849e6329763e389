"""SUnion: completeness, total order, marks, eviction."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunion.model import Input, SourceRecord
from sunion.source import SourceFold
from sunion.union import SETTLED_ROWS, Mark, SUnion
from tests.sunion.lists import AHEAD_US, BUCKETS, OPS, ListOps, Row, W, bad, batch, claim, end
from tests.sunion.unions import logs, union


def fed(*logs: Sequence[SourceRecord], origin: int = 0) -> SUnion:
    made = union(len(logs), origin)
    for index, log in enumerate(logs):
        for record in log:
            made.feed(index, record)
    return made


def test_it_needs_an_input() -> None:
    with pytest.raises(ValueError, match="at least one input"):
        SUnion([], 0, BUCKETS, OPS, ahead_max_us=0)


def test_a_bucket_is_complete_when_every_boundary_has_passed_its_end() -> None:
    made = fed([claim(0), batch(1, 0, boundary=3 * W)], [claim(0), batch(1, 0, boundary=2 * W - 1)])
    assert [made.closed(0), made.closed(1)] == [3, 1]
    assert made.complete == 1


def test_a_boundary_creates_buckets_a_tuple_and_end_create_none() -> None:
    """Found by the simulator: one tuple 20 s ahead made 200 buckets run before anybody could be late for them."""
    made = union()
    assert made.top == -1  # nobody has spoken: not even the origin can be late
    made.feed(0, claim(0))
    made.feed(0, batch(1, 0, [(5 * W, 1)]))
    assert made.top == -1
    made.feed(1, claim(0))
    made.feed(1, batch(1, 0, boundary=7 * W))
    assert made.top == 7
    made.feed(0, end(2))
    assert (made.top, made.closed(0), made.complete) == (7, BUCKETS.last, 7)


def test_ties_are_broken_by_input_then_by_place_in_the_log() -> None:
    made = fed(
        [claim(0), batch(1, 0, [(W, 10), (W + 5, 11)]), batch(2, 2, [(W, 12)])],
        [claim(0), batch(1, 0, [(W, 20), (W + 5, 21)])],
    )
    rows = made.ordered(0, 2)[1]
    assert [value for *_, value in rows] == [10, 12, 20, 11, 21]


def test_only_buckets_with_rows_are_ordered_and_those_with_dead_letters_are_busy() -> None:
    made = fed([claim(0), bad(1), batch(2, 0, [(2 * W, 1)])], [])
    assert list(made.ordered(0, 9)) == [2]
    assert made.busy(0, 9) == [0, 2]
    assert made.busy(1, 2) == []
    assert [r.offset for r in made.rejects(0)] == [1]
    assert made.count(2) == 1


def test_of_busy_buckets_the_lowest_are_told_whichever_input_has_them() -> None:
    made = fed([claim(0), batch(1, 0, [(b * W, 1) for b in (0, 2, 3)])], [claim(0), batch(1, 0, [(W, 1), (2 * W, 2)])])
    assert [made.busy(0, 9, most) for most in (1, 2, 3, None)] == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]


class Grouped(ListOps):
    """Tells how many rows were settled at a time."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def settle(self, groups: Sequence[Sequence[Sequence[Row]]]) -> list[tuple[Row, ...]]:
        self.sizes.append(sum(len(part) for parts in groups for part in parts))
        return super().settle(groups)


def test_small_records_are_settled_together_until_there_are_enough_of_them() -> None:
    ops, n = Grouped(), SETTLED_ROWS
    log, seq = [claim(0)], 0
    for offset, size in enumerate((n - 800, 800, n - 1, 1, 5), 1):
        log.append(batch(offset, seq, [(0, seq)] * size))
        seq += size
    SUnion([Input.source("s")], 0, BUCKETS, ops, ahead_max_us=AHEAD_US).feed_all(0, log)
    assert ops.sizes == [n, n, 5]


def test_what_follows_end_is_counted_and_filed_nowhere() -> None:
    made = fed([claim(0), end(1), bad(2), bad(3)], [claim(0), end(1)])
    assert made.busy(0, BUCKETS.last) == []
    assert made.inputs[0].rejected == 2


def test_an_evicted_bucket_keeps_its_count_and_its_dead_letters() -> None:
    made = fed([claim(0), bad(1), batch(2, 0, [(0, 1), (1, 2)]), batch(3, 2, [(W, 3)])])
    made.evict(1)
    assert (made.kept_rows, made.count(0), made.count(1)) == (1, 2, 1)
    assert list(made.ordered(0, 2)) == [1]
    assert len(made.rejects(0)) == 1


def test_rows_that_come_for_an_evicted_bucket_are_counted_and_not_kept() -> None:
    made = fed([claim(0), batch(1, 0, [(0, 1)])], [claim(0)])
    made.evict(1)
    made.feed(1, batch(1, 0, [(0, 2), (1, 3)]))
    assert (made.kept_rows, made.count(0)) == (0, 3)
    made.evict(2)
    made.forget(2)
    assert (made.kept_rows, made.count(0)) == (0, 0)


def test_a_checkpoint_below_the_lowest_bucket_kept_is_a_mark_at_the_present_position() -> None:
    made = fed([claim(0), batch(1, 0, [(0, 1)], boundary=W)])
    made.forget(1)
    assert made.marks(1) == (Mark(2, made.inputs[0].fold),)


# Random logs ----------------------------------------------------------------------------------------------------------


def content(made: SUnion, first: int, stop: int) -> list[object]:
    return [(b, made.ordered(b, b + 1).get(b), made.rejects(b), made.count(b)) for b in range(first, stop)]


@given(logs(), st.data())
def test_replaying_from_a_mark_sees_everything_of_that_bucket_and_later(
    log: list[list[SourceRecord]], data: st.DataObject
) -> None:
    """Whatever was forgotten before the mark was taken, and wherever reading had got to."""
    original = union()
    cuts = [data.draw(st.integers(0, len(records))) for records in log]
    bucket = 0
    for index, records in enumerate(log):
        for record in records[: cuts[index]]:
            original.feed(index, record)
        bucket = data.draw(st.integers(bucket, max(bucket, original.complete)))
        original.forget(bucket)
    at = data.draw(st.integers(bucket, original.top + 1))
    marks = original.marks(at)
    replay = union()
    replay.resume(at, marks)
    for index, records in enumerate(log):
        for record in records[cuts[index] :]:
            original.feed(index, record)
        for record in records[marks[index].offset :]:
            replay.feed(index, record)
    assert content(replay, at, original.top + 2) == content(original, at, original.top + 2)
    assert [s.fold for s in replay.inputs] == [s.fold for s in original.inputs]


@given(logs(), st.randoms(use_true_random=False))
def test_the_buckets_do_not_depend_on_how_the_inputs_interleave(log: list[list[SourceRecord]], random: object) -> None:
    one_by_one, shuffled = fed(*log), union()
    pending = [list(records) for records in log]
    while any(pending):
        index = random.choice([i for i, records in enumerate(pending) if records])  # type: ignore[attr-defined]
        shuffled.feed(index, pending[index].pop(0))
    assert content(shuffled, 0, shuffled.top + 2) == content(one_by_one, 0, one_by_one.top + 2)
    assert (shuffled.complete, shuffled.kept_rows) == (one_by_one.complete, one_by_one.kept_rows)


@given(logs(), st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=12))
def test_kept_rows_is_what_is_kept(log: list[list[SourceRecord]], drops: list[tuple[bool, int]]) -> None:
    made = union()
    steps = [(i, record) for i, records in enumerate(log) for record in records]
    for n, (index, record) in enumerate(steps):
        made.feed(index, record)
        if n < len(drops):
            forget, below = drops[n]
            if forget:
                made.forget(min(below, made.complete))
            else:
                made.evict(below)
        kept = sum(len(part) for source in made.inputs for parts in source.rows.values() for part in parts)
        assert made.kept_rows == kept
        assert all(b >= made.evicted >= made.low for source in made.inputs for b in source.rows)


def test_a_mark_carries_the_fold_before_it() -> None:
    made = fed([claim(0), batch(1, 0, [(0, 1)]), batch(2, 1, [(W, 2)]), batch(3, 2, [(W, 3)])])
    assert made.marks(1)[0] == Mark(2, SourceFold(boundary=0, epoch=1, owner="a", last_seq=0))
    assert [bucket for bucket, _ in made.sources[0].marks] == [0, 1], "a bucket's further records need none"
