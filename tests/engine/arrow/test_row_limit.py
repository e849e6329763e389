"""A result that no record has room for is a dead letter, whatever its columns: as JSON, and in Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.engine import compile_query
from borealis_py.engine.arrow.row_limit import RowLimit, larger
from borealis_py.engine.arrow.rows import row_sizes
from borealis_py.engine.codec import ArrowRowCodec
from borealis_py.query import Stream
from borealis_py.types.arrow import TIMESTAMP, json_column
from tests.engine import worlds

MICROSECONDS = st.integers(-(10**15), 10**16)
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text(max_size=30)),
    "control": (pa.string(), st.text(alphabet='\x00\x01"\\é', max_size=30)),
    "bytes": (pa.binary(), st.binary(max_size=30)),
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "time": (TIMESTAMP, MICROSECONDS),
    "date": (pa.date32(), st.integers(-100_000, 1_000_000)),
    "decimal": (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
}


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """Three values of any column type, nulls among them, or of lists of it at any depth, as a slice of more."""
    kind = draw(st.sampled_from([*VALUES, "json"]))
    if kind == "json":
        texts = draw(
            st.lists(st.none() | st.sampled_from(['{"a":[1,2,3]}', '"x"', "[]", "17"]), min_size=3, max_size=3)
        )
        return json_column(texts)
    arrow, values = VALUES[kind]
    values = st.none() | values
    for _ in range(draw(st.integers(0, 2))):
        arrow, values = pa.list_(arrow), st.none() | st.lists(values, max_size=6)
    made = pa.array(draw(st.lists(values, min_size=5, max_size=5)), arrow)
    return made.slice(1, 3)


def batch(some: list[pa.Array]) -> pa.RecordBatch:
    names = [f"c{i}" for i in range(len(some))]
    return pa.RecordBatch.from_arrays([*some, pa.array([1, 2, 3], pa.int64())], names=[*names, "stime"])


@settings(max_examples=80)
@given(st.lists(columns(), min_size=1, max_size=4), st.integers(10, 700))
def test_just_the_rows_that_are_larger_as_json_or_in_arrow_are_refused(some: list[pa.Array], most: int) -> None:
    rows = batch(some)
    said = [len(value) for value, _ in ArrowRowCodec(rows.schema, ()).published(rows)]
    sizes = row_sizes(rows.drop_columns(["stime"])).tolist()
    expected = [i for i in range(3) if said[i] > most or sizes[i] > most]
    assert list(RowLimit(rows.schema, most, "query 'q'").refused(rows)) == expected
    assert (larger(rows, most) is None) is (int(row_sizes(rows).max()) <= most)


@settings(max_examples=30)
@given(st.lists(columns(), min_size=1, max_size=4), st.integers(500, 2_000))
def test_a_row_takes_hardly_more_in_a_record_than_it_counts(some: list[pa.Array], most: int) -> None:
    rows = batch(some)
    for at in range(3):
        content = rows.slice(at, 1)
        assert len(ArrowRowCodec(rows.schema, ()).encode(content)) <= int(row_sizes(content)[0]) * 65 / 64 + 1_000


LARGE: dict[str, Callable[[App, Stream, Stream], Stream]] = {
    "empty texts": lambda app, a, b: a.map(l="string_split(k, ',')"),
    "nulls": lambda app, a, b: a.map(l="TRY_CAST(string_split(replace(k, '1', 'x'), ',') AS BIGINT[])"),
    "bools": lambda app, a, b: a.map(l="TRY_CAST(string_split(k, ',') AS BOOLEAN[])"),
    "whole numbers": lambda app, a, b: a.map(l="TRY_CAST(string_split(k, ',') AS BIGINT[])"),
    "decimals": lambda app, a, b: a.map(l="repeat([CAST('0.1' AS DECIMAL(38,20))], length(k))"),
    "lists of texts": lambda app, a, b: a.map(l="[string_split(k, ','), string_split(k, ',')]"),
    "control characters": lambda app, a, b: a.map(l="repeat(chr(1), length(k) + 100000)"),
    "bytes": lambda app, a, b: a.map(l="(k || repeat('x', 400000))::BLOB"),
    "several columns": lambda app, a, b: a.map(**{f"c{i}": "k" for i in range(20)}),
    "a window's list": lambda app, a, b: a.window("200ms").group_by("i").agg(x="list(string_split(k, ','))"),
    "a join's columns": lambda app, a, b: a.map(i="i", x="k").join(
        a.map(i="i", y="k || k"), on="i", within=("0ms", "0ms")
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_row_of_any_kind_is_a_dead_letter_and_its_neighbours_are_not(name: str) -> None:
    row = [("a,b", 1, 1.0, True, 1), ("1," * 200_000, 2, 1.0, True, 2), ("c", 3, 1.0, True, 3)]
    with worlds.kernel(LARGE[name]) as on:
        _, outputs = on.step(on.initial(), 0, 2, worlds.ordered(on, {0: [row, []]}))
        found = [one for output in outputs.values() if output.rows is not None for one in on.published(output.rows)]
        assert max(len(value) for value, _ in found) < 1_000_000
        (reject,) = [one for output in outputs.values() for one in output.rejects]
        assert reject.source == "q"
        for part in ("row_max", "raise `timing: row_max`"):
            assert part in reject.reason


def test_the_reason_names_query_column_size_limit_and_what_to_do() -> None:
    row = [("," * 400_000, 2, 1.0, True, 2)]
    with worlds.kernel(lambda app, a, b: a.map(small="i", x="replace(k, ',', chr(1))")) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [row, []]}))
        assert outputs[0].rows is None
        assert [one.reason for one in outputs[0].rejects] == [
            "result at stime 2: query 'q': a row of 2400018 bytes as JSON, 2400007 of them in column 'x', row_max is "
            "1000000: select less of it, or raise `timing: row_max`"
        ]


def test_dead_letters_do_not_depend_on_how_buckets_are_grouped() -> None:
    """Replicas, redos and audits group them in other ways."""
    width = worlds.WIDTH_US
    rows = {b: [[("," * (150_000 * (b % 3 == 1)), b, 1.0, True, b * width + 1)], []] for b in range(9)}
    with worlds.kernel(LARGE["empty texts"]) as on:
        together, one_by_one, state = on.step(on.initial(), 0, 9, worlds.ordered(on, rows))[1], {}, on.initial()
        for b in range(9):
            state, found = on.step(state, b, b + 1, worlds.ordered(on, {b: rows[b]}))
            one_by_one |= found
        assert {b: o.rejects for b, o in together.items()} == {b: o.rejects for b, o in one_by_one.items()}
        assert sorted(b for b, o in together.items() if o.rejects) == [1, 4, 7]


def test_small_rows_are_never_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check costs nothing that shows where rows are small, however many there are."""
    rows = batch([pa.array(["x" * 100] * 3), pa.array([[1], None, []], pa.list_(pa.int64()))])
    many = pa.concat_batches([rows] * 20_000)
    monkeypatch.setattr(RowLimit, "_why", lambda self, row: pytest.fail("a small row was encoded"))
    assert RowLimit(rows.schema, 1_000_000, "query 'q'").refused(many) == {}
    assert np.asarray(row_sizes(many)).max() < 200


def test_what_a_kernel_compiles_with_is_its_limit() -> None:
    app = App("limits")
    a = app.source("a", schema={"k": "string"})
    app.query("q", a.map(x="repeat(k, 50)"), delay_threshold="2s")
    kernel = compile_query(app.describe(), "q", row_max_bytes=1_000)
    assert kernel._limit.refused(pa.RecordBatch.from_arrays(
        [pa.array(["x" * 991]), pa.array([1], pa.int64())], schema=kernel.output_schema)) == {}  # fmt: skip
    (why,) = kernel._limit.refused(pa.RecordBatch.from_arrays(
        [pa.array(["x" * 993]), pa.array([1], pa.int64())], schema=kernel.output_schema)).values()  # fmt: skip
    assert "a row of 1001 bytes as JSON" in why
    kernel.close()
