"""Small apps, random rows and ways to run a kernel, shared by the engine's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.engine import DuckKernel, canonical_hash, compile_query
from borealis_py.engine.rows import segment_schema
from borealis_py.query import Stream

WIDTH_US = 100_000
COLUMNS = {"k": "string", "i": "int", "x": "double", "b": "bool"}
SCHEMA = segment_schema({"k": "string", "i": "int64", "x": "double", "b": "bool"})
Row = tuple[str | None, int | None, float | None, bool | None, int]
"""k, i, x, b, stime"""
Buckets = dict[int, list[list[Row]]]
"""Rows of each bucket by input."""


def make(build: Callable[[App, Stream, Stream], Stream]) -> DuckKernel:
    """A kernel of query "q" over the sources "a" and "b", both with `COLUMNS`."""
    app = App("test", bucket="100ms")
    a, b = app.source("a", schema=COLUMNS), app.source("b", schema=COLUMNS)
    app.query("q", build(app, a, b))
    return compile_query(app.describe(), "q")


@contextmanager
def kernel(build: Callable[[App, Stream, Stream], Stream]) -> Iterator[DuckKernel]:
    made = make(build)
    try:
        yield made
    finally:
        made.close()


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [[]] * 5
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


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
