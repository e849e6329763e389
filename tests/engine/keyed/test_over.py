"""Values over the last rows of a key against a model in plain Python."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.engine.keyed import keeping, kept_rows, over
from borealis_py.query import Stream
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


def frames(rows: list[Row], by: tuple[str, ...], last: int, within_us: int) -> list[list[Row]]:
    """The frame of each row."""

    def key(row: Row) -> tuple[Any, ...]:
        return tuple("null" if row[KEYS[c]] is None else row[KEYS[c]] for c in by)

    found = []
    for n, row in enumerate(rows):
        before = [r for r in rows[: n + 1] if models.same(key(r), key(row)) and row[4] - r[4] <= within_us]
        found.append(before[-last:])
    return found


def expected(frame: list[Row], k: str = "k") -> dict[str, Any]:
    *_, row = frame
    xs = [r[2] for r in frame if r[2] is not None]
    integers = [r[1] for r in frame]
    return {
        "k": row[0],
        "before": frame[-2][1] if len(frame) > 1 else None,
        "second": frame[-3][1] if len(frame) > 2 else None,
        "all": integers,
        "n": len(frame),
        "some": len([r for r in frame if r[3]]),
        "first": frame[0][4],
        "longer": None if row[2] is None else (row[2] > 0) == (len(frame) > 1),
        "s": sum(xs) if xs else None,
        "t": sum(2 * i for i in integers if i is not None) if any(i is not None for i in integers) else None,
    }


MAP = {
    "k": "k", "before": "lag(i)", "second": "lag(i, 2)", "all": "list(i)", "n": "count(*)",
    "some": "count(*) FILTER (WHERE b)", "first": "first(stime)", "longer": "(x > 0) = (count(*) > 1)", "s": "sum(x)",
    "t": "sum(2 * i)",
}  # fmt: skip


@pytest.mark.parametrize(
    ("by", "last", "within", "blocks"),
    [
        (("k",), 3, "1s", 8),
        (("x", "b"), 3, "250ms", 8),
        ((), 5, "400ms", 8),
        (("k",), 4, "2s", 1),
        (("i",), 3, "1ms", 8),
    ],
)
def test_each_row_sees_the_frame_of_the_model(
    by: tuple[str, ...], last: int, within: str, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_rows, "_BLOCKS", blocks)
    within_us = {"1s": 1_000_000, "250ms": 250_000, "400ms": 400_000, "2s": 2_000_000, "1ms": 1_000}[within]
    with worlds.kernel(lambda app, a, b: app.union(a, b).over(*by, last=last, within=within).map(**MAP)) as on:
        assert on.lookback_buckets == -(-within_us // WIDTH_US)
        assert str(on.operator_class) == "convergent-capable"
        check(on, by, last, within_us)


def check(on: DuckKernel, by: tuple[str, ...], last: int, within_us: int) -> None:
    @settings(max_examples=12, deadline=None)
    @given(history=worlds.histories(LAST, tame=True), cuts=st.sets(st.integers(1, LAST - 1)))
    def check_one(history: Buckets, cuts: set[int]) -> None:
        state, found = on.initial(), []
        buckets = worlds.ordered(on, history)
        for first, until in zip([0, *sorted(cuts)], [*sorted(cuts), LAST], strict=True):
            state, outputs = on.step(state, first, until, {b: p for b, p in buckets.items() if first <= b < until})
            for output in outputs.values():
                assert not output.rejects
                found += output.rows.to_pylist()
        rows = in_order(history)
        assert [row.pop("stime") for row in found] == [row[4] for row in rows]
        for row, frame in zip(found, frames(rows, by, last, within_us), strict=True):
            model = expected(frame)
            ours, theirs = row.pop("s"), model.pop("s")
            assert row == model
            assert ours == theirs or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)

    check_one()


def test_equal_hashes_are_no_equal_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "hashed", lambda statement, keys: kept_rows.hashed(statement, keys) * 0)
    with worlds.kernel(lambda app, a, b: app.union(a, b).over("k", last=3, within="1s").map(**MAP)) as on:
        check(on, ("k",), 3, 1_000_000)


def test_frames_that_are_computed_apart_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over, "FRAME_ROWS", 7)
    with worlds.kernel(lambda app, a, b: app.union(a, b).over("k", last=3, within="1s").map(**MAP)) as on:
        check(on, ("k",), 3, 1_000_000)


def test_long_frames_add_up_alike_whatever_lies_before_them() -> None:
    """More rows than the engine's own frames sum in one go (16), of magnitudes that show any other order."""
    values = [1e16, 1.0, -1e16, 0.1, 3.0, 1e-7] * 20
    rows: list[Row] = [("a", n, x, True, n * 1_000) for n, x in enumerate(values)]
    others: list[Row] = [("b", n, 1e15 / (n + 1), True, n * 1_000) for n in range(77)]
    with worlds.kernel(lambda app, a, b: app.union(b, a).over("k", last=50, within="10s").map(k="k", s="sum(x)")) as on:
        alone = on.to_dicts(on.step(on.initial(), 0, 2, worlds.ordered(on, split(rows, [])))[1][1].rows)
        among = on.to_dicts(on.step(on.initial(), 0, 2, worlds.ordered(on, split(rows, others)))[1][1].rows)
    assert alone == [row for row in among if row["k"] == "a"]


