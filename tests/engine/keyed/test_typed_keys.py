"""Joins and distinct by keys of every type, against the model in plain Python."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tests.engine import worlds
from tests.engine.keyed import models
from tests.engine.worlds import TYPED_COLUMNS, Buckets
from tests.sunion.order import total_order

LAST = 20
TYPES = {name: place for place, name in enumerate(TYPED_COLUMNS)}
KEYS = ["m", "w", "t", "d", "y", "j"]


def side(history: Buckets, of: int) -> list[Any]:
    """One input's rows in total order."""
    rows: list[Any] = []
    for bucket in sorted(history):
        part = history[bucket][of]
        rows += [part[p] for _, p in total_order([[row[-1] for row in part]])]
    return rows


@pytest.mark.parametrize("key", KEYS)
def test_a_join_by_a_key_of_any_type_gives_the_pairs_of_the_model(key: str) -> None:
    others = {"o" + name: name for name in TYPED_COLUMNS if name != key}
    build = lambda app, a, b: a.join(b.map(**{key: key}, **others), on=key, within=("-300ms", "1s"), how="left")  # noqa: E731
    with worlds.kernel(build, TYPED_COLUMNS) as on:

        @settings(max_examples=10, deadline=None)
        @given(history=worlds.typed_histories(LAST))
        def check(history: Buckets) -> None:
            found = [row for _, rows in sorted(worlds.run(on, history, 0, LAST + 12).items()) for row in rows]
            left, right = side(history, 0), side(history, 1)
            of = TYPES[key]
            pairs = models.pairs(
                [(row[of], row[-1]) for row in left], [(row[of], row[-1]) for row in right], -300_000, 1_000_000, True
            )
            number = TYPES["i"]
            assert [(row["i"], row["oi"]) for row in found] == [
                (left[i][number], None if j is None else right[j][number]) for _, i, j in pairs
            ]

        check()


@pytest.mark.parametrize("key", KEYS)
def test_distinct_by_a_key_of_any_type_passes_the_rows_of_the_model(key: str) -> None:
    with worlds.kernel(lambda app, a, b: a.distinct(key, within="700ms"), TYPED_COLUMNS) as on:

        @settings(max_examples=10, deadline=None)
        @given(history=worlds.typed_histories(LAST))
        def check(history: Buckets) -> None:
            found = [row["i"] for _, rows in sorted(worlds.run(on, history, 0, LAST).items()) for row in rows]
            rows = side(history, 0)
            passed = models.firsts([(row[TYPES[key]], row[-1]) for row in rows], 700_000)
            assert found == [rows[i][TYPES["i"]] for i in passed]

        check()
