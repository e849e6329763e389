"""Decimals, times, binary and json as values, keys and results: the same bits however they are computed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.engine import DuckKernel, canonical_hash, compile_query
from borealis_py.query import AppSpec, Stream
from borealis_py.query.partitions import physical
from tests.engine import worlds
from tests.engine.chains import compiled, lived, rejects_of, rows_of, stepped
from tests.engine.worlds import TYPED_COLUMNS, WIDTH_US, Buckets

LAST = 26
Build = Callable[[App, Stream, Stream], Stream]

QUERIES: dict[str, Build] = {
    "plain": lambda app, a, b: app.union(b, a),
    "filter": lambda app, a, b: app.union(a, b).filter("m > 0.5 OR t < TIMESTAMP '2000-01-01' OR y = ''::BLOB"),
    "map": lambda app, a, b: app.union(a, b).map(
        k="k", m="m * 2", n="m + 1", t="t + INTERVAL 1 DAY", u="make_timestamp(stime)", d="d - 1", e="CAST(t AS DATE)",
        y="y || 'z'::BLOB", j="j", f="json_extract(j, '$.a')", g="j ->> '$.a'", o="to_json([m])"
    ),
    "partials": lambda app, a, b: (
        app.union(a, b).window("600ms", every="200ms").group_by("k")
        .agg(s="sum(m)", v="avg(m)", lo="min(m)", hi="max(m * 3)", t="min(t)", d="max(d)", y="max(y)", n="count(j)",
             p="sum(m) FILTER (WHERE i > 0)", r="sum(m) / count(*)")
    ),
    "rows": lambda app, a, b: (
        app.union(a, b).window("400ms").group_by("k")
        .agg(s="sum(w)", v="avg(w)", l="list(m)", t="list(t)", d="first(d)", y="last(y)", j="any_value(j)", x="mode(m)",
             u="count(DISTINCT j)", h="max(j)", q="median(CAST(m AS DOUBLE))", a="avg(t)", b="avg(d)")
    ),
    "by_time": lambda app, a, b: app.union(a, b).window("300ms").group_by("t", "d").agg(n="count(*)", s="sum(m)"),
    "by_value": lambda app, a, b: app.union(a, b).window("300ms").group_by("y", "j", "m").agg(n="count(*)", l="max(i)"),
    "windows_of_windows": lambda app, a, b: (
        app.union(a, b).window("200ms").group_by("k").agg(s="sum(m)", t="max(t)", j="first(j)")
        .window("600ms").group_by("j").agg(s="sum(s)", t="list(t)", k="string_agg(k, ',')")
    ),
    "join": lambda app, a, b: (
        a.join(b.map(t="t", d="d", om="m", oj="j", oy="y"), on=("t", "d"), within=("-500ms", "700ms"), how="left")
        .map(k="k", s="m + om", j="oj", y="oy", t="t")
    ),
    "join_by_value": lambda app, a, b: (
        a.join(b.map(y="y", j="j", m="m", ow="w"), on=("y", "j", "m"), within=("0s", "1s"))
    ),
    "distinct": lambda app, a, b: app.union(a, b).distinct("m", "j", "t", within="1s"),
    "top": lambda app, a, b: app.union(a, b).window("500ms").group_by("y", "j").top(2, by="m DESC, t"),
    "over": lambda app, a, b: (
        app.union(a, b).over("j", "d", last=3, within="2s").map(m="m", j="j", s="sum(m)", t="lag(t)")
    ),
    "count": lambda app, a, b: (
        app.union(a, b).window(rows=2).group_by("y", "j", "m").agg(s="sum(w)", t="list(t)", d="max(d)", l="last(j)")
    ),
    "session": lambda app, a, b: (
        app.union(a, b).window(gap="500ms", most="900ms").group_by("t", "d").agg(s="sum(m)", v="avg(m)", j="first(j)")
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=list(QUERIES))
def on(request: pytest.FixtureRequest) -> Iterator[DuckKernel]:
    made = worlds.make(QUERIES[request.param], TYPED_COLUMNS)
    yield made
    made.close()


@settings(max_examples=12, deadline=None)
@given(data=st.data(), history=worlds.typed_histories(LAST))
def test_any_split_into_steps_gives_the_same_bits(on: DuckKernel, data: st.DataObject, history: Buckets) -> None:
    buckets = worlds.ordered(on, history)
    whole_state, whole = on.step(on.initial(), 0, LAST, buckets)
    cuts = sorted(data.draw(st.sets(st.integers(1, LAST - 1))))
    state, outputs = on.initial(), {}
    for first, end in zip([0, *cuts], [*cuts, LAST], strict=True):
        state = on.decode_state(on.encode_state(state))  # as a checkpoint has it
        state, stepped_ = on.step(state, first, end, {b: p for b, p in buckets.items() if first <= b < end})
        outputs.update(stepped_)
    assert worlds.fingerprints(outputs) == worlds.fingerprints(whole)
    assert worlds.state_prints(state) == worlds.state_prints(whole_state)


@settings(max_examples=12, deadline=None)
@given(history=worlds.typed_histories(LAST))
def test_results_survive_the_log_and_say_the_same_in_every_view(on: DuckKernel, history: Buckets) -> None:
    _, outputs = on.step(on.initial(), 0, LAST, worlds.ordered(on, history))
    for output in outputs.values():
        for reject in output.rejects:
            json.loads(reject.raw)
        if output.rows is None:
            continue
        assert output.rows.schema.equals(on.output_schema)
        read = on.decode(on.encode(output.rows))
        assert canonical_hash(read) == canonical_hash(output.rows)
        in_json = [json.loads(text) for text, _ in on.published(output.rows)]
        assert [same(row) for row in on.to_dicts(output.rows)] == [same(row) for row in in_json]


def same(row: dict[str, Any]) -> str:
    """With the type of each value."""
    return repr(row)


@pytest.mark.parametrize("key", ["m", "w", "t", "d", "y", "j"])
@settings(max_examples=4, deadline=None)
@given(data=st.data(), history=worlds.typed_histories(LAST))
def test_any_number_of_partitions_gives_the_bits_of_the_whole(key: str, data: st.DataObject, history: Buckets) -> None:
    for n in (1, 2, 4):
        app = partitioned(key, n)
        flat = compile_query(app.flattened("q"), "q")
        expected = stepped(flat, worlds.ordered(flat, history), [])
        flat.close()
        spec = physical(app)
        with compiled(spec) as (kernels, _):
            streams = lived(spec, kernels, history, data)
        assert rows_of(streams["q"]) == rows_of(expected)
        assert rejects_of(*streams.values()) == rejects_of(expected)


def partitioned(key: str, n: int) -> AppSpec:
    app = App("test", bucket="100ms")
    a, b = app.source("a", schema=TYPED_COLUMNS), app.source("b", schema=TYPED_COLUMNS)
    counts = app.union(a, b).window("200ms").group_by(key).agg(s="sum(m)", n="count(*)", f="first(j)")
    counts = counts.node("counts", partitions=n, by=key)
    app.query("q", counts.window("600ms").agg(l=f"list({key}::VARCHAR)", s="sum(s)", f="list(f::VARCHAR)"))
    return app.describe()


@settings(max_examples=25, deadline=None)
@given(history=worlds.typed_histories(LAST))
def test_sums_are_exact_and_what_overflows_costs_its_group_alone(history: Buckets) -> None:
    """Against Python's decimals, with more digits than any sum here has."""
    with worlds.kernel(sums, TYPED_COLUMNS) as on:
        _, outputs = on.step(on.initial(), 0, LAST, worlds.ordered(on, history))
        found = {
            (bucket, row["k"]): (row["m"], row["w"])
            for bucket, output in outputs.items()
            if output.rows is not None
            for row in on.to_dicts(output.rows)
        }
        refused = {(bucket, json.loads(r.raw)["k"]) for bucket, o in outputs.items() for r in o.rejects}
    expected, over = {}, set()
    for bucket, parts in history.items():
        rows = [row for part in parts for row in part]
        for k in {row[0] for row in rows}:
            narrow, wide = (total([row[at] for row in rows if row[0] == k]) for at in (2, 3))
            if wide is not None and wide.copy_abs() >= 10**34:
                over.add((bucket, k))
            else:
                expected[bucket, k] = (said(narrow), said(wide))
    assert {key: value for key, value in found.items() if key not in refused} == found
    assert found == {key: value for key, value in expected.items() if key not in refused}
    assert over <= refused
    assert all(wild(history, *key) for key in refused), "only what comes near the bound on the way is refused"


