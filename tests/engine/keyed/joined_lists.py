"""A real join, lookup or window behind the toy world of `tests/protocol`, by rows' values: a row is (stime, value)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from borealis_py import App
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.query import Stream
from sunion.model import Output

SCHEMA = segment_schema({"v": "int64"})
WITHIN = ("0s", "1s")
LOOKBACK = 10


def kernel() -> DuckKernel:
    """s0 LEFT JOIN s1, each pair with the stime of its right row, or null."""
    app = App("toy", bucket="100ms")
    left, right = (app.source(name, schema={"v": "int"}) for name in ("s0", "s1"))
    pairs = left.map(v="v", a="stime").join(right.map(v="v", b="stime"), on="v", within=WITHIN, how="left")
    app.query("q", pairs)
    return compile_query(app.describe(), "q")


def lookup_kernel() -> DuckKernel:
    """s0 with the last row of s1 that has its value, each with its stime, or null."""
    app = App("toy", bucket="100ms")
    rows, changes = (app.source(name, schema={"v": "int"}) for name in ("s0", "s1"))
    table = changes.map(v="v", b="stime").table("v", deleted="v % 5 = 0 AND b % 2 = 0")
    app.query("q", rows.map(v="v", a="stime").lookup(table, on="v"))
    return compile_query(app.describe(), "q")


def count_kernel() -> DuckKernel:
    """Every three rows of a value: the stime of the first one, and the sum of all."""
    app, both = _union()
    full = both.window(rows=3).group_by("v").agg(b="sum(since)").map(v="v", a="window_start", b="b")
    app.query("q", full)
    return compile_query(app.describe(), "q")


def session_kernel() -> DuckKernel:
    """Rows of a value less than 0.6 s apart, for at most 2 s: the stime of the first one, and the sum of all."""
    app, both = _union()
    sessions = both.window(gap="600ms", most="2s").group_by("v").agg(b="sum(since)").map(v="v", a="window_start", b="b")
    app.query("q", sessions)
    return compile_query(app.describe(), "q")


def _union() -> tuple[App, Stream]:
    app = App("toy", bucket="100ms")
    return app, app.union(*(app.source(name, schema={"v": "int"}) for name in ("s0", "s1"))).map(
        v="v % 4", since="stime"
    )


class JoinedLists:
    """Implements `sunion.model.Fragment` on the toy world's rows, by the kernel that it is given."""

    def __init__(self, on: DuckKernel) -> None:
        self.on = on
        self.lookback_buckets = on.lookback_buckets

    def initial(self) -> Any:
        return self.on.initial()

    def step(
        self, state: Any, first: int, end: int, buckets: Mapping[int, Sequence[tuple[int, ...]]]
    ) -> tuple[Any, dict[int, Output]]:
        state, outputs = self.on.step(state, first, end, {b: _batches(rows) for b, rows in buckets.items()})
        return state, {b: Output(_rows(output.rows), output.rejects) for b, output in outputs.items()}


def _batches(rows: Sequence[tuple[int, ...]]) -> tuple[pa.RecordBatch | None, ...]:
    sides = [[(value, stime) for stime, index, _, value in rows if index == side] for side in (0, 1)]
    return tuple(
        pa.RecordBatch.from_arrays([pa.array(list(column)) for column in zip(*side, strict=True)], schema=SCHEMA)
        if side
        else None
        for side in sides
    )


def _rows(rows: pa.RecordBatch) -> tuple[tuple[int, ...], ...]:
    """(stime, value, stime of the left row, of the right one or None)."""
    return tuple((row["stime"], row["v"], row["a"], row["b"]) for row in rows.to_pylist())
