"""Every aggregate over windows cut into buckets, against the engine's own answer over the whole window at once."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from borealis_py import QueryError
from borealis_py.engine.sql.duck_statement import Duck
from tests.engine import worlds
from tests.engine.worlds import WIDTH_US, Row

DECOMPOSED = [
    "count(*)", "count(x)", "count(*) FILTER (WHERE b)", "sum(x) FILTER (WHERE i > 0)", "sum(i)",
    "sum(b::INT)", "sum(i % 3)", "min(x)", "max(k)", "min(DISTINCT i)", "max(stime)", "avg(i)",
    "avg(x) FILTER (WHERE b)", "avg(x / 4)", "mean(x)", "bool_and(b)", "bool_or(b)", "bit_or(i)",
    "bit_and(i)", "bit_xor(i)", "count_if(x > 0)", "sum(x) / count(*)", "sum(i) // 7", "round(avg(x), 1)",
    "coalesce(sum(x) FILTER (WHERE false), -1)", "max(x) - min(x)", "sum(0.25)",
    "sum(CASE WHEN b THEN 0.5 ELSE 2 END)", "max(CAST(i AS VARCHAR))", "epoch_us(max(make_timestamp(stime)))",
    "count(*) > 3 AND max(i) > 0", "k || count(*)",
]  # fmt: skip
FROM_ROWS = [
    "count(DISTINCT i)", "sum(DISTINCT i)", "avg(DISTINCT i)", "median(x)", "quantile_cont(x, 0.25)",
    "quantile_disc(i, 0.9)", "quantile_cont(x, [0.5, 0.9])", "stddev(i)", "var_pop(i)", "corr(i, stime)",
    "first(x)", "last(k || i)", "any_value(i)", "list(i)", "list(x ORDER BY i DESC, stime)",
    "list(DISTINCT i)", "array_agg(b)", "string_agg(CAST(i AS VARCHAR), '-')", "arg_max(k, x)",
    "arg_min(i, x)", "max_by(stime, i)", "max(i, 2)", "product(i % 3 + 1)", "approx_count_distinct(i)",
    "mad(x)", "skewness(i)", "list(i)[1]", "sum(x) + median(x)", "mode(b)", "entropy(i)", "sum(x ORDER BY i)",
]  # fmt: skip


def rows_of(bucket: int, draw: random.Random) -> list[Row]:
    """Doubles are quarters, so that every sum is exact whatever its order."""
    return [
        (
            draw.choice(["a", "b", None]),
            draw.choice([draw.randint(-9, 9), None]),
            draw.choice([draw.randint(-400, 400) / 4, None]),
            draw.choice([True, False, None]),
            bucket * WIDTH_US + n,
        )
        for n in range(draw.randint(0, 7))
    ]


@pytest.mark.parametrize("expression", DECOMPOSED + FROM_ROWS)
def test_a_window_in_pieces_is_the_window_at_once(expression: str) -> None:
    draw = random.Random(expression)
    history = {b: [rows_of(b, draw), []] for b in range(10)}
    rows = [r for b in history for r in history[b][0]]
    in_full = expression.replace("list(i)", "list(i ORDER BY stime)").replace(
        "list(DISTINCT i)", "list(DISTINCT i ORDER BY i)"
    )
    duck = Duck()
    whole = duck.statement(
        lambda f: f"SELECT k, {in_full} AS v FROM {f} GROUP BY k ORDER BY k NULLS LAST", worlds.SCHEMA
    )
    expected = whole.run(worlds.batch(rows)).to_pylist()
    duck.close()
    with worlds.kernel(lambda app, a, b: a.window("1s").group_by("k").agg(v=expression)) as on:
        state, _ = on.step(on.initial(), 0, 9, worlds.ordered(on, {b: history[b] for b in range(9)}))
        assert (state[0][0][1].schema.names[-1].startswith("__p")) == (expression in DECOMPOSED)
        found = worlds.run(on, history, 0, 10)[9]
    assert [row["k"] for row in found] == [row["k"] for row in expected]
    for row, other in zip(found, expected, strict=True):
        value = other["v"]
        if isinstance(value, Decimal):  # of integers the engine makes a sum of 128 bits, which a column has as int64
            value = f"{value:f}" if isinstance(row["v"], str) else int(value)
        assert row["v"] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value)


def test_ties_of_order_dependent_aggregates_go_by_the_total_order() -> None:
    """Two inputs with equal stimes: the first input's rows come first, wherever the buckets are cut."""
    one: list[Row] = [("k", 1, 1.0, True, 150_000), ("k", 2, 1.0, True, 160_000)]
    two: list[Row] = [("k", 3, 1.0, True, 150_000), ("k", 4, 1.0, True, 150_000)]
    aggregates = {"all": "list(i)", "f": "first(i)", "l": "last(i)", "m": "arg_max(i, x)", "o": "list(i ORDER BY b)"}
    with worlds.kernel(lambda app, a, b: app.union(a, b).window("200ms").agg(**aggregates)) as on:
        (row,) = worlds.run(on, {1: [one, two]}, 0, 2)[1]
        assert (row["all"], row["f"], row["l"], row["m"], row["o"]) == ([1, 3, 4, 2], 1, 2, 1, [1, 3, 4, 2])


def test_an_aggregate_that_the_engine_cannot_order_is_refused_when_loading() -> None:
    with pytest.raises(QueryError, match="of query 'q'"):
        worlds.make(lambda app, a, b: a.window("1s").agg(v="first(DISTINCT i ORDER BY x)"))