def sums(app: App, a: Stream, b: Stream) -> Stream:
    return app.union(a, b).window("100ms").group_by("k").agg(m="sum(m)", w="sum(w)")


def total(values: list[Decimal | None]) -> Decimal | None:
    there = [value for value in values if value is not None]
    with localcontext() as context:
        context.prec = 60
        return sum(there, Decimal(0)) if there else None


def said(value: Decimal | None) -> str | None:
    return None if value is None else f"{value:f}"


def wild(history: Buckets, bucket: int, k: str | None) -> bool:
    """Whether the absolute values of a group add up to more than a decimal holds."""
    values = [row[3].copy_abs() for part in history[bucket] for row in part if row[0] == k and row[3] is not None]
    found = total(values)
    return found is not None and found >= 10**34


def test_a_hundred_cents_are_a_euro() -> None:
    """As doubles they would be 1.0000000000000007."""
    rows = [("a", 1, Decimal("0.01"), None, None, None, None, None, n) for n in range(100)]
    with worlds.kernel(sums, TYPED_COLUMNS) as on:
        assert worlds.run(on, {0: [rows, []]}, 0, 1)[0][0]["m"] == "1.00"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("m * m", "Overflow in multiplication of DECIMAL(18)"),
        ("t + INTERVAL 8000 YEAR", "the result has a timestamp before the year 1 or after 9999, or infinity"),
        ("CAST('infinity' AS TIMESTAMP)", "the result has a timestamp before the year 1 or after 9999, or infinity"),
        ("CAST(k AS DATE)", "the result has a date before the year 1 or after 9999, or infinity"),
        ("CAST('[1e999]' AS JSON)", "the result has not JSON: Number out of range"),
        ("CAST('[NaN]' AS JSON)", "the result has not JSON: JSON is malformed"),
        ("CAST(k AS DECIMAL(2,1))", "Conversion Error: Could not convert string"),
        ("CAST(m AS DECIMAL(12,9))", "Conversion Error: Casting value"),
    ],
)
def test_a_value_that_no_column_has_is_its_rows_dead_letter(expression: str, reason: str) -> None:
    bad = ("infinity", 1, Decimal("9999999999.99"), None, worlds.datetime(2026, 1, 1), None, b"\xff", '{"a":1}', 15)
    with worlds.kernel(lambda app, a, b: a.map(z=f"CASE WHEN i = 1 THEN {expression} END"), TYPED_COLUMNS) as on:
        good = (None, 2, *[None] * 6, 16)
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [[bad, good], []]}))
        assert on.to_dicts(outputs[0].rows) == [{"z": None}]
    (reject,) = outputs[0].rejects
    assert reject.reason.startswith(f"tuple at stime 15: {reason}") or reason in reject.reason
    assert json.loads(reject.raw) == {
        "k": "infinity", "i": 1, "m": "9999999999.99", "w": None, "t": "2026-01-01T00:00:00.000000Z", "d": None,
        "y": "/w==", "j": {"a": 1}, "stime": 15,
    }  # fmt: skip


