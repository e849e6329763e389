"""Functions applied to rows and windows: results of a plain model, whatever the split; bad rows cost themselves."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.engine.applied.code_in_place import CodeInPlace
from borealis_py.engine.applied.described import described
from borealis_py.query import Stream
from borealis_py.types.arrow import JSON
from sunion.errors import EngineOutOfMemory
from tests.engine import worlds
from tests.engine.applied.modules import app_with, imported, kernel, scoring_module
from tests.engine.splits import LAST
from tests.engine.worlds import TYPED_COLUMNS, Buckets, Row
from tests.examples import examples

scoring = scoring_module()
GROUPED = {"s": "double", "t": "int64", "k2": "string"}
QUERIES: dict[str, Callable[[App, Stream, Stream], Stream]] = {
    "rows": lambda app, a, b: (
        app.union(a, b).filter("x > 0 OR b").apply(scoring.score, {"y": "double", "n": "int"}, keep=("k", "b"))
        .filter("n < 2 OR b").map(y="y / 3", k="k")
    ),
    "frames": lambda app, a, b: a.apply(scoring.frame, {"y": "double", "n": "int64"}, style="pandas"),
    "poison": lambda app, a, b: (
        app.union(a, b).apply(scoring.picky, {"n": "string"}, keep=("k", "x"))
        .window("300ms").group_by("k").agg(s="sum(x)", n="list(n)")
    ),
    "groups": lambda app, a, b: (
        app.union(a, b).map(k="k", x="x * 0.1", i="i").window("600ms", every="300ms").group_by("k")
        .apply(scoring.spread, GROUPED).filter("t % 2 = 0")
    ),
    "group_frames": lambda app, a, b: (
        app.union(b, a).window("400ms", every="200ms").group_by("k", "b")
        .apply(scoring.spread_frame, {"s": "double", "t": "int64"}, style="pandas")
    ),
    "bad_groups": lambda app, a, b: a.window("500ms").group_by("x").apply(scoring.no_fours, {"rows": "int"}),
    "unkeyed": lambda app, a, b: app.union(a, b).window("400ms").apply(scoring.spread, GROUPED),
    "windows_of_functions": lambda app, a, b: (
        a.window("200ms").group_by("k").apply(scoring.spread, GROUPED).map(k="k", s="s")
        .window("800ms", every="400ms").group_by("k").agg(s="sum(s)")
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=QUERIES)
def on(request: pytest.FixtureRequest) -> Iterator[DuckKernel]:
    with kernel(QUERIES[request.param]) as made:
        yield made


@settings(max_examples=examples(15), deadline=None)
@given(data=st.data(), history=worlds.histories(LAST))
def test_any_split_into_steps_gives_the_same_bits(on: DuckKernel, data: st.DataObject, history: Buckets) -> None:
    buckets = worlds.ordered(on, history)
    whole_state, whole = on.step(on.initial(), 0, LAST, buckets)
    cuts = sorted(data.draw(st.sets(st.integers(1, LAST - 1)))) if data.draw(st.booleans()) else list(range(1, LAST))
    state, outputs = on.initial(), {}
    for first, end in zip([0, *cuts], [*cuts, LAST], strict=True):
        if data.draw(st.booleans()):
            state = on.decode_state(on.encode_state(state))
        state, stepped = on.step(state, first, end, {b: p for b, p in buckets.items() if first <= b < end})
        outputs.update(stepped)
    assert worlds.fingerprints(outputs) == worlds.fingerprints(whole)
    assert worlds.state_prints(state) == worlds.state_prints(whole_state)


def rows_of(history: Buckets, inputs: int = 2) -> list[Row]:
    """In total order: by stime, input, position."""
    each = [
        (row[4], part, n, row)
        for parts in history.values()
        for part in range(inputs)
        for n, row in enumerate(parts[part])
    ]
    return [row for *_, row in sorted(each, key=lambda one: one[:3])]


@pytest.fixture(scope="module")
def picky() -> Iterator[DuckKernel]:
    with kernel(lambda app, a, b: app.union(a, b).apply(scoring.picky, {"n": "string"}, keep=("k",))) as made:
        yield made


@pytest.fixture(scope="module")
def spread() -> Iterator[DuckKernel]:
    build = QUERIES["unkeyed"]
    with kernel(lambda app, a, b: build(app, a, b).map(s="s", t="t", w="window_end")) as made:
        yield made


@settings(max_examples=examples(25), deadline=None)
@given(history=worlds.histories(LAST))
def test_rows_a_function_refuses_cost_only_themselves(picky: DuckKernel, history: Buckets) -> None:
    on = picky
    _, outputs = on.step(on.initial(), 0, LAST, worlds.ordered(on, history))
    kept = [output.rows for _, output in sorted(outputs.items()) if output.rows is not None]
    found = [(r["k"], r["n"], r["stime"]) for rows in kept for r in rows.to_pylist()]
    text: Callable[[int | None], str | None] = lambda n: "four" if n == 4 else None if n is None else str(n)  # noqa: E731
    rows = rows_of(history)
    assert found == [(k, text(i), stime) for k, i, _, _, stime in rows if i != 3]
    refused = [r.reason for b in sorted(outputs) for r in outputs[b].rejects]
    assert len(refused) == sum(row[1] == 3 for row in rows)


@settings(max_examples=examples(25), deadline=None)
@given(history=worlds.histories(LAST))
def test_a_group_s_function_sees_its_rows_in_their_order(spread: DuckKernel, history: Buckets) -> None:
    _, outputs = spread.step(spread.initial(), 0, LAST + 4, worlds.ordered(spread, history))
    found = [row for _, output in sorted(outputs.items()) for row in output.rows.to_pylist()]
    windows: dict[int, list[Row]] = defaultdict(list)
    for row in rows_of(history):
        windows[row[4] // 400_000 + 1].append(row)
    expected = []
    for window, rows in sorted(windows.items()):
        total = 0.0
        for x in (x for _, _, x, _, _ in rows if x is not None):
            total += x
        for row in rows[:1] + rows[1:][-1:]:
            expected.append({"s": total, "t": row[4], "w": window * 400_000, "stime": window * 400_000 - 1})
    assert repr(found) == repr(expected)


ROWS: list[Row] = [
    (k, i, 1.0, True, n) for n, (k, i) in enumerate(zip("abcdefgh", [1, 2, 3, 5, 6, 4, 7, None], strict=True))
]


def stepped(on: DuckKernel, rows: list[Row] = ROWS, end: int = 1) -> Any:
    _, outputs = on.step(on.initial(), 0, end, worlds.ordered(on, {0: [rows, []]}))
    return outputs[end - 1]


@pytest.mark.parametrize(
    ("function", "columns", "bad", "reason"),
    [
        ("picky", {"n": "string"}, ["c"], r"^tuple at stime 2: scoring.picky: ValueError: .* 0x\.\.\.> \(line \d+\)$"),
        ("strict", {"n": "string"}, ["f"], "scoring.strict: it returned column 'n' is int64, which is no string"),
        ("dropping", {"i": "int"}, ["h"], "scoring.dropping: it returned 0 rows for 1"),
        ("score", {"y": "int"}, list("abcdefgh"), "scoring.score: it returned column 'y' is double, which is no int64"),
        ("nothing", {"n": "int"}, list("abcdefgh"), "scoring.nothing: it returned None instead of a pyarrow.Table"),
        ("renamed", {"x": "double"}, list("abcdefgh"), r"without column 'x' \(a double\); columns: k, i, z, b, stime"),
        ("frame", {"y": "double"}, list("abcdefgh"), "scoring.frame: "),
    ],
)  # fmt: skip
def test_what_a_function_does_wrong_is_its_row_s_dead_letter(
    function: str, columns: dict[str, str], bad: list[str], reason: str
) -> None:
    with kernel(lambda app, a, b: a.apply(getattr(scoring, function), columns, keep=("k",))) as on:
        output = stepped(on)
        good = [] if output.rows is None else [row["k"] for row in on.to_dicts(output.rows)]
    assert good == [k for k in "abcdefgh" if k not in bad]
    assert len(output.rejects) == len(bad)
    for reject in output.rejects:
        assert re.search(reason, reject.reason), reject.reason
        assert (reject.source, reject.offset) == ("q", -1)


@pytest.mark.parametrize(
    ("function", "reason"), [(scoring.exiting, "SystemExit: 3"), (scoring.cancelled, "CancelledError")]
)
def test_a_function_that_exits_costs_its_row_and_no_process(function: Any, reason: str) -> None:
    rows: list[Row] = [("a", 1, 1.0, True, 1), (None, 1, 1.0, True, 2)]
    with kernel(lambda app, a, b: a.apply(function, {"k": "string"})) as on:
        output = stepped(on, rows)
        assert [row["k"] for row in on.to_dicts(output.rows)] == ["a"]
    (reject,) = output.rejects
    where = f"(line {function.__code__.co_firstlineno + 2})"
    assert re.fullmatch(
        rf"scoring.{function.__name__}: {reason}:? ?{re.escape(where)}", reject.reason.split(": ", 1)[1]
    )


def test_one_bad_row_of_many_takes_few_calls() -> None:
    rows: list[Row] = [("a", 3 if n == 700 else 1, 1.0, True, n) for n in range(4096)]
    with kernel(lambda app, a, b: a.apply(scoring.picky, {"n": "string"})) as on:
        (operator,) = (op for op in on._operators if hasattr(op, "function"))
        calls = operator.function._called._call.__globals__["CALLS"]
        calls.clear()
        output = stepped(on, rows)
    assert (output.rows.num_rows, len(output.rejects)) == (4095, 1)
    assert len(calls) <= 2 * 12 + 5


def test_a_lack_of_memory_is_no_row_s_fault() -> None:
    with (
        kernel(lambda app, a, b: a.apply(scoring.hungry, {"k": "string"})) as on,
        pytest.raises(EngineOutOfMemory, match=r"scoring.hungry needs more memory than there is, for 8 rows"),
    ):
        stepped(on)


def test_a_row_too_large_with_what_is_kept_is_a_dead_letter() -> None:
    rows: list[Row] = [("long" * 50, 1, 1.0, True, 1), ("ok", 2, 1.0, True, 2)]
    with kernel(
        lambda app, a, b: a.apply(scoring.frame, {"n": "int"}, keep=("k",), style="pandas"), row_max_bytes=100
    ) as on:
        output = stepped(on, rows)
        assert [row["k"] for row in on.to_dicts(output.rows)] == ["ok"]
    assert "a row of the result is larger than row_max, 100 bytes" in output.rejects[0].reason


def test_a_group_that_a_function_refuses_costs_only_itself() -> None:
    rows: list[Row] = [("a", 4, 1.0, True, 1), ("b", 5, 1.0, True, 2), ("a", 6, 1.0, True, 3), (None, 4, 2.0, True, 4)]
    with kernel(lambda app, a, b: a.window("100ms").group_by("k").apply(scoring.no_fours, {"rows": "int"})) as on:
        output = stepped(on, rows)
        assert [(row["k"], row["rows"]) for row in on.to_dicts(output.rows)] == [("b", 1)]
    assert [reject.raw for reject in output.rejects] == [
        b'{"window_start":0,"window_end":100000,"k":"a"}', b'{"window_start":0,"window_end":100000,"k":null}',
    ]  # fmt: skip
    assert output.rejects[0].reason.startswith("window [0, 100000) us, k='a': scoring.no_fours: KeyError: 4 (line")


def test_a_group_gives_as_many_rows_as_its_function_returns_up_to_a_bound() -> None:
    rows: list[Row] = [(k, 1, 1.0, True, n) for n, k in enumerate("abbccc")]
    with kernel(lambda app, a, b: a.window("100ms").group_by("k").apply(scoring.none_or_many, {"rows": "int"})) as on:
        output = stepped(on, rows)
        assert [(row["k"], row["rows"]) for row in on.to_dicts(output.rows)] == [("b", 0)]
    assert [reject.reason.split(": ", 1)[1] for reject in output.rejects] == [
        "scoring.none_or_many: it returned 100001 rows for one group, over 100000"
    ]


@pytest.mark.parametrize("style", ["arrow", "pandas"])
def test_every_column_type_passes_through_a_function(tmp_path: Any, style: str) -> None:
    file = tmp_path / f"passing_{style}.py"
    file.write_text("def same(rows):\n    return rows\n")
    same = imported(file).same
    columns = dict(TYPED_COLUMNS)
    app = App("test", modules=[file])
    a = app.source("a", schema=columns)
    app.query("q", a.apply(same, columns, style=style))
    on = compile_query(app.describe().with_functions(described), "q", code=CodeInPlace())
    full = {
        "k": "ü", "i": 2**53 + 1, "m": "1.05", "w": "-12345678901234567890.1234", "t": "2026-01-02T03:04:05.000006Z",
        "d": "2026-01-02", "y": "AP8=", "j": {"a": 1.1},
    }  # fmt: skip
    texts = json.dumps([full, dict.fromkeys(full)]).encode()
    decoded, bad = on.source_codec("a").decode(texts, "json", [1, 2])
    assert not bad
    given_rows = on.settle([[decoded]])[0]
    assert given_rows.schema.field("j").type == JSON
    _, outputs = on.step(on.initial(), 0, 1, {0: (given_rows,)})
    assert outputs[0].rejects == ()
    assert outputs[0].rows.equals(given_rows)
    on.close()


def test_frames_know_null_from_nan_and_keep_types(tmp_path: Path) -> None:
    """A column of integers with a null stays one of integers, in any bucket."""
    file = tmp_path / "typed_frames.py"
    file.write_text("def f(rows):\n    return rows.assign(k=str(list(map(str, rows.dtypes))), i=rows['i'] % 7)\n")
    f = imported(file).f
    app = App("test", modules=[file])
    app.query("q", app.source("a", schema=worlds.COLUMNS).apply(f, worlds.COLUMNS, style="pandas"))
    on = compile_query(app.describe().with_functions(described), "q", code=CodeInPlace())
    for rows in ([("a", 2**53 + 1, 1.5, True, 1)], [("a", None, None, None, 1), (None, 9, float("nan"), True, 2)]):
        made = stepped(on, rows).rows
        assert set(made.column("k").to_pylist()) == {"['string', 'Int64', 'Float64', 'boolean', 'Int64']"}
        assert made.column("i").to_pylist() == [None if row[1] is None else row[1] % 7 for row in rows]
        assert repr(made.column("x").to_pylist()) == repr([row[2] for row in rows])
        assert made.column("b").to_pylist() == [row[3] for row in rows]
    on.close()


def test_frames_of_groups_and_rows_give_results() -> None:
    rows: list[Row] = [("a", 8, 2.0, True, 1), ("b", None, None, True, 2), ("a", 6, 1.0, True, 3)]
    with kernel(QUERIES["frames"]) as on:
        assert [(row["y"], row["n"]) for row in on.to_dicts(stepped(on, rows).rows)] == [(6.0, 1), (None, 0), (3.0, 6)]
    with kernel(QUERIES["group_frames"]) as on:
        found = on.to_dicts(stepped(on, rows, end=2).rows)
        assert [(row["k"], row["s"], row["t"]) for row in found] == [("a", 2.0, 199_999), ("b", 0.0, 199_998)]


def test_a_function_sees_a_bucket_whole_however_steps_are_cut_or_joined() -> None:
    """One that compares with its neighbours is no function of a row, but replicas agree on it all the same."""
    rows = {n: [[("a", 1, 1.0, True, n * 100_000 + at) for at in (5, 7)], []] for n in range(3)}
    with kernel(lambda app, a, b: a.apply(scoring.centred, {"y": "int"})) as on:
        found = worlds.run(on, rows, 0, 3)
    assert {n: [row["y"] for row in some] for n, some in found.items()} == {n: [0, 2] for n in range(3)}


def test_a_kernel_that_needs_only_columns_loads_no_function() -> None:
    on = compile_query(app_with(QUERIES["rows"]).describe(), "q")
    assert on.output_schema == pa.schema([("y", pa.float64()), ("k", pa.string()), ("stime", pa.int64())])
    with pytest.raises(RuntimeError, match=r"scoring.score is not loaded in this process"):
        stepped(on)
    on.close()
