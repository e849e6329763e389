"""Small apps, random rows and ways to run a kernel, shared by the engine's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.engine import DuckKernel, canonical_hash, compile_query
from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.query import Stream

WIDTH_US = 100_000
COLUMNS = {"k": "string", "i": "int", "x": "double", "b": "bool"}
SCHEMA = segment_schema({"k": "string", "i": "int64", "x": "double", "b": "bool"})
Row = tuple[str | None, int | None, float | None, bool | None, int]
"""k, i, x, b, stime"""
TYPED_COLUMNS = {
    "k": "string", "i": "int64", "m": "decimal(12,2)", "w": "decimal(38,4)", "t": "timestamp", "d": "date",
    "y": "binary", "j": "json",
}  # fmt: skip
TYPED_SCHEMA = segment_schema(TYPED_COLUMNS)
Buckets = dict[int, list[list[Any]]]
"""Rows of each bucket by input."""


def make(build: Callable[[App, Stream, Stream], Stream], columns: Mapping[str, str] = COLUMNS) -> DuckKernel:
    """A kernel of query "q" over the sources "a" and "b", both with `columns`."""
    app = App("test", bucket="100ms")
    a, b = app.source("a", schema=columns), app.source("b", schema=columns)
    app.query("q", build(app, a, b))
    return compile_query(app.describe(), "q")


@contextmanager
def kernel(
    build: Callable[[App, Stream, Stream], Stream], columns: Mapping[str, str] = COLUMNS
) -> Iterator[DuckKernel]:
    made = make(build, columns)
    try:
        yield made
    finally:
        made.close()


def batch(rows: list[Any]) -> pa.RecordBatch:
    """Rows of either schema; they differ in their number of columns."""
    schema = TYPED_SCHEMA if rows and len(rows[0]) == len(TYPED_SCHEMA) else SCHEMA
    columns = list(zip(*rows, strict=True)) or [[]] * len(schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def ordered(on: DuckKernel, buckets: Buckets) -> dict[int, Any]:
    """What SUnion hands to `step`; the kernel's inputs are the query's sources in their order."""
    wanted = ["ab".index(s) for s in on.spec.inputs]
    found = {}
    for bucket, parts in buckets.items():
        mine = [batch(parts[i]) if parts[i] else None for i in wanted]
        if any(p is not None for p in mine):
            found[bucket] = on.order(mine)
    return found


def fingerprints(outputs: Mapping[int, Any]) -> dict[int, object]:
    return {b: (None if o.rows is None else canonical_hash(o.rows), o.rejects) for b, o in outputs.items()}


def state_prints(state: Any) -> list[list[tuple[int, str]]]:
    return [[(bucket, canonical_hash(part)) for bucket, part in operator] for operator in state]


def run(on: DuckKernel, buckets: Buckets, first: int, end: int) -> dict[int, list[dict[str, object]]]:
    """All rows of all buckets as dicts, in one step."""
    _, outputs = on.step(on.initial(), first, end, ordered(on, buckets))
    return {b: on.to_dicts(o.rows) for b, o in outputs.items() if o.rows is not None}


MIXED = st.one_of(
    st.floats(-1e3, 1e3),
    st.sampled_from([1e16, -1e16, 1.0, 0.1, -0.0, 1e-300, -1e300, 1e300, 3.0, float("inf"), float("nan")]),
    st.none(),
)
"""Doubles of mixed magnitudes and signs: any change in the order of additions shows."""


TAME = st.one_of(st.floats(-1e3, 1e3), st.none())
"""Doubles whose sums differ by little whatever their order."""


def row_of(bucket: int, tame: bool = False) -> st.SearchStrategy[Row]:
    """A row of the bucket. Not tame: sums of integers overflow now and then, those of doubles show their order."""
    small = st.integers(-5, 5)
    return st.tuples(
        st.sampled_from(["a", "b", "c", "ü", "", None]),
        st.one_of(small, st.none()) if tame else st.one_of(small, st.sampled_from([2**62, -(2**62)]), st.none()),
        TAME if tame else MIXED,
        st.sampled_from([True, False, None]),
        st.integers(bucket * WIDTH_US, (bucket + 1) * WIDTH_US - 1),
    )


@st.composite
def histories(draw: st.DrawFn, last: int, tame: bool = False) -> Buckets:
    """Rows of some buckets of [0, last), for two inputs."""
    found = draw(st.lists(st.integers(0, last - 1), max_size=12, unique=True))
    return {b: [draw(st.lists(row_of(b, tame), max_size=6)) for _ in range(2)] for b in sorted(found)}


def _or_null(*values: object) -> st.SearchStrategy[Any]:
    return st.sampled_from([*values, None])


MONEY = st.one_of(st.integers(-500, 500), _or_null(10**12 - 1, 1 - 10**12)).map(lambda n: _decimal(n, 2))
"""decimal(12,2), of which doubles of a few sums would lose digits."""
WIDE = st.one_of(st.integers(-500, 500), _or_null(10**38 - 1, 1 - 10**38, 6 * 10**37)).map(lambda n: _decimal(n, 4))
"""decimal(38,4), of which sums overflow now and then."""
TIMES = _or_null(datetime.min, datetime.max, datetime(1970, 1, 1), datetime(2024, 2, 29, 12, 30, 15, 123456))
DATES = _or_null(date.min, date.max, date(1970, 1, 1), date(2024, 2, 29))
BYTES = _or_null(b"", b"\0", b"a", b"\xff\xfe", b"a\0b")
JSONS = _or_null('{"a":1.10}', '{"a":{"b":[1,null]}}', "[1,2]", '"\u00fc"', "1e300", "12345678901234567890123")


def _decimal(unscaled: int | None, scale: int) -> Decimal | None:
    return None if unscaled is None else Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def typed_row_of(bucket: int) -> st.SearchStrategy[Any]:
    """A row of `TYPED_SCHEMA`, with extremes of every type."""
    stimes = st.integers(bucket * WIDTH_US, (bucket + 1) * WIDTH_US - 1)
    return st.tuples(
        st.sampled_from(["a", "b", None]), st.integers(-3, 3), MONEY, WIDE, TIMES, DATES, BYTES, JSONS, stimes
    )


@st.composite
def typed_histories(draw: st.DrawFn, last: int) -> Buckets:
    """As `histories`, of rows of every type."""
    found = draw(st.lists(st.integers(0, last - 1), max_size=10, unique=True))
    return {b: [draw(st.lists(typed_row_of(b), max_size=5)) for _ in range(2)] for b in sorted(found)}


WIDE_MAX = Decimal((0, (9,) * 38, -4))
"""The largest decimal(38,4)."""
