"""The checker on histories of partitioned nodes: a row in the wrong partition, or a fault in one of them, is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from borealis_py.engine.arrow.partitioner import partitions_of
from borealis_py.verify import AnomalyKind
from borealis_py.verify.envelope import Row
from borealis_py.verify.evidence import CommittedRow, ProgressRecord, Saw
from borealis_py.verify.history import HistoryRecord
from borealis_py.verify.network import Truth
from borealis_py.verify.partitions import Piece, merged, partition_of
from borealis_py.verify.subscribers import TURN_US
from tests.harness.network import BUCKET_US, CHAIN, PARTED, SOURCES
from tests.verify.handmade import B0, HEALED, LAST, LOST, USUAL_US, X_US, HandmadeTopics, good, moved

Fault = Callable[[HandmadeTopics], None]
ONE, OTHER = Piece(1, 0), Piece(1, 1)


def records(w: HandmadeTopics, piece: Piece, replica: int = 0) -> list[HistoryRecord]:
    return w.replicas[w.pieces.index(piece)][replica]


def truth(w: HandmadeTopics) -> Truth:
    return Truth(w.network, {s: log.rows for s, log in w.sources.items()})


def test_a_good_history_of_partitions_gives_no_word() -> None:
    world = good(PARTED)
    verdict = world.judge()
    assert verdict.anomalies == []
    assert world.pieces == [Piece(0, i, j) for i in range(2) for j in range(2)] + [ONE, OTHER]
    assert verdict.looked_at["tentative statements"] == 2 * 6 * (HEALED - LOST)
    assert verdict.looked_at["buckets timed"] == 2 * (LAST - B0)
    assert {r.partition for r in world.corrected} == {0, 1}
    ids = [{r.id for r in world.corrected if r.partition == part} for part in range(2)]
    assert ids[0] & ids[1], "each partition has ids of its own"


def test_partitions_hold_together_what_the_whole_holds() -> None:
    tuples = {s: log.rows for s, log in good().sources.items()}
    whole, parts = Truth(CHAIN, tuples), Truth(PARTED, tuples)
    for stage in range(2):
        found: dict[int, list[Row]] = {}
        pieces = PARTED.pieces(stage)
        assert all(parts.stable(piece) for piece in pieces), "each has rows"
        for piece in pieces:
            for bucket, rows in parts.stable(piece).items():
                found.setdefault(bucket, []).extend(rows)
        assert {b: sorted(r) for b, r in found.items()} == {b: sorted(r) for b, r in whole.stable(Piece(stage)).items()}


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_product_divides_rows_by_the_same_rule(count: int) -> None:
    for type_, values in (
        (pa.int64(), [0, 1, 2, 3, -7, 2**60, None]),
        (pa.string(), ["a", "", "carrier", "ä", None]),
        (pa.float64(), [0.5, -3.25, 1e300, None]),
    ):
        batch = pa.record_batch({"key": pa.array(values, type_)})
        wanted = [partition_of(value, str(type_), count) for value in values]
        assert np.array_equal(partitions_of(batch, ["key"], count), wanted)


def test_a_merge_orders_by_time_then_key_with_null_last() -> None:
    rows = [(2, "b", 9), (1, None, 5), (3, "a", 9), (4, "b", 5), (5, "b", 9)]
    assert merged(rows, 1) == [(4, "b", 5), (1, None, 5), (3, "a", 9), (2, "b", 9), (5, "b", 9)]


# One fault each ------------------------------------------------------------------------------------------------------


def publishes_a_row_in_the_other_partition(w: HandmadeTopics) -> None:
    row = next(r for r in w.corrected if r.partition == 0)
    w.corrected.remove(row)
    w.corrected.append(replace(row, partition=1, offset=900, id=(LAST - 1, 50)))
    w.polled.clear()
    w.complete = False


def says_a_row_to_the_wrong_reader(w: HandmadeTopics) -> None:
    for replica in range(2):
        mine, others = (records(w, Piece(0, 0, j), replica) for j in range(2))
        i = next(i for i, r in enumerate(mine) if r.kind == "STABLE" and r.rows)
        others[i] = replace(others[i], kind="STABLE", rows=(*others[i].rows, mine[i].rows[0]))
        mine[i] = replace(mine[i], rows=mine[i].rows[1:])


def says_a_row_in_the_wrong_partition(w: HandmadeTopics) -> None:
    """A node's partition keeps a row whose key is the other's."""
    i = next(i for i, r in enumerate(records(w, Piece(0, 1, 0))) if r.kind == "STABLE" and r.rows)
    stolen = records(w, Piece(0, 1, 0))[i].rows[0]
    for replica in range(2):
        mine = records(w, Piece(0, 0, 0), replica)
        mine[i] = replace(mine[i], kind="STABLE", rows=(*mine[i].rows, stolen))


def leaves_a_hole_for_one_reader(w: HandmadeTopics) -> None:
    mine = records(w, Piece(0, 1, 1), 1)
    mine[:] = [r for r in mine if r.bucket != B0 + 3]


def repeats_a_row_in_its_partition(w: HandmadeTopics) -> None:
    row = next(r for r in w.corrected if r.partition == 1)
    w.corrected.append(replace(row, offset=len(w.corrected)))


def loses_a_row_of_one_partition(w: HandmadeTopics) -> None:
    row = next(r for r in w.corrected if r.partition == 1)
    w.corrected.remove(row)
    assert row.id is not None
    w.polled = [s for s in w.polled if (s.partition, s.bucket, s.index) != (1, *row.id)]


def lets_progress_of_one_partition_fall(w: HandmadeTopics) -> None:
    w.progress[1].insert(4, ProgressRecord(9, B0 + 1, 1))


def leaves_progress_of_one_partition_behind(w: HandmadeTopics) -> None:
    w.progress[0][-1] = ProgressRecord(2, B0 + 12, 1)


def hides_what_one_partition_lacked(w: HandmadeTopics) -> None:
    stable = truth(w).stable(OTHER)
    for replica in range(2):
        mine = records(w, OTHER, replica)
        for i, r in enumerate(mine):
            if r.kind == "TENTATIVE" and r.rows != stable.get(r.bucket, ()):
                mine[i] = replace(r, missing_sources=(), missing=(), completeness=1.0)
        assert mine != records(good(PARTED), OTHER)
    w.live = [s for s in w.live if s.partition == 0]
    w.complete = False


def shows_one_partition_late(w: HandmadeTopics) -> None:
    late_us = X_US // 2 + TURN_US + USUAL_US + 1
    w.live = [moved(s, late_us) if s.partition == 1 and s.bucket >= LOST else s for s in w.live]


def delivers_one_partition_backwards(w: HandmadeTopics) -> None:
    i, j = [i for i, s in enumerate(w.polled) if s.partition == 1][2:4]
    w.polled[i], w.polled[j] = w.polled[j], w.polled[i]


def never_shows_one_partitions_row(w: HandmadeTopics) -> None:
    w.polled.remove(next(s for s in w.polled if s.partition == 1))


def delivers_a_row_of_the_other_partition(w: HandmadeTopics) -> None:
    """Its id is there in both; the row is the other's."""
    ids = {r.id for r in w.corrected if r.partition == 0} & {r.id for r in w.corrected if r.partition == 1}
    row_id = min(i for i in ids if i is not None)
    other = next(s for s in w.polled if (s.partition, s.bucket, s.index) == (1, *row_id))
    i = next(i for i, s in enumerate(w.polled) if (s.partition, s.bucket, s.index) == (0, *row_id))
    w.polled[i] = replace(w.polled[i], rows=other.rows)


