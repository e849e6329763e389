"""Distinct against the model in plain Python."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.engine import DuckKernel
from borealis_py.engine.keyed import keeping, kept_rows
from tests.engine import worlds
from tests.engine.keyed import models
from tests.engine.worlds import WIDTH_US, Buckets, Row
from tests.sunion.order import total_order

LAST = 30
KEYS = {"k": 0, "i": 1, "x": 2, "b": 3}


def in_order(history: Buckets) -> list[Row]:
    rows: list[Row] = []
    for bucket in sorted(history):
        parts = history[bucket]
        rows += [parts[i][p] for i, p in total_order([[row[4] for row in part] for part in parts])]
    return rows


@pytest.mark.parametrize("by", [("k",), ("x",), ("k", "b"), ("i", "x")], ids=str)
@pytest.mark.parametrize(("within", "blocks"), [("1ms", 8), ("250ms", 8), ("2s", 8), ("2s", 1)])
def test_a_row_passes_where_the_model_lets_it_pass(
    by: tuple[str, ...], within: str, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_rows, "_BLOCKS", blocks)
    within_us = {"1ms": 1_000, "250ms": 250_000, "2s": 2_000_000}[within]
    with worlds.kernel(lambda app, a, b: app.union(a, b).distinct(*by, within=within)) as on:
        assert on.lookback_buckets == -(-within_us // WIDTH_US)
        assert str(on.operator_class) == "convergent-capable"
        check(on, by, within_us)


def check(on: DuckKernel, by: tuple[str, ...], within_us: int) -> None:
    @settings(max_examples=12, deadline=None)
    @given(history=worlds.histories(LAST), cuts=st.sets(st.integers(1, LAST - 1)))
    def check_one(history: Buckets, cuts: set[int]) -> None:
        state, found = on.initial(), []
        buckets = worlds.ordered(on, history)
        for first, until in zip([0, *sorted(cuts)], [*sorted(cuts), LAST], strict=True):
            state, outputs = on.step(state, first, until, {b: p for b, p in buckets.items() if first <= b < until})
            for output in outputs.values():
                found += output.rows.to_pylist()
        rows = in_order(history)
        keyed = [(tuple(row[KEYS[c]] for c in by), row[4]) for row in rows]
        expected = [dict(zip((*KEYS, "stime"), rows[i], strict=True)) for i in models.firsts(keyed, within_us)]
        assert list(map(repr, found)) == list(map(repr, expected))

    check_one()


def test_a_row_that_comes_again_and_again_passes_once() -> None:
    rows: Buckets = {b: [[("a", b, 0.0, True, b * WIDTH_US)], []] for b in (*range(0, 20, 2), 23)}
    with worlds.kernel(lambda app, a, b: a.distinct("k", within="200ms")) as on:
        assert [row["i"] for found in worlds.run(on, rows, 0, 30).values() for row in found] == [0, 23]


def test_equal_hashes_are_no_equal_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "hashed", lambda statement, keys: kept_rows.hashed(statement, keys) * 0)
    with worlds.kernel(lambda app, a, b: app.union(a, b).distinct("k", within="1s")) as on:
        check(on, ("k",), 1_000_000)
