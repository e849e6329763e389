"""The kernel against a naive model in plain Python: order, windows, aggregates, empty windows, types."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.engine import DuckKernel, merge
from tests.engine import worlds
from tests.engine.worlds import WIDTH_US, Buckets, Row
from tests.sunion.order import total_order

LAST = 24


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=8), min_size=1, max_size=4))
def test_merge_is_the_total_order(stimes: list[list[int]]) -> None:
    def part(i: int, times: list[int]) -> list[Row]:
        return [(f"{i}/{position}", None, None, None, t) for position, t in enumerate(times)]

    merged = merge([worlds.batch(part(i, t)) if t else None for i, t in enumerate(stimes)])
    found = [] if merged is None else merged.column("k").to_pylist()
    assert found == [f"{i}/{position}" for i, position in total_order(stimes)]


def test_merge_keeps_many_equal_stimes_in_their_order() -> None:
    parts = [worlds.batch([(f"{i}/{n}", None, None, None, n % 2) for n in range(300)]) for i in range(3)]
    merged = merge(parts)
    assert merged is not None
    order = total_order([[n % 2 for n in range(300)]] * 3)
    assert merged.column("k").to_pylist() == [f"{i}/{position}" for i, position in order]


def in_order(history: Buckets) -> list[Row]:
    """All rows in total order."""
    rows: list[Row] = []
    for bucket in sorted(history):
        parts = history[bucket]
        rows += [parts[i][p] for i, p in total_order([[row[4] for row in part] for part in parts])]
    return rows


def windows(rows: list[Row], size: int, every: int) -> list[tuple[int, int, str | None, list[Row]]]:
    """(start, end, key, rows) of every window with rows, by end and key (nulls last); size and every in buckets."""
    found = []
    for end in range(every, LAST + 1, every):
        low, high = (end - size) * WIDTH_US, end * WIDTH_US
        inside = [r for r in rows if low <= r[4] < high]
        for key in sorted({r[0] for r in inside}, key=lambda k: (k is None, (k or "").encode())):
            found.append((low, high, key, [r for r in inside if r[0] == key]))
    return found


@pytest.fixture(scope="module", params=[(5, 5), (10, 2), (6, 3), (1, 1)], ids=str)
def shape(request: pytest.FixtureRequest) -> tuple[int, int]:
    return tuple(request.param)


@pytest.fixture(scope="module")
def decomposed(shape: tuple[int, int]) -> Iterator[DuckKernel]:
    size, every = (f"{n * 100}ms" for n in shape)
    made = worlds.make(
        lambda app, a, b: app.union(a, b).filter("b IS DISTINCT FROM false").window(size, every=every).group_by("k")
        .agg(n="count(*)", m="count(x)", s="sum(i)", t="sum(x)", v="avg(x / 60.0)", lo="min(i)", hi="max(k || '!')")
    )  # fmt: skip
    yield made
    made.close()


@pytest.fixture(scope="module")
def by_rows(shape: tuple[int, int]) -> Iterator[DuckKernel]:
    size, every = (f"{n * 100}ms" for n in shape)
    made = worlds.make(
        lambda app, a, b: app.union(a, b).window(size, every=every).group_by("k")
        .agg(all="list(i)", first="first(stime)", last="last(i)", mid="median(stime)", u="count(DISTINCT i)",
             t="string_agg(CAST(stime AS VARCHAR), ',')", early="arg_min(i, b)")
    )  # fmt: skip
    yield made
    made.close()


def close_to(found: object, expected: float | None) -> bool:
    return found is None if expected is None else math.isclose(float(str(found)), expected, rel_tol=1e-9, abs_tol=1e-9)


@settings(max_examples=12, deadline=None)
@given(history=worlds.histories(LAST, tame=True))
def test_aggregates_that_decompose(decomposed: DuckKernel, shape: tuple[int, int], history: Buckets) -> None:
    rows = [r for r in in_order(history) if r[3] is not False]
    found = worlds.run(decomposed, history, 0, LAST)
    flat = [row for bucket in sorted(found) for row in found[bucket]]
    assert all(row["window_end"] == (bucket + 1) * WIDTH_US for bucket in found for row in found[bucket])
    expected = windows(rows, *shape)
    assert [(r["window_start"], r["window_end"], r["k"]) for r in flat] == [w[:3] for w in expected]
    for row, (_, _, key, inside) in zip(flat, expected, strict=True):
        xs = [r[2] for r in inside if r[2] is not None]
        integers = [r[1] for r in inside if r[1] is not None]
        assert (row["n"], row["m"]) == (len(inside), len(xs))
        assert row["s"] == (sum(integers) if integers else None)
        assert row["lo"] == min(integers, default=None)
        assert row["hi"] == (None if key is None else key + "!")
        assert close_to(row["t"], math.fsum(xs) if xs else None)
        assert close_to(row["v"], math.fsum(xs) / 60 / len(xs) if xs else None)


@settings(max_examples=12, deadline=None)
@given(history=worlds.histories(LAST, tame=True))
def test_aggregates_that_need_the_rows_in_their_order(
    by_rows: DuckKernel, shape: tuple[int, int], history: Buckets
) -> None:
    found = worlds.run(by_rows, history, 0, LAST)
    flat = [row for bucket in sorted(found) for row in found[bucket]]
    expected = windows(in_order(history), *shape)
    assert [(r["window_start"], r["window_end"], r["k"]) for r in flat] == [w[:3] for w in expected]
    for row, (_, _, _, inside) in zip(flat, expected, strict=True):
        integers = [r[1] for r in inside]
        assert row["all"] == integers
        assert (row["first"], row["last"]) == (inside[0][4], integers[-1])
        assert row["mid"] == statistics.median(r[4] for r in inside)
        assert row["u"] == len({i for i in integers if i is not None})
        assert row["t"] == ",".join(str(r[4]) for r in inside)
        usable = [r for r in inside if r[3] is not None and r[1] is not None]
        assert row["early"] == min(usable, key=lambda r: bool(r[3]), default=(None, None))[1]


@settings(max_examples=15, deadline=None)
@given(history=worlds.histories(LAST, tame=True))
def test_filter_and_map_keep_order_and_stime(stateless: DuckKernel, history: Buckets) -> None:
    _, outputs = stateless.step(stateless.initial(), 0, LAST, worlds.ordered(stateless, history))
    found = [
        (row["k2"], row["y"], stime)
        for b in sorted(outputs)
        for row, stime in zip(
            stateless.to_dicts(outputs[b].rows), outputs[b].rows.column("stime").to_pylist(), strict=True
        )
    ]
    rows = [r for r in in_order(history) if r[2] is not None and r[2] > 0 and r[0] is not None]
    assert found == [(r[0] + "?", r[2] * 2, r[4]) for r in rows if r[2] * 2 < 1000]


@pytest.fixture(scope="module")
def stateless() -> Iterator[DuckKernel]:
    made = worlds.make(
        lambda app, a, b: (
            app.union(a, b).filter("x > 0 AND k IS NOT NULL").map(k2="k || '?'", y="x * 2").filter("y < 1000")
        )
    )
    yield made
    made.close()


def test_map_may_swap_columns_and_names_mean_the_old_ones() -> None:
    with worlds.kernel(lambda app, a, b: a.map(k="k", i="stime", x="i", b="x > i")) as on:
        assert worlds.run(on, {0: [[("a", 7, 9.5, None, 42)], []]}, 0, 1) == {
            0: [{"k": "a", "i": 42, "x": 7, "b": True}]
        }


def test_types_of_results() -> None:
    expressions = {"tiny": "1::TINYINT", "dec": "x / 60.0 * 1.5::DECIMAL(4, 2)", "f": "x::FLOAT", "n": "NULL",
                   "l": "[i, 1]", "big": "i::HUGEINT", "t": "epoch_us(make_timestamp(stime))"}  # fmt: skip
    with worlds.kernel(lambda app, a, b: a.map(**expressions)) as on:
        types = {f.name: str(f.type) for f in on.output_schema}
        assert types == {"tiny": "int64", "dec": "double", "f": "double", "n": "int64", "l": "list<item: int64>",
                         "big": "int64", "t": "int64", "stime": "int64"}  # fmt: skip
        assert worlds.run(on, {0: [[("a", 7, 60.0, None, 42)], []]}, 0, 1) == {
            0: [{"tiny": 1, "dec": 1.5, "f": 60.0, "n": None, "l": [7, 1], "big": 7, "t": 42}]
        }


def test_long_empty_ranges_cost_nothing() -> None:
    """A year of empty buckets, three windows with rows; state is empty once no open window needs it."""
    with worlds.kernel(lambda app, a, b: a.window("1s", every="500ms").agg(n="count(*)")) as on:
        year = 10 * 86_400 * 365
        bucket = year // 2
        rows = [("a", 1, 1.0, True, bucket * WIDTH_US)]
        state, outputs = on.step(on.initial(), 0, year, worlds.ordered(on, {bucket: [rows, []]}))
        assert [b - bucket for b in outputs] == [4, 9]
        assert state == ((),)
        assert on.step(state, year, 2 * year, {}) == (((),), {})


def test_state_keeps_keys_and_not_tuples() -> None:
    with worlds.kernel(lambda app, a, b: a.window("1s").group_by("k").agg(s="sum(x)")) as on:
        rows = [("ab"[n % 2], n, 0.5, True, n) for n in range(1000)]
        state, _ = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
        assert [(bucket, part.num_rows) for bucket, part in state[0]] == [(0, 2)]


def test_the_lookback_is_what_an_output_depends_on() -> None:
    with worlds.kernel(lambda app, a, b: a.filter("b")) as on:
        assert on.lookback_buckets == 0
    with worlds.kernel(lambda app, a, b: a.window("1s", every="200ms").agg(n="count(*)")) as on:
        assert on.lookback_buckets == 9
    with worlds.kernel(lambda app, a, b: a.window("1s").agg(n="count(*)").window("2s").agg(m="sum(n)")) as on:
        assert on.lookback_buckets == 28


def test_rows_outside_of_the_step_are_a_fault() -> None:
    with (
        worlds.kernel(lambda app, a, b: a.filter("b")) as on,
        pytest.raises(ValueError, match=r"rows of buckets 5\.\.5 in a step over \[0, 5\)"),
    ):
        on.step(on.initial(), 0, 5, worlds.ordered(on, {5: [[("a", 1, 1.0, True, 5 * WIDTH_US)], []]}))
