"""Counts and sums of our own give the bits of the engine's statement: the oracle runs the same rows in DuckDB."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.engine import compile_query
from borealis_py.engine.kernel import DuckKernel
from borealis_py.engine.operators.base import WindowOperator
from borealis_py.engine.operators.grouped_sums import GroupedSums
from borealis_py.engine.sql.duck_faults import RowError
from borealis_py.engine.sql.duck_statement import Statement

WIDTH_US = 100_000
SCHEMA = {"s": "string", "i": "int64", "b": "bool", "d": "double", "e": "double"}
PLAIN = {
    "n": "count(*)", "nd": "count(d)", "ns": "count(s)", "sd": "sum(d)", "se": "sum(e)", "ad": "avg(d)", "me": "mean(e)"
}  # fmt: skip
KEYS = ((), ("s",), ("i",), ("b",), ("s", "i"), ("b", "s", "i"))
WILD = st.sampled_from(
    [0.0, -0.0, 0.1, 1e300, -1e300, 1e16, 1.0, -1e16, 5e-324, 1e-7, 1 / 3, float("nan"), float("inf"), float("-inf")]
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "s": st.one_of(
        st.none(), st.sampled_from(["", "a", "b", "a\0", "\0", "Z", "é", "e\u0301", "\U0001fae8", "\uffff"])
    ),
    "i": st.one_of(st.none(), st.sampled_from([0, -1, 1, 2**63 - 1, -(2**63), 10**18])),
    "b": st.one_of(st.none(), st.booleans()),
    "d": st.one_of(st.none(), WILD, st.floats(width=64)),
    "e": st.one_of(WILD, st.floats(-1e3, 1e3)),
}


def kernel(keys: tuple[str, ...], aggregates: dict[str, str], chained: bool = False) -> DuckKernel:
    app = App("k")
    rows = app.source("a", schema=SCHEMA)
    rows = rows.filter("i IS NULL OR i > -5") if chained else rows
    window = rows.window("1s")
    app.query("q", (window.group_by(*keys) if keys else window).agg(**aggregates))
    return compile_query(app.describe(), "q")


def window_of(of: DuckKernel) -> WindowOperator:
    (found,) = (op for op in of._operators if isinstance(op, WindowOperator))
    return found


@pytest.fixture(scope="module", params=KEYS, ids=lambda keys: ",".join(keys) or "none")
def window(request: pytest.FixtureRequest) -> Any:
    made = kernel(request.param, PLAIN)
    yield window_of(made)
    made.close()


def bits(batch: pa.RecordBatch) -> list[Any]:
    """Every value; doubles by their bits, but all NaNs alike (as everywhere: `canonical_hash`)."""
    return [[_bits(value) for value in column.to_pylist()] for column in batch.columns]


def _bits(value: object) -> object:
    if not isinstance(value, float):
        return value
    return "nan" if value != value else struct.pack("<d", value)


def batch_of(rows: list[tuple[Any, ...]], stimes: list[int]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(list(c), t)
        for c, t in zip(columns, (pa.string(), pa.int64(), pa.bool_(), pa.float64(), pa.float64()), strict=True)
    ]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(stimes, pa.int64())], names=[*SCHEMA, "stime"])


ROWS = st.lists(st.tuples(*(VALUES[name] for name in SCHEMA)), min_size=1, max_size=120)


@given(rows=ROWS, widths=st.lists(st.integers(0, 70_000), min_size=120, max_size=120), skip=st.integers(0, 3))
def test_partials_and_results_are_those_of_the_statements(
    window: WindowOperator, rows: list[tuple[Any, ...]], widths: list[int], skip: int
) -> None:
    collect, close = window.collect, window.close
    assert isinstance(collect, GroupedSums)
    assert isinstance(close, GroupedSums)
    stimes = (1_700_000_000_000_000 + np.cumsum(widths[: len(rows)])).tolist()
    batch = batch_of(rows, stimes).cast(collect.input)
    batch = batch.slice(min(skip, len(rows) - 1))  # a batch that begins within its buffers
    partials = collect.run(batch)
    assert bits(partials) == bits(collect.statement.run(batch))
    assert partials.schema == collect.statement.output
    ends = partials.column(0).to_numpy() // 3  # several buckets to a window
    content = pa.RecordBatch.from_arrays([pa.array(ends), *partials.columns[1:]], schema=close.input)
    assert bits(close.run(content)) == bits(close.statement.run(content))


@pytest.mark.parametrize(("rows", "keys"), [(3_000, 7), (20_000, 15_000), (60_000, 100)])
def test_large_batches_too(rows: int, keys: int) -> None:
    made = kernel(("s", "i"), PLAIN)
    window = window_of(made)
    assert isinstance(window.collect, GroupedSums)
    draw = np.random.default_rng(rows)
    values = draw.standard_normal(rows) * 10.0 ** draw.integers(-16, 17, rows)
    names = draw.integers(0, keys, rows)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([f"k{n}" for n in names]),
            pa.array(names % 5),
            pa.array(names % 2 == 0),
            pa.array(values, mask=names % 11 == 0),
            pa.array(values[::-1]),
            pa.array(np.sort(draw.integers(0, 30 * WIDTH_US, rows))),
        ],
        schema=window.collect.input,
    )
    assert bits(window.collect.run(batch)) == bits(window.collect.statement.run(batch))
    made.close()


def test_no_rows_give_no_rows() -> None:
    made = kernel(("s",), PLAIN)
    window = window_of(made)
    for part in (window.collect, window.close):
        assert isinstance(part, GroupedSums)
        none = part.run(pa.RecordBatch.from_pylist([], schema=part.input))
        assert (none.num_rows, none.schema) == (0, part.output)
    made.close()


def test_a_result_row_larger_than_a_record_may_hold_is_refused_as_by_the_statement() -> None:
    app = App("k")
    app.query("q", app.source("a", schema=SCHEMA).window("1s").group_by("s").agg(**PLAIN))
    made = compile_query(app.describe(), "q", row_max_bytes=200)
    collect, close = window_of(made).collect, window_of(made).close
    assert isinstance(collect, GroupedSums)
    assert isinstance(close, GroupedSums)
    batch = batch_of([("x" * 180, 1, True, 1.0, 1.0), ("y", 1, True, 1.0, 1.0)], [1, 2]).cast(collect.input)
    parts = collect.run(batch)  # which are no results yet
    assert bits(parts) == bits(collect.statement.run(batch))
    said = []
    for run in (close.run, close.run_afresh, close.statement.run):
        with pytest.raises(RowError) as failed:
            run(pa.RecordBatch.from_arrays(parts.columns, schema=close.input))
        said.append((str(failed.value), failed.value.sure))
    assert said[0] == said[1] == said[2]
    made.close()


@pytest.mark.parametrize(
    "aggregate",
    ["sum(i)", "avg(i)", "min(d)", "sum(d + 1)", "sum(d) FILTER (d > 0)", "count(DISTINCT s)", "sum(D)", "count_if(b)",
     "first(d)"],
)  # fmt: skip
def test_all_else_is_left_to_statements(aggregate: str) -> None:
    made = kernel(("s",), {"n": "count(*)", "x": aggregate})
    assert not isinstance(window_of(made).collect, GroupedSums)
    made.close()


def test_what_is_computed_of_sums_closes_by_a_statement() -> None:
    made = kernel(("s",), {"x": "sum(d) / count(*)"})
    window = window_of(made)
    assert (type(window.collect), type(window.close)) == (GroupedSums, Statement)
    made.close()


def test_behind_a_filter_rows_are_collected_by_its_statement() -> None:
    made = kernel(("s",), {"n": "count(*)", "x": "sum(d)"}, chained=True)
    window = window_of(made)
    assert (type(window.collect), type(window.close)) == (Statement, GroupedSums)
    made.close()


def test_a_key_of_doubles_is_left_to_statements() -> None:
    made = kernel(("d",), {"n": "count(*)"})
    window = window_of(made)
    assert (type(window.collect), type(window.close)) == (Statement, Statement)
    made.close()
