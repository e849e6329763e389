"""How long a bucket of a join takes, once the rows of all of `within` are kept.

The kernel alone, on rows that are decoded already: what a replica adds to a bucket's delay by the join itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from borealis_py.bench.console import Bars
from borealis_py.bench.figures import BenchError, Percentiles
from borealis_py.demo.measure import percentile
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.query import App

BUCKET_US = 100_000
FILL = 20
"""Buckets that run in one step while the state is filled."""
LEFT = {"id": "string", "euros": "double", "number": "int64"}
RIGHT = {"id": "string", "paid": "double"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions:
    """`rows_per_s`: of both sides together; `within_s`: how long a row is kept; `keys`: how many different ones;
    `buckets`: how many are measured after that."""

    rows_per_s: int = 10_000
    within_s: int = 60
    keys: int = 100_000
    buckets: int = 300


@dataclass(frozen=True, slots=True)
class JoinFigures:
    """One kind of join (`how`). `bucket`: milliseconds that a bucket took; `cpu`: of them, what the processor worked.
    `pairs`: in a bucket, on average. `kept`: rows in the state; `state_bytes`: its size in a checkpoint."""

    how: str
    bucket: Percentiles
    cpu: Percentiles
    pairs: float
    kept: int
    state_bytes: int


def measure(how: str, options: JoinOptions, bars: Bars) -> JoinFigures:
    """One kind of join. Raises BenchError: it gave no pairs."""
    app = App("bench", bucket="100ms")
    left, right = app.source("orders", schema=LEFT), app.source("payments", schema=RIGHT)
    app.query("paid", left.join(right, on="id", within=("0s", f"{options.within_s}s"), how=how))
    fill = options.within_s * 1_000_000 // BUCKET_US
    last = fill + options.buckets
    with closing(compile_query(app.describe(), "paid")) as kernel, bars.bar(f"{how} join", last) as at:
        state, buckets = kernel.initial(), _buckets(kernel, options)
        for first in range(0, fill, FILL):
            end = min(first + FILL, fill)
            state, _ = kernel.step(state, first, end, {b: next(buckets) for b in range(first, end)})
            at(end)
        took_us, worked_us, pairs = list[int](), list[int](), 0
        for bucket in range(fill, last):
            rows = {bucket: next(buckets)}
            started, began = time.monotonic(), time.thread_time()
            state, outputs = kernel.step(state, bucket, bucket + 1, rows)
            worked_us.append(round((time.thread_time() - began) * 1e6))
            took_us.append(round((time.monotonic() - started) * 1e6))
            pairs += sum(output.rows.num_rows for output in outputs.values() if output.rows is not None)
            at(bucket + 1)
        if not pairs:
            raise BenchError(f"the {how} join gave no pairs: fewer --keys")
        kept = sum(batch.num_rows for blocks in state for _, batch in blocks)
        size = len(kernel.encode_state(state))
    wall, cpu = (Percentiles(len(us), *(percentile(us, p) / 1e3 for p in (50, 99, 100))) for us in (took_us, worked_us))
    return JoinFigures(how, wall, cpu, pairs / options.buckets, kept, size)


def _buckets(kernel: DuckKernel, options: JoinOptions) -> Iterator[Any]:
    """Rows with random keys, bucket after bucket, half of them on either side."""
    random = np.random.default_rng(1)
    schemas = [segment_schema(columns) for columns in (LEFT, RIGHT)]
    size = max(1, options.rows_per_s * BUCKET_US // 2_000_000)
    bucket = 0
    while True:
        yield kernel.order([_side(random, schema, bucket, size, options.keys) for schema in schemas])
        bucket += 1


def _side(random: np.random.Generator, schema: pa.Schema, bucket: int, size: int, keys: int) -> pa.RecordBatch:
    made = {
        "id": pa.array([f"order-{key:08d}" for key in random.integers(0, keys, size)]),
        "number": pa.array(np.arange(size)),
        "stime": pa.array(np.sort(random.integers(bucket * BUCKET_US, (bucket + 1) * BUCKET_US, size))),
    }
    amounts = pa.array(random.random(size))
    return pa.RecordBatch.from_arrays([made.get(name, amounts) for name in schema.names], schema=schema)
