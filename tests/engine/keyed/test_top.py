"""The first rows of each window and group against a plain sort in Python."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from borealis_py import App, QueryError
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.query import Stream
from borealis_py.testing import run
from tests.engine import worlds
from tests.engine.worlds import WIDTH_US, Buckets, Row
from tests.sunion.order import total_order

LAST = 24
KEYS = {"k": 0, "i": 1, "x": 2, "b": 3, "stime": 4}


def in_order(history: Buckets) -> list[Row]:
    rows: list[Row] = []
    for bucket in sorted(history):
        parts = history[bucket]
        rows += [parts[i][p] for i, p in total_order([[row[4] for row in part] for part in parts])]
    return rows


def compared(one: Any, other: Any, descending: bool, nulls_first: bool) -> int:
    """As SQL sorts: NaN above all numbers, nulls where they are wanted."""
    if one is None or other is None:
        return ((other is None) - (one is None)) * (1 if nulls_first else -1)
    values = [
        (math.isnan(v), 0.0 if math.isnan(v) else v)
        if isinstance(v, float)
        else v.encode()
        if isinstance(v, str)
        else v
        for v in (one, other)
    ]
    return ((values[0] > values[1]) - (values[0] < values[1])) * (-1 if descending else 1)


Order = list[tuple[str, bool, bool]]
"""(column, descending, nulls first)"""
ORDERS: dict[str, Order] = {
    "x DESC": [("x", True, False)],
    "i, x DESC NULLS FIRST": [("i", False, False), ("x", True, True)],
    "b NULLS FIRST, k DESC": [("b", False, True), ("k", True, False)],
    "stime DESC": [("stime", True, False)],
}


def expected(rows: list[Row], size: int, every: int, keys: tuple[str, ...], limit: int, order: Order) -> list[Any]:
    def before(one: Row, other: Row) -> int:
        signs = (compared(one[KEYS[c]], other[KEYS[c]], desc, first) for c, desc, first in order)
        return next((sign for sign in signs if sign), 0)

    found = []
    for end in range(every, LAST + 1, every):
        low, high = (end - size) * WIDTH_US, end * WIDTH_US
        inside = [r for r in rows if low <= r[4] < high]
        groups = {tuple(r[KEYS[key]] for key in keys) for r in inside}
        for group in sorted(groups, key=lambda g: [(v is None, (v or "").encode()) for v in g]):
            mine = [r for r in inside if tuple(r[KEYS[key]] for key in keys) == group]
            best = sorted(mine, key=functools.cmp_to_key(before))[:limit]  # equal rows keep their order
            found += [(low, high, *r[:4], n + 1, high - 1) for n, r in enumerate(best)]
    return found


@pytest.mark.parametrize("by", ORDERS)
@pytest.mark.parametrize(("size", "every", "keys", "limit"), [(5, 5, ("k",), 2), (6, 2, (), 3), (1, 1, ("k",), 1)])
def test_the_first_rows_are_those_of_the_model(
    by: str, size: int, every: int, keys: tuple[str, ...], limit: int
) -> None:
    def build(app: App, a: Any, b: Any) -> Any:
        windows = app.union(a, b).window(f"{size * 100}ms", every=f"{every * 100}ms")
        return (windows.group_by(*keys) if keys else windows).top(limit, by=by)

    with worlds.kernel(build) as on:
        assert on.lookback_buckets == size - 1
        assert str(on.operator_class) == "convergent-capable"
        check(on, size, every, keys, limit, ORDERS[by])


def check(on: DuckKernel, size: int, every: int, keys: tuple[str, ...], limit: int, order: Order) -> None:
    @settings(max_examples=15, deadline=None)
    @given(history=worlds.histories(LAST))
    def check_one(history: Buckets) -> None:
        _, outputs = on.step(on.initial(), 0, LAST, worlds.ordered(on, history))
        found = [tuple(row.values()) for bucket in sorted(outputs) for row in outputs[bucket].rows.to_pylist()]
        assert list(map(repr, found)) == list(map(repr, expected(in_order(history), size, every, keys, limit, order)))

    check_one()


def test_the_state_keeps_the_first_rows_of_each_bucket_only() -> None:
    with worlds.kernel(lambda app, a, b: a.window("1s").group_by("k").top(3, by="i DESC")) as on:
        rows: list[Row] = [("ab"[n % 2], n, 0.5, True, n) for n in range(1000)]
        state, _ = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
    ((bucket, kept),) = state[0]
    assert (bucket, kept.column("i").to_pylist()) == (0, [994, 995, 996, 997, 998, 999])


def test_a_value_that_the_order_refuses_costs_its_row() -> None:
    rows: list[Row] = [("1", 1, 0.0, True, 1), ("one", 2, 0.0, True, 2), ("3", 3, 0.0, True, 3)]
    with worlds.kernel(lambda app, a, b: a.window("100ms").top(5, by="CAST(k AS INT) DESC")) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
        assert [(row["i"], row["rank"]) for row in on.to_dicts(outputs[0].rows)] == [(3, 1), (1, 2)]
    (letter,) = outputs[0].rejects
    assert letter.reason.startswith("tuple at stime 2: Conversion Error: Could not convert string 'one'")


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("x DESC LIMIT 3", r"write what follows ORDER BY, without LIMIT, FROM or WHERE"),
        ("x; SELECT 1", r"write what follows ORDER BY"),
        ("1", r"a constant orders nothing: name a column"),
        ("sum(i)", r"an order is over rows, not over aggregates"),
        ("k COLLATE nocase", r"COLLATE is not allowed here: order by lower"),
        ("[x]", r"an order is by single values, not by lists"),
        ("x,,", r"does not parse: syntax error at or near"),
        ("nope", r"unknown column 'nope' in top\(\) of query 'q'"),
        ("x > now()", r"function now\(\) is not allowed"),
        ("ALL", r"name the columns"),
    ],
)
def test_what_is_no_order_is_refused(by: str, said: str) -> None:
    app = App("test")
    app.query("q", app.source("a", schema=worlds.COLUMNS).window("1s").top(3, by=by))
    with pytest.raises(QueryError, match=said):
        compile_query(app.describe(), "q")


SALES = [{"k": k, "euros": e} for k, e in (("a", "1.00"), ("b", "3.00"), ("c", "2.00"), ("a", "5.00"))]


def best(build: Callable[[Stream], Stream]) -> list[dict[str, object]]:
    app = App("p")
    app.query("q", build(app.source("s", {"k": "string", "euros": "decimal(12,2)"})))
    return [dict(row) for row in run(app, {"s": SALES})["q"]]


def totals(sales: Stream) -> Stream:
    return sales.window("1s").group_by("k").agg(euros="sum(euros)")


def test_the_best_of_a_windows_results_are_ranked_in_the_window_of_the_same_times() -> None:
    found = best(lambda s: totals(s).window("1s").top(2, by="euros DESC"))
    assert [(row["k"], row["euros"], row["rank"]) for row in found] == [("a", "6.00", 1), ("b", "3.00", 2)]
    whole = best(totals)
    assert {(row["window_start"], row["window_end"]) for row in found} == {
        (row["window_start"], row["window_end"]) for row in whole
    }


def test_so_are_those_that_are_left_by_filters() -> None:
    found = best(lambda s: totals(s).filter("euros < 5").filter("k <> ''").window("1s").top(1, by="euros DESC"))
    assert [row["k"] for row in found] == ["b"]


@pytest.mark.parametrize(("size", "every"), [("2s", "2s"), ("2s", "1s")])
def test_windows_of_other_times_have_their_own_beside_those_of_the_results(size: str, every: str) -> None:
    with pytest.raises(QueryError, match=r"rename 'window_start', 'window_end' with map\(\) before the window"):
        best(lambda s: totals(s).window(size, every=every).top(1, by="euros DESC"))
    with pytest.raises(QueryError, match=r"rename 'window_start'"):
        best(lambda s: s.window("2s", every="1s").agg(n="count(*)").window("2s", every="1s").top(1, by="n"))


def test_an_order_by_aggregates_says_where_they_go() -> None:
    with pytest.raises(QueryError, match=r"aggregate first, then \.window\(\.\.\.\)\.top\(\) of the same"):
        best(lambda s: s.window("1s").group_by("k").top(1, by="sum(euros) DESC"))