RESULTS = {
    "m * 2": ("decimal128(18, 2)", "3.00"),
    "m + 1.125": ("decimal128(14, 3)", "2.625"),
    "m / 2": ("double", 0.75),
    "1.50": ("decimal128(3, 2)", "1.50"),
    "round(m, 1)": ("decimal128(12, 1)", "1.5"),
    "to_timestamp(i)": ("timestamp[us]", "1970-01-01T00:00:07.000000Z"),
    "make_timestamp(stime)": ("timestamp[us]", "1970-01-01T00:00:00.000005Z"),
    "date_trunc('hour', t)": ("timestamp[us]", "2026-01-01T01:00:00.000000Z"),
    "t::DATE": ("date32[day]", "2026-01-01"),
    "d + INTERVAL 1 HOUR": ("timestamp[us]", "1970-01-03T01:00:00.000000Z"),
    "d - DATE '1970-01-01'": ("int64", 2),
    "epoch_us(t)": ("int64", 1_767_229_320_000_000),
    "unhex('00ff')": ("binary", "AP8="),
    "j": ("extension<arrow.json>", {"a": 1.0}),
    "json_extract(j, '$.a')": ("extension<arrow.json>", 1.0),
    "to_json([t])": ("extension<arrow.json>", ["2026-01-01 01:02:00"]),
    "[t]": ("list<item: timestamp[us]>", ["2026-01-01T01:02:00.000000Z"]),
    "[m, NULL]": ("list<item: decimal128(12, 2)>", ["1.50", None]),
}
"""Expression -> (Arrow's type, value)."""


