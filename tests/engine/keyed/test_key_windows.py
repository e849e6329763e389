"""Count and session windows against a model in plain Python, bit for bit: sums are added in the rows' order."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.engine import DuckKernel
from borealis_py.engine.keyed import compacted_blocks, kept_rows, key_windows
from borealis_py.query import Stream
from borealis_py.query.stream import Windowed
from tests.engine import worlds
from tests.engine.keyed import models
from tests.engine.worlds import WIDTH_US, Buckets, Row
from tests.examples import examples
from tests.sunion.order import total_order

LAST = 30
CLOSED = 60
"""By then all sessions here are closed."""
KEYS = {"k": 0, "i": 1, "x": 2, "b": 3}
AGGREGATES = {
    "n": "count(*)", "all": "list(x)", "first": "first(stime)", "last": "last(i)", "s": "sum(x)",
    "some": "sum(x) FILTER (WHERE b)", "t": "sum(i % 1000)", "u": "count(DISTINCT b)",
}  # fmt: skip
Model = Callable[[list[models.Keyed]], list[tuple[int, list[int]]]]
"""(end, rows) of each window of rows."""


def in_order(history: Buckets) -> list[Row]:
    rows: list[Row] = []
    for bucket in sorted(history):
        parts = history[bucket]
        rows += [parts[i][p] for i, p in total_order([[row[4] for row in part] for part in parts])]
    return rows


def kernel(by: tuple[str, ...], **kind: Any) -> Any:
    def build(app: App, a: Stream, b: Stream) -> Stream:
        windows: Windowed = app.union(a, b).window(**kind)
        return (windows.group_by(*by) if by else windows).agg(**AGGREGATES)

    return worlds.kernel(build)


def counted(size: int) -> Model:
    def model(rows: list[models.Keyed]) -> list[tuple[int, list[int]]]:
        return [(rows[window[-1]][1] + 1, window) for window in models.count_windows(rows, size)]

    return model


def in_sessions(gap_us: int, most_us: int, by: tuple[str, ...]) -> Model:
    def model(rows: list[models.Keyed]) -> list[tuple[int, list[int]]]:
        found = models.sessions(rows, gap_us, most_us)
        return sorted(found, key=lambda w: (w[0], [ascending(part) for part in rows[w[1][0]][0]]))

    return model


def ascending(value: Any) -> tuple[Any, ...]:
    """How the results of one instant are ordered by key: nulls last, NaN above all numbers."""
    if value is None:
        return (2,)
    if isinstance(value, str):
        return (0, value.encode())
    return (1,) if math.isnan(value) else (0, value)


def of_group(key: Any) -> Any:
    """A key as the engine tells it: its zero has no sign."""
    return key + 0.0 if isinstance(key, float) else key


def added(values: list[float | None]) -> float | None:
    """One by one, from zero."""
    total = None
    for value in values:
        if value is not None:
            total = (total or 0.0) + value
    return total


def expected(by: tuple[str, ...], end: int, rows: list[Row]) -> dict[str, Any]:
    integers = [math.fmod(row[1], 1000) for row in rows if row[1] is not None]
    return {
        "window_start": rows[0][4], "window_end": end, **{name: of_group(rows[0][KEYS[name]]) for name in by},
        "n": len(rows), "all": [row[2] for row in rows], "first": rows[0][4], "last": rows[-1][1],
        "s": added([row[2] for row in rows]), "some": added([row[2] for row in rows if row[3]]),
        "t": int(sum(integers)) if integers else None, "u": len({row[3] for row in rows} - {None}), "stime": end - 1,
    }  # fmt: skip


def check(on: DuckKernel, by: tuple[str, ...], model: Model) -> None:
    @settings(max_examples=examples(12), deadline=None)
    @given(history=worlds.histories(LAST), cuts=st.sets(st.integers(1, LAST - 1)))
    def check_one(history: Buckets, cuts: set[int]) -> None:
        state, found = on.initial(), []
        buckets = worlds.ordered(on, history)
        for first, until in itertools.pairwise([0, *sorted(cuts), LAST, CLOSED]):
            state, outputs = on.step(state, first, until, {b: p for b, p in buckets.items() if first <= b < until})
            for bucket, output in sorted(outputs.items()):
                assert not output.rejects
                found += output.rows.to_pylist()
                assert {row["stime"] // WIDTH_US for row in output.rows.to_pylist()} == {bucket}
            if until == LAST:
                whole, _ = on.step(on.initial(), 0, LAST, buckets)
                assert worlds.state_prints(state) == worlds.state_prints(whole)
        rows = in_order(history)
        windows = model([(tuple(row[KEYS[name]] for name in by), row[4]) for row in rows])
        assert list(map(repr, found)) == [repr(expected(by, end, [rows[i] for i in w])) for end, w in windows]

    check_one()


@pytest.mark.parametrize(
    ("by", "size", "level"), [(("k",), 3, 8), (("x", "b"), 2, 1), ((), 7, 2), (("i",), 1, 1), (("k",), 4, 2)]
)
def test_each_window_has_so_many_rows_of_its_key_as_in_the_model(
    by: tuple[str, ...], size: int, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacted_blocks, "LEVEL", level)
    with kernel(by, rows=size) as on:
        assert on.lookback_buckets > 10**15
        assert str(on.operator_class) == "deterministic"
        check(on, by, counted(size))


@pytest.mark.parametrize(
    ("by", "gap", "most", "level"),
    [
        (("k",), "600ms", "1s", 8),
        (("x", "b"), "900ms", "2s", 1),
        ((), "70ms", "110ms", 2),
        (("k",), "400ms", "400ms", 2),
        (("b",), "300ms", "2900ms", 1),
    ],
)
def test_each_session_has_the_rows_of_the_model(
    by: tuple[str, ...], gap: str, most: str, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacted_blocks, "LEVEL", level)
    gap_us, most_us = (1000 * int(text.removesuffix("ms").replace("s", "000")) for text in (gap, most))
    with kernel(by, gap=gap, most=most) as on:
        assert on.lookback_buckets > 10**15
        assert str(on.operator_class) == "deterministic"
        check(on, by, in_sessions(gap_us, most_us, by))


def test_equal_hashes_are_no_equal_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_windows, "hashed", lambda statement, keys: kept_rows.hashed(statement, keys) * 0)
    monkeypatch.setattr(compacted_blocks, "LEVEL", 2)
    with kernel(("k",), rows=3) as on:
        check(on, ("k",), counted(3))
    with kernel(("k",), gap="600ms", most="1s") as on:
        check(on, ("k",), in_sessions(600_000, 1_000_000, ("k",)))


def test_windows_that_are_closed_apart_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_windows, "CLOSE_ROWS", 5)
    with kernel(("k",), rows=3) as on:
        check(on, ("k",), counted(3))
    with kernel(("b",), gap="600ms", most="1s") as on:
        check(on, ("b",), in_sessions(600_000, 1_000_000, ("b",)))


def test_a_row_at_the_gap_or_at_most_begins_the_next_session_and_each_closes_in_the_bucket_of_its_last_instant() -> (
    None
):
    times = {"a": [0, 199_999, 399_998, 400_000, 500_000, 700_000, 5_000_000], "b": [400_001], "c": [200_000]}
    rows: list[Row] = sorted(((k, 1, 1.0, True, at) for k, ats in times.items() for at in ats), key=lambda row: row[4])
    history: Buckets = {b: [[row for row in rows if row[4] // WIDTH_US == b], []] for b in range(CLOSED)}
    with kernel(("k",), gap="200ms", most="400ms") as on:
        buckets = worlds.ordered(on, history)
        for size in (1, CLOSED):
            state, found = on.initial(), []
            for first in range(0, CLOSED, size):
                some = {b: part for b, part in buckets.items() if first <= b < first + size}
                state, outputs = on.step(state, first, first + size, some)
                for bucket, output in sorted(outputs.items()):
                    found += [(bucket, *list(row.values())[:4]) for row in output.rows.to_pylist()]
            assert found == [
                (3, 0, 400_000, "a", 3),
                (3, 200_000, 400_000, "c", 1),
                (6, 400_001, 600_001, "b", 1),
                (6, 400_000, 700_000, "a", 2),
                (8, 700_000, 900_000, "a", 1),
                (51, 5_000_000, 5_200_000, "a", 1),
            ]


def test_state_has_the_rows_of_open_windows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And of a key whose window is full one row, until nothing older is left that it hides."""
    monkeypatch.setattr(compacted_blocks, "LEVEL", 2)
    rows = {b: [[("ab"[b % 2], b, 1.0, True, b * WIDTH_US)], []] for b in range(40)}
    with kernel(("k",), rows=10) as on:
        state, _ = on.step(on.initial(), 0, 36, worlds.ordered(on, {b: rows[b] for b in range(36)}))
        assert sum(part.num_rows for _, part in state[0]) == 16
        state, _ = on.step(state, 36, 40, worlds.ordered(on, {b: rows[b] for b in range(36, 40)}))
        assert state == ((),)
    with kernel(("k",), gap="1s", most="2s") as on:
        state, _ = on.step(on.initial(), 0, 40, worlds.ordered(on, rows))
        assert sum(part.num_rows for _, part in state[0]) == 20
        late = {600: [[("c", 1, 1.0, True, 600 * WIDTH_US)], []]}
        state, _ = on.step(state, 40, 604, worlds.ordered(on, late))
        assert [part.column("k").to_pylist() for _, part in state[0]] == [["c"]]