FAULTS: tuple[tuple[Fault, set[AnomalyKind]], ...] = (
    (publishes_a_row_in_the_other_partition, {AnomalyKind.LOST_WRITE, AnomalyKind.UNLABELLED_PARTIAL}),
    (says_a_row_to_the_wrong_reader, {AnomalyKind.UNLABELLED_PARTIAL}),
    (says_a_row_in_the_wrong_partition, {AnomalyKind.UNLABELLED_PARTIAL}),
    (leaves_a_hole_for_one_reader, {AnomalyKind.INCONSISTENT_OFFSETS}),
    (repeats_a_row_in_its_partition, {AnomalyKind.DUPLICATE}),
    (loses_a_row_of_one_partition, {AnomalyKind.LOST_WRITE}),
    (lets_progress_of_one_partition_fall, {AnomalyKind.INCONSISTENT_OFFSETS}),
    (leaves_progress_of_one_partition_behind, {AnomalyKind.INCONSISTENT_OFFSETS}),
    (hides_what_one_partition_lacked, {AnomalyKind.UNLABELLED_PARTIAL}),
    (shows_one_partition_late, {AnomalyKind.BOUND_BROKEN}),
    (delivers_one_partition_backwards, {AnomalyKind.NONMONOTONIC_POLL}),
    (never_shows_one_partitions_row, {AnomalyKind.UNSEEN}),
    (delivers_a_row_of_the_other_partition, {AnomalyKind.STABLE_CHANGED}),
)


@pytest.mark.parametrize(("fault", "kinds"), [pytest.param(f, w, id=f.__name__) for f, w in FAULTS])
def test_a_fault_in_one_partition_gives_its_kinds_and_no_other(fault: Fault, kinds: set[AnomalyKind]) -> None:
    world = good(PARTED)
    fault(world)
    verdict = world.judge()
    assert verdict.kinds == kinds, verdict.anomalies[:3]


# What is no fault ----------------------------------------------------------------------------------------------------


def test_each_partition_may_have_had_another_first_part_of_a_lost_source() -> None:
    world = good(PARTED)
    known = truth(world)
    bucket = next(b for b in range(LOST, LOST + 5) if _of_c(known, 0, b) and _of_c(known, 1, b))
    for piece in PARTED.pieces(0)[:2]:  # partition 0 of the first node had c's rows of this bucket, partition 1 none
        mine = records(world, piece, 0)  # the second node heard replica 1, which had none either
        i = next(i for i, r in enumerate(mine) if r.kind == "TENTATIVE" and r.bucket == bucket)
        mine[i] = replace(mine[i], rows=known.stable(piece).get(bucket, ()))
    assert world.judge().anomalies == []


def _of_c(known: Truth, part: int, bucket: int) -> bool:
    rows = [row for j in range(2) for row in known.stable(Piece(0, part, j)).get(bucket, ())]
    return any(row[0] == SOURCES[2] for row in rows)


def test_partitions_may_be_delivered_in_any_mixture() -> None:
    world = good(PARTED)
    world.polled.sort(key=lambda s: (s.bucket, s.index, s.partition))
    world.live.sort(key=lambda s: (s.at_us, s.partition))
    assert world.judge().anomalies == []


def test_an_offset_belongs_to_its_partition() -> None:
    world = good(PARTED)
    world.aborted.append(CommittedRow(world.corrected[0].offset, (LAST, 0), LAST * BUCKET_US, {}, partition=1))
    world.corrected = [r for r in world.corrected if (r.partition, r.offset) != (1, world.corrected[0].offset)]
    evidence = world.evidence()
    assert [(r.partition, r.offset) for r in evidence.aborted] == [(1, 0)]
    assert Saw(0, "ROW", 1, 2).partition == 0
