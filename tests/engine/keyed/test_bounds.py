"""What a step may cost, and who pays: groups, memory, bytes under nulls, and dead letters in their normal form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.engine import DuckKernel, canonical_hash, compile_query
from borealis_py.engine.arrow.rows import row_sizes
from borealis_py.engine.keyed.join import JoinOperator
from borealis_py.engine.keyed.kept_rows import sizes_at
from borealis_py.query import Stream
from borealis_py.query.partitions import physical
from sunion.errors import EngineOutOfMemory

TEXTS = {"k": "string", "a": "string", "b": "string"}


def kernel(
    build: Callable[[Stream], Stream], columns: Mapping[str, str] = TEXTS, node: str = "q", **query: Any
) -> DuckKernel:
    app = App("test", bucket="100ms")
    app.query("q", build(app.source("s", schema=columns)), **query)
    return compile_query(physical(app.describe()), node, row_max_bytes=1000)


def rows_of(on: DuckKernel, rows: list[tuple[Any, ...]], source: str = "s") -> pa.RecordBatch:
    """Rows of a source, with their stimes at the end."""
    schema = on.source_codec(source).schema
    columns = list(zip(*rows, strict=True))
    return pa.RecordBatch.from_arrays(
        [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


LARGE = [("x", "a" * 600, "b", 1), ("x", "z", "B" * 600, 2), *((f"y{i}", "a", "b", 3 + i) for i in range(5))]


def test_a_group_that_is_too_large_costs_itself_alone_however_many_partitions_there_are() -> None:
    build = lambda s: s.window("100ms").group_by("k").agg(a="min(a)", b="min(b)")  # noqa: E731
    found = []
    for nodes, query in ((["q"], {}), (["q.0", "q.1"], {"partitions": 2, "by": "k"})):
        keys, reasons = [], []
        for node in nodes:
            on = kernel(build, node=node, **query)
            output = on.step(on.initial(), 0, 1, {0: (rows_of(on, LARGE),)})[1][0]
            keys += [] if output.rows is None else output.rows.column("k").to_pylist()
            reasons += [reject.reason for reject in output.rejects]
            on.close()
        found.append((sorted(keys), reasons))
    assert found[0] == found[1]
    assert found[0][0] == [f"y{i}" for i in range(5)]
    assert "k='x': a row of the result is larger" in found[0][1][0]


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.window("100ms").top(3, by="a"),
        lambda s: s.window("100ms").group_by("k").agg(n="length(min(a)) - length(max(a))"),
    ],
)
def test_a_row_within_its_bounds_is_in_the_result_although_it_was_held_twice_meanwhile(
    build: Callable[[Stream], Stream],
) -> None:
    on = kernel(build)
    output = on.step(on.initial(), 0, 1, {0: (rows_of(on, [("x", "t" * 600, "", 1)]),)})[1][0]
    assert (output.rows.num_rows, output.rejects) == (1, ())
    on.close()


def test_a_sum_of_the_widest_integers_that_overflows_costs_its_group_alone() -> None:
    on = kernel(
        lambda s: s.window("100ms").group_by("k").agg(t="sum(CAST(x AS HUGEINT) * 100000000000000000000)"),
        {"k": "string", "x": "int64"},
    )
    rows = [("x", 9 * 10**17, 1), ("x", 9 * 10**17, 2), ("z", 0, 3)]
    output = on.step(on.initial(), 0, 1, {0: (rows_of(on, rows),)})[1][0]
    assert output.rows.column("k").to_pylist() == ["z"]
    assert len(output.rejects) == 1
    on.close()


def test_buckets_that_need_too_much_memory_together_run_in_smaller_groups_with_the_same_bits() -> None:
    app = App("test", bucket="100ms")
    left, right = app.source("l", schema={"k": "string", "t": "string"}), app.source("r", schema={"k": "string"})
    app.query("q", left.join(right, on="k", within=("-10s", "0s")))
    on = compile_query(app.describe(), "q")

    def limit(memory_bytes: int) -> None:
        small = [replace(o, memory_bytes=memory_bytes) if isinstance(o, JoinOperator) else o for o in on._operators]
        on._operators = tuple(small)

    one = rows_of(on, [("k", i) for i in range(100)], "r")
    many = {b: (rows_of(on, [("k", "t" * 200, b * 100_000 + i) for i in range(20)], "l"), None) for b in range(1, 21)}
    buckets: dict[int, Any] = {0: (None, one), **many}
    _, whole = on.step(on.initial(), 0, 21, buckets)
    limit(2 << 20)
    _, parts = on.step(on.initial(), 0, 21, buckets)
    assert [(b, canonical_hash(o.rows)) for b, o in parts.items()] == [
        (b, canonical_hash(o.rows)) for b, o in whole.items()
    ]
    assert sum(o.rows.num_rows for o in parts.values()) == 20 * 20 * 100
    limit(100_000)
    with pytest.raises(EngineOutOfMemory, match="at once"):
        on.step(on.initial(), 0, 21, buckets)
    on.close()


KINDS = pa.string(), pa.binary(), pa.json_()


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=10), st.sampled_from(KINDS))
def test_bytes_under_a_null_count_for_nothing(texts: list[tuple[int, bool]], kind: pa.DataType) -> None:
    offsets = np.cumsum([0, *(length for length, _ in texts)], dtype=np.int32)
    valid = np.packbits([there for _, there in texts], bitorder="little")
    buffers = [pa.py_buffer(valid.tobytes()), pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"x" * int(offsets[-1]))]
    column = pa.Array.from_buffers(pa.binary() if pa.types.is_binary(kind) else pa.string(), len(texts), buffers)
    column = pa.ExtensionArray.from_storage(kind, column) if kind == pa.json_() else column
    batch = pa.RecordBatch.from_arrays([column, pa.array(range(len(texts)))], names=["t", "n"])
    every = np.arange(len(texts))
    assert (
        sizes_at(batch, every).tolist() == row_sizes(batch).tolist() == row_sizes(batch.take(pa.array(every))).tolist()
    )


def test_dead_letters_of_frames_and_filters_have_one_form() -> None:
    columns = {"k": "string", "m": "decimal(12,7)", "t": "timestamp", "j": "json", "i": "int64"}
    row = b'[{"k":"x","m":"0.0000000","t":"2026-01-01T00:00:00.000000Z","j":{"a":1},"i":1}]'
    wrong = "CAST(k AS BIGINT)"
    raws = []
    for build in (
        lambda s: s.map(k="k", m="m", t="t", j="j", n=wrong),
        lambda s: s.over("k", last=2, within="1s").map(k="k", n=f"{wrong} + sum(i)"),
    ):
        on = kernel(build, columns)
        rows, _ = on.source_codec("s").decode(row, "json", [1])
        (reject,) = on.step(on.initial(), 0, 1, {0: on.order(on.settle([[rows]]))})[1][0].rejects
        raws.append(reject.raw)
        on.close()
    assert raws[0] == raws[1]


def test_lag_of_nothing_is_an_error_of_the_query() -> None:
    with pytest.raises(QueryError, match="lag"):
        kernel(lambda s: s.over("k", last=3, within="1s").map(k="k", b="lag()"))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_values_that_are_too_many_to_be_copied_are_counted(kind: pa.DataType) -> None:
    large = pa.array(["x" * 900_000], pa.binary() if pa.types.is_binary(kind) else pa.string())
    column = pa.ExtensionArray.from_storage(kind, large) if kind == pa.json_() else large
    batch = pa.RecordBatch.from_arrays([column, pa.array([1])], names=["t", "n"])
    assert sizes_at(batch, np.zeros(5_000, dtype=np.int64)).tolist() == [900_008] * 5_000  # of 4.5 GB