def test_a_long_silence_costs_nothing_and_closes_what_is_open() -> None:
    with kernel(("k",), gap="1d", most="2d") as on:
        state, _ = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [[("a", 1, 1.0, True, 5)], []]}))
        _, outputs = on.step(state, 1, 10 * 86_400 * 365, {})
    (bucket,) = outputs
    assert bucket == 10 * 86_400
    assert outputs[bucket].rows.column("window_end").to_pylist() == [86_400_000_005]


@pytest.mark.parametrize("kind", [{"rows": 2}, {"gap": "1s", "most": "2s"}], ids=str)
def test_a_window_that_fails_is_a_dead_letter_and_others_go_on(kind: dict[str, Any]) -> None:
    wide = 2**62
    rows: list[Row] = [
        ("a", wide, 0.0, True, 1),
        ("b", 1, 0.0, True, 2),
        ("a", wide, 0.0, True, 3),
        ("b", 2, 0.0, True, 4),
    ]
    with worlds.kernel(lambda app, a, b: a.window(**kind).group_by("k").agg(s="sum(i)")) as on:
        _, outputs = on.step(on.initial(), 0, CLOSED, worlds.ordered(on, {0: [rows, []]}))
        assert [row["s"] for o in outputs.values() if o.rows is not None for row in on.to_dicts(o.rows)] == [3]
    (letter,) = (reject for output in outputs.values() for reject in output.rejects)
    end = 4 if "rows" in kind else 1_000_003
    assert letter.reason.startswith(f"window [1, {end}) us, k='a': ")
    assert json.loads(letter.raw) == {"window_start": 1, "window_end": end, "k": "a"}