def test_types_of_results() -> None:
    columns = {f"c{n}": expression for n, expression in enumerate(RESULTS)}
    moment, day = worlds.datetime(2026, 1, 1, 1, 2), worlds.date(1970, 1, 3)
    row = ("a", 7, Decimal("1.50"), None, moment, day, b"", '{"a":1.0}', 5)
    with worlds.kernel(lambda app, a, b: a.map(**columns), TYPED_COLUMNS) as on:
        types = [str(field.type) for field in on.output_schema]
        (found,) = worlds.run(on, {0: [[row], []]}, 0, 1)[0]
    assert dict(zip(RESULTS, zip(types, found.values(), strict=False), strict=True)) == RESULTS


def test_json_comes_out_as_it_came_in() -> None:
    """Its numbers keep their digits, its keys their order; white space between its parts is none of it."""
    with worlds.kernel(lambda app, a, b: a.map(j="j"), {"j": "json"}) as on:
        payload = b'[{"j": {"b" : 1.10, "a":[1E2 ,12345678901234567890]} }]'
        rows, bad = on.source_codec("a").decode(payload, "json", [5])
        assert not bad
        _, outputs = on.step(on.initial(), 0, 1, {0: on.order(on.settle([[rows]]))})
        assert [text for text, _ in on.published(outputs[0].rows)] == [
            b'{"j":{"b":1.10,"a":[1E2,12345678901234567890]}}'
        ]


def test_extremes_are_within_reach_of_the_engine() -> None:
    rows = [
        ("a", 1, None, None, at, day, None, None, 5)
        for at, day in zip((worlds.datetime.min, worlds.datetime.max), (worlds.date.min, worlds.date.max), strict=True)
    ]
    with worlds.kernel(lambda app, a, b: a.map(t="t", d="d", u="date_trunc('second', t)"), TYPED_COLUMNS) as on:
        found = worlds.run(on, {0: [rows, []]}, 0, 1)[0]
    assert [(row["t"], row["d"]) for row in found] == [
        ("0001-01-01T00:00:00.000000Z", "0001-01-01"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31"),
    ]
    assert WIDTH_US > 5


def test_a_json_null_is_the_columns_null() -> None:
    columns = {"x": "json_extract(j, '$.a')", "y": "json_extract(j, '$.b')"}
    with worlds.kernel(lambda app, a, b: a.map(**columns), TYPED_COLUMNS) as on:
        row = (None, None, None, None, None, None, None, '{"a":null}', 5)
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [[row], []]}))
        assert [column.null_count for column in outputs[0].rows.columns] == [1, 1, 0]


@pytest.mark.parametrize("last", [0, 1])
def test_a_sum_that_overflows_leaves_the_other_groups_of_its_bucket_and_window_alone(last: int) -> None:
    """In one bucket, and over two buckets of a window."""
    most = worlds.WIDE_MAX
    rows = [("a", 1, None, most, *[None] * 4, 5), ("b", 1, None, Decimal("0.0001"), *[None] * 4, 6)]
    later = [("a", 1, None, most, *[None] * 4, last * WIDTH_US + 7)]

    def build(app: App, a: Stream, b: Stream) -> Stream:
        return a.window("200ms").group_by("k").agg(w="sum(w)", v="avg(w)")

    with worlds.kernel(build, TYPED_COLUMNS) as on:
        history = {0: [rows + later, []]} if last == 0 else {0: [rows, []], 1: [later, []]}
        _, outputs = on.step(on.initial(), 0, 2, worlds.ordered(on, history))
        assert on.to_dicts(outputs[1].rows) == [
            {"window_start": 0, "window_end": 200_000, "k": "b", "w": "0.0001", "v": 0.0001}
        ]
    (reject,) = outputs[1].rejects
    assert json.loads(reject.raw) == {"window_start": 0, "window_end": 200_000, "k": "a"}
    assert "Overflow" in reject.reason or "a decimal of more than 38 digits" in reject.reason
