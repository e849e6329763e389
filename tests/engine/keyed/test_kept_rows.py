"""Keys by value, and blocks that depend on nothing but how far a node has run."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.engine.arrow.rows import row_sizes
from borealis_py.engine.keyed import kept_rows
from borealis_py.engine.keyed.kept_rows import KeptRows, same_keys, sizes_at

WIDTH_US = 1_000
COLUMNS = pa.schema([("k", pa.int64()), ("stime", pa.int64())])


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        (pa.array(["a", None, "b", None]), pa.array(["a", None, "c", "d"]), [True, True, False, False]),
        (pa.array([math.nan, 0.0, None, 1.0]), pa.array([math.nan, -0.0, math.nan, 2.0]), [True, True, False, False]),
        (pa.array([1, 2, None]), pa.array([1, 3, None]), [True, False, True]),
        (pa.array(["1", None], pa.json_()), pa.array(["1", "1"], pa.json_()), [True, False]),
    ],
)
def test_keys_are_equal_by_value(ours: pa.Array, theirs: pa.Array, same: list[bool]) -> None:
    assert same_keys(ours, theirs).tolist() == same


def rows_of(buckets: list[int]) -> pa.RecordBatch | None:
    stimes = [bucket * WIDTH_US for bucket in buckets]
    return pa.RecordBatch.from_arrays([pa.array([s % 7 for s in stimes]), pa.array(stimes)], schema=COLUMNS)


@given(
    reach=st.integers(0, 200),
    buckets=st.lists(st.integers(0, 300) | st.integers(250, 300), max_size=40),
    cuts=st.sets(st.integers(1, 300) | st.integers(250, 300), max_size=30),
)
def test_blocks_do_not_depend_on_steps(reach: int, buckets: list[int], cuts: set[int]) -> None:
    kept = KeptRows.of(COLUMNS, ("k",), reach * WIDTH_US, WIDTH_US)

    def after(ends: list[int]) -> list[tuple[int, object]]:
        blocks: tuple[tuple[int, pa.RecordBatch], ...] = ()
        for first, end in zip([0, *ends], ends, strict=False):
            mine = sorted(b for b in buckets if first <= b < end)
            rows = rows_of(mine) if mine else None
            hashes = np.zeros(0, dtype=np.int64) if rows is None else rows.column("k").to_numpy() * 3 - 9
            blocks = kept.current(kept.added(blocks, rows, hashes, end).blocks, end)
        return [(start, batch.to_pydict()) for start, batch in blocks]

    whole = after([301])
    assert after([*sorted(cuts), 301]) == whole
    held = [stime // WIDTH_US for _, batch in whole for stime in batch["stime"]]  # type: ignore[index]
    needed = [b for b in buckets if b >= 301 - reach]
    assert not set(needed) - set(held)
    assert len(held) <= len([b for b in buckets if b > 301 - reach - (1 << kept.level)])


def test_a_row_keeps_its_place_where_blocks_become_one() -> None:
    kept = KeptRows.of(COLUMNS, ("k",), 16 * WIDTH_US, WIDTH_US)
    blocks: tuple[tuple[int, pa.RecordBatch], ...] = ()
    for bucket in (0, 1):
        rows = rows_of([bucket] * 3)
        blocks = kept.added(blocks, rows, np.array([7, 5, 7]), bucket + 1).blocks
    ((start, block),) = blocks
    assert start == 0
    assert block.column("__hash").to_pylist() == [5, 5, 7, 7, 7, 7]
    assert block.column("__place").to_pylist() == [1, 4, 0, 2, 3, 5]


def test_a_row_is_as_large_as_it_is_counted_elsewhere() -> None:
    batch = pa.record_batch({"s": ["a", None, "long text"], "i": [1, 2, None], "l": [[1], None, [1, 2, 3]]})
    rows = np.array([2, 0, 0, 1])
    for part in (batch, pa.concat_batches([batch, batch]).slice(3, 3), batch.select(["s"]), batch.select(["i"])):
        assert sizes_at(part, rows).tolist() == row_sizes(part)[rows].tolist()


def test_the_largest_block_has_at_most_an_eighth_of_what_is_kept() -> None:
    levels = [KeptRows.of(COLUMNS, ("k",), n * WIDTH_US, WIDTH_US).level for n in (0, 1, 8, 15, 16, 600, 36_000)]
    assert levels == [0, 0, 0, 0, 1, 6, 8]
    assert kept_rows._LEVEL_MAX == 8