def split(rows: list[Row], others: list[Row]) -> Buckets:
    parts = [rows, others]
    return {b: [[r for r in part if r[4] // WIDTH_US == b] for part in parts] for b in (0, 1)}


def test_a_value_that_an_argument_refuses_costs_its_row_and_no_frame() -> None:
    rows: list[Row] = [("1", 1, 0.0, True, 1), ("one", 2, 0.0, True, 2), ("3", 3, 0.0, True, 3)]
    with worlds.kernel(
        lambda app, a, b: a.over(last=3, within="1s").map(i="i", s="sum(CAST(k AS INT))", before="lag(i)")
    ) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
        found = on.to_dicts(outputs[0].rows)
    assert found == [{"i": 1, "s": 1, "before": None}, {"i": 3, "s": 4, "before": 1}]
    (letter,) = outputs[0].rejects
    assert letter.reason.startswith("tuple at stime 2: Conversion Error: Could not convert string 'one'")


def test_a_text_counts_once_in_its_row_however_often_its_frame_uses_it() -> None:
    app = App("test")
    framed = app.source("a", schema=worlds.COLUMNS).over("k", last=2, within="1s")
    app.query("q", framed.map(k="k", before="lag(k)[1:5]", n="count(k || 'x')"))
    kernel = compile_query(app.describe(), "q", row_max_bytes=100)
    rows: list[Row] = [("y" * 60, n, 0.0, True, n) for n in (1, 2)]
    _, outputs = kernel.step(kernel.initial(), 0, 1, worlds.ordered(kernel, {0: [rows, []]}))
    found = kernel.to_dicts(outputs[0].rows)
    kernel.close()
    assert not outputs[0].rejects
    assert [(row["before"], row["n"]) for row in found] == [(None, 1), ("yyyyy", 2)]


def test_a_frame_that_fails_costs_its_row() -> None:
    wide = 2**62
    rows: list[Row] = [
        ("a", wide, 0.0, True, 1),
        ("a", wide, 0.5, True, 2),
        ("a", 1, 1.0, True, 3),
        ("b", 1, 2.0, True, 4),
    ]
    with worlds.kernel(lambda app, a, b: a.over("k", last=2, within="1s").map(x="x", s="sum(i)")) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
        assert [row["x"] for row in on.to_dicts(outputs[0].rows)] == [0.0, 1.0, 2.0]
    (letter,) = outputs[0].rejects
    assert letter.reason.startswith("tuple at stime 2: ")
    assert json.loads(letter.raw) == {"k": "a", "i": wide, "x": 0.5, "b": True, "stime": 2}


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("lag(i, 3)", r"lag\(\) takes an expression and a number of rows, 1 to 2 here"),
        ("lag(i, 0)", r"lag\(\) takes an expression and a number of rows"),
        ("lag(i, i)", r"lag\(\) takes an expression and a number of rows"),
        ("lag(i, 1, 0)", r"lag\(\) takes an expression and a number of rows"),
        ("sum(i - lag(i))", r"an aggregate or lag\(\) inside another one"),
        ("lag(sum(i))", r"an aggregate or lag\(\) inside another one"),
        ("lead(i)", r"function lead\(\) is not allowed"),
        ("avg(i) OVER ()", r"OVER \(...\) is not allowed"),
        ("lag(nope)", r"unknown column 'nope' in map\(m\) of query 'q'"),
        ("__back", r"unknown column '__back'"),
        ("count(*) FILTER (WHERE i)", r"a filter must be true or false, this is BIGINT"),
        ("sum(i + 'abc')", r"fails for every row"),
        ("to_days(CAST(count(*) AS INT))", r"its type is INTERVAL"),
        ("sum(i), 1", r"write one SQL expression"),
    ],
)
def test_what_cannot_be_computed_over_a_frame_is_refused(expression: str, said: str) -> None:
    app = App("test")
    app.query("q", app.source("a", schema=worlds.COLUMNS).over("k", last=3, within="1s").map(m=expression))
    with pytest.raises(QueryError, match=said):
        compile_query(app.describe(), "q")


@pytest.mark.parametrize(
    ("last", "named"), [(2, ["lag(x)"]), (3, ["lag(x)", "lag(x, 2)"]), (9, ["lag(x)", "lag(x, 8)"])]
)
def test_the_calls_of_lag_that_a_refusal_names_are_accepted(last: int, named: list[str]) -> None:
    def compiled(call: str) -> None:
        app = App("test")
        app.query("q", app.source("a", schema=worlds.COLUMNS).over("k", last=last, within="1s").map(m=call))
        compile_query(app.describe(), "q").close()

    with pytest.raises(QueryError) as refused:
        compiled(f"lag(x, {last})")
    assert str(refused.value).splitlines()[0].rpartition(" here: ")[2].split(" or ") == named
    for call in named:
        compiled(call)


def test_frames_that_cannot_be_are_refused() -> None:
    app = App("test")
    a: Stream = app.source("a", schema=worlds.COLUMNS)
    for call, said in (
        (lambda: a.over("nope", last=3, within="1s"), "unknown column 'nope' in over"),
        (lambda: a.over("k", last=1, within="1s"), "choose 2 to 1000 rows"),
        (lambda: a.over("k", last=True, within="1s"), "choose 2 to 1000 rows"),
        (lambda: a.over("k", last=3, within=None), "give a duration"),  # type: ignore[arg-type]
        (lambda: a.over("k", last=3, within="400d"), "is more than a year"),
        (lambda: a.over("k", last=3, within="1s").map(), "needs columns"),
        (lambda: a.over("k", last=3, within="1s").map(stime="i"), "'stime' in map.. is reserved"),
        (lambda: app.union(a.over("k", last=3, within="1s")), "frames without columns; finish them with .map"),
        (
            lambda: a.over("k", last=3, within="1s").map(b="b", k="k").node("n", partitions=2, by="b"),
            r"but over\(k\) of",
        ),
        (lambda: a.over("k", last=3, within="1s").map(k="b").node("n", partitions=2, by="k"), "drops or changes"),
    ):
        with pytest.raises(QueryError, match=said):
            call()  # type: ignore[no-untyped-call]
