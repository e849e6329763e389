"""Buckets that run together give what each of them gives alone, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.engine import DuckKernel, canonical_hash
from borealis_py.engine.operators import base
from tests.engine import worlds
from tests.engine.bucketwise import Bucketwise
from tests.engine.splits import LAST, QUERIES
from tests.engine.worlds import SCHEMA, WIDTH_US, Buckets, Row

# Without a key, the engine sums a constant of a batch as value * count: no oracle for that.
ALONE = {**QUERIES, "rows_unkeyed": lambda app, a, b: a.window("400ms", every="200ms").agg(f="last(i)", s="sum(x)")}


@pytest.fixture(scope="module", params=list(ALONE))
def on(request: pytest.FixtureRequest) -> Iterator[DuckKernel]:
    made = worlds.make(ALONE[request.param])
    yield made
    made.close()


@pytest.fixture(scope="module")
def alone(on: DuckKernel) -> Bucketwise:
    return Bucketwise(on)


def compare(on: DuckKernel, alone: Bucketwise, buckets: dict[int, object], last: int) -> None:
    _, outputs = on.step(on.initial(), 0, last, buckets)
    expected, refused = alone.run(0, last, buckets)
    assert {b: canonical_hash(o.rows) for b, o in outputs.items() if o.rows is not None} == expected
    assert {b: len(o.rejects) for b, o in outputs.items() if o.rejects} == refused


@settings(max_examples=40, deadline=None)
@given(history=worlds.histories(LAST))
def test_state_and_rows_are_the_same_bytes_where_buckets_ran_together(on: DuckKernel, history: Buckets) -> None:
    buckets = worlds.ordered(on, history)
    together, outputs = on.step(on.initial(), 0, LAST, buckets)
    state, apart = on.initial(), {}
    for bucket in range(LAST):
        state, said = on.step(state, bucket, bucket + 1, {b: rows for b, rows in buckets.items() if b == bucket})
        apart |= said
    assert on.encode_state(together) == on.encode_state(state)
    for bucket, output in outputs.items():
        if output.rows is not None:
            assert on.encode(output.rows) == on.encode(apart[bucket].rows)


@settings(max_examples=40, deadline=None)
@given(history=worlds.histories(LAST), most=st.sampled_from([1, 7, 50_000]))
def test_a_slice_gives_what_its_buckets_give_alone(
    on: DuckKernel, alone: Bucketwise, history: Buckets, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on, "_slice_rows", most)
        patch.setattr(base, "CLOSE_ROWS", most)
        compare(on, alone, worlds.ordered(on, history), LAST)


def test_slices_of_many_rows_and_keys(on: DuckKernel, alone: Bucketwise) -> None:
    """Many times the engine's vectors, more groups than its first hash table holds, runs of equal values, nulls."""
    random = np.random.default_rng(11)
    buckets = {}
    for bucket, n in enumerate([9_000, 1, 0, 4_096, 30_000, 2_049, 12_000, 1, 700]):
        if n == 0:
            continue
        keys = np.array([f"k{i}" for i in range(5_000)])[random.integers(0, 5_000, n)]
        arrays = [
            pa.array(keys, mask=random.random(n) < 0.01),
            pa.array(np.repeat(random.integers(-3, 4, n // 5 + 1), 5)[:n], mask=random.random(n) < 0.1),
            pa.array(random.normal(size=n) * 10.0 ** random.integers(-15, 16, n), mask=random.random(n) < 0.1),
            pa.array(np.repeat([True, False], n // 2 + 1)[:n]),
            pa.array(np.sort(random.integers(bucket * WIDTH_US, (bucket + 1) * WIDTH_US, n))),
        ]
        part = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        buckets[bucket] = on.order([part] * len(on.spec.inputs))
    compare(on, alone, buckets, LAST)


def test_constants_without_a_key_are_added_row_by_row() -> None:
    rows: list[Row] = [("a", 1, 0.1, True, n) for n in range(1_000)]
    with worlds.kernel(lambda app, a, b: a.window("100ms").agg(s="sum(0.1::DOUBLE)")) as on:
        ((row,),) = worlds.run(on, {0: [rows, []]}, 0, 1).values()
    total = 0.0
    for _ in rows:
        total += 0.1
    assert row["s"] == total != 1_000 * 0.1


def test_a_poisoned_row_of_a_slice_costs_that_row_only() -> None:
    def row(bucket: int, n: int) -> Row:
        return ("long" if (bucket, n) == (7, 3) else "!", n, 1.0, True, bucket * WIDTH_US + n)

    history: Buckets = {bucket: [[row(bucket, n) for n in range(5)], []] for bucket in range(20)}
    with worlds.kernel(lambda app, a, b: a.map(y="'a' LIKE 'a' ESCAPE k", i="i")) as on:
        _, outputs = on.step(on.initial(), 0, 20, worlds.ordered(on, history))
    assert {b: o.rows.num_rows for b, o in outputs.items()} == {b: 4 if b == 7 else 5 for b in range(20)}
    (reject,) = outputs[7].rejects
    assert reject.reason.startswith("tuple at stime 700003: Invalid escape string")
    assert not any(o.rejects for b, o in outputs.items() if b != 7)


def test_rows_of_another_bucket_are_an_error() -> None:
    with (
        worlds.kernel(lambda app, a, b: a.filter("b")) as on,
        pytest.raises(ValueError, match=r"in none of the buckets 1\.\.1"),
    ):
        on.step(on.initial(), 0, 5, worlds.ordered(on, {1: [[("a", 1, 1.0, True, 5)], []]}))


@pytest.mark.parametrize("gap", [1, 10**9])
def test_a_gap_costs_nothing_and_closes_what_was_open(gap: int) -> None:
    later = 7 + gap
    history: Buckets = {
        7: [[("a", 1, 1.0, True, 7 * WIDTH_US)], []],
        later: [[("b", 2, 2.0, True, later * WIDTH_US)], []],
    }
    with worlds.kernel(lambda app, a, b: a.window("1s", every="500ms").agg(n="count(*)")) as on:
        found = worlds.run(on, history, 0, later + 30)
    ends = sorted(b + 1 for b in found)
    assert ends == sorted({end for b in history for end in (b // 5 * 5 + 5, b // 5 * 5 + 10)})
