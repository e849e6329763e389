"""Partitioned nodes give the same bits for any number of partitions, and the bits of the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.app.check import check
from borealis_py.engine import DuckKernel, canonical_hash, compile_query
from borealis_py.engine.arrow.partitioner import part_of, partitions_of, sort_by_key
from borealis_py.engine.arrow.rows import merge
from borealis_py.protocol.settings import Timing
from borealis_py.query import AppSpec, Stream
from borealis_py.query.partitions import physical
from sunion.model import Output
from tests.engine import worlds
from tests.engine.chains import compiled, lived, rejects_of, rows_of, stepped
from tests.engine.worlds import COLUMNS, Buckets

LAST = 26


def grouped(app: App, a: Stream, b: Stream, n: int) -> Stream:
    """Sums of doubles in an order that shows, of a window that keeps rows and of one that keeps partials."""
    sums = app.union(a, b).window("300ms").group_by("k").agg(s="sum(x)", f="first(x)", i="sum(i % 1000)")
    sums = sums.node("sums", partitions=n, by="k")
    return sums.window("600ms").agg(l="list(k)", s="sum(s)", f="list(f)")


def rejecting(app: App, a: Stream, b: Stream, n: int) -> Stream:
    """i * 3 overflows now and then, before and behind the cut."""
    mapped = app.union(a, b).map(k="k", y="i * 3", x="x").filter("x > 0").node("mapped", partitions=n, by="k")
    return mapped.map(k="k", z="y * 2")


def twice(app: App, a: Stream, b: Stream, n: int) -> Stream:
    """Partitions that read partitions, by other columns and in another number."""
    first = app.union(a, b).map(k="k", b="b", x="x").node("first", partitions=n, by=("k", "b"))
    counts = first.window("200ms").group_by("b", "k").agg(n="count(*)", x="sum(x)")
    return counts.node("counts", partitions=3 - n % 2, by="b").filter("n > 0")


def of_doubles(app: App, a: Stream, b: Stream, n: int) -> Stream:
    return app.union(b, a).window("100ms").group_by("x").agg(n="count(*)").node("counts", partitions=n, by="x")


def joined(app: App, a: Stream, b: Stream, n: int) -> Stream:
    """Both sides are partitioned, one of them by another node; what follows adds up in an order that shows."""
    right = b.map(k="k", y="x", j="i").node("right", partitions=3 - n % 2, by="k")
    pairs = a.filter("i IS NOT NULL").join(right, on="k", within=("-350ms", "700ms"), how="left")
    pairs = pairs.map(k="k", s="x + y", j="i + j").node("pairs", partitions=n, by="k")
    return pairs.window("600ms").agg(l="list(k)", s="sum(s)", j="list(j)")


def joined_by_two(app: App, a: Stream, b: Stream, n: int) -> Stream:
    """Of doubles: NaN and -0.0 fall to the partition where their equals are."""
    pairs = a.join(b.map(k="k", x="x", j="i"), on=("x", "k"), within=("-1s", "1s"))
    return pairs.node("pairs", partitions=n, by="x")


def looked_up(app: App, a: Stream, b: Stream, n: int) -> Stream:
    """Rows and table are partitioned, the table by another node; what follows adds up in an order that shows."""
    changes = b.map(k="k", y="x", j="i", c="b").node("changes", partitions=3 - n % 2, by="k")
    rows = a.filter("i IS NOT NULL").lookup(changes.table("k", deleted="c"), on="k")
    rows = rows.map(k="k", s="x + y", j="i + j").node("rows", partitions=n, by="k")
    return rows.window("600ms").agg(l="list(k)", s="sum(s)", j="list(j)")


def looked_up_by_two(app: App, a: Stream, b: Stream, n: int) -> Stream:
    """Of doubles: NaN and -0.0 fall to the partition where their equals are."""
    table = app.union(b, a).map(k="k", x="x", j="i").table(("k", "x"), deleted="j < 0")
    return a.lookup(table, on=("x", "k")).node("rows", partitions=n, by="x")


def once(app: App, a: Stream, b: Stream, n: int) -> Stream:
    return app.union(a, b).distinct("k", "b", within="400ms").node("once", partitions=n, by="b").map(k="k", x="x")


def moving(app: App, a: Stream, b: Stream, n: int) -> Stream:
    frames = app.union(a, b).over("k", "b", last=3, within="700ms")
    moved = frames.map(k="k", s="sum(x)", before="lag(x)", d="i - lag(i)").node("moving", partitions=n, by="k")
    return moved.filter("s IS NOT NULL")


def best(app: App, a: Stream, b: Stream, n: int) -> Stream:
    ranked = app.union(b, a).window("300ms").group_by("k").top(2, by="x DESC, i").node("best", partitions=n, by="k")
    return ranked.filter("rank < 3")


def counted(app: App, a: Stream, b: Stream, n: int) -> Stream:
    """A key's windows are full at the same row in any number of partitions; what follows adds up in an order that
    shows."""
    full = app.union(a, b).window(rows=2).group_by("b", "k").agg(s="sum(x)", l="list(i)")
    return full.node("full", partitions=n, by="k").window("600ms").agg(l="list(k)", s="sum(s)", j="list(l[1])")


def in_sessions(app: App, a: Stream, b: Stream, n: int) -> Stream:
    """Of doubles: NaN and -0.0 are in the session of their equals."""
    sessions = app.union(b, a).window(gap="300ms", most="800ms").group_by("x").agg(n="count(*)", f="first(k)")
    return sessions.node("sessions", partitions=n, by="x").window(rows=3).agg(l="list(x)", f="list(f)", n="sum(n)")


BUILDS = {
    f.__name__: f
    for f in (
        grouped,
        rejecting,
        twice,
        of_doubles,
        joined,
        joined_by_two,
        looked_up,
        looked_up_by_two,
        once,
        moving,
        best,
        counted,
        in_sessions,
    )
}


def described(build: Callable[[App, Stream, Stream, int], Stream], n: int, **query: object) -> AppSpec:
    app = App("test", bucket="100ms")
    a, b = app.source("a", schema=COLUMNS), app.source("b", schema=COLUMNS)
    app.query("q", build(app, a, b, n), **query)  # type: ignore[arg-type]
    return app.describe()


@pytest.mark.parametrize("name", BUILDS)
@settings(max_examples=5, deadline=None)
@given(data=st.data(), history=worlds.histories(LAST))
def test_any_number_of_partitions_gives_the_bits_of_the_whole(name: str, data: st.DataObject, history: Buckets) -> None:
    found = []
    for n in (1, 2, 4):
        app = described(BUILDS[name], n)
        flat = compile_query(app.flattened("q"), "q")
        expected = stepped(flat, worlds.ordered(flat, history), [])
        flat.close()
        spec = physical(app)
        with compiled(spec) as (kernels, _):
            streams = lived(spec, kernels, history, data)
        assert rows_of(streams["q"]) == rows_of(expected)
        assert rejects_of(*streams.values()) == rejects_of(expected)
        found.append(rows_of(streams["q"]))
    assert found[0] == found[1] == found[2]


def together(streams: Mapping[str, Mapping[int, Output]], query: str, by: tuple[str, ...]) -> dict[int, str]:
    """The rows of all partitions of a query, in the one order."""
    parts = [outputs for name, outputs in streams.items() if name.startswith(f"{query}.")]
    rows = {b: merge([p[b].rows for p in parts if b in p]) for b in {b for p in parts for b in p}}
    return {b: canonical_hash(sort_by_key(found, by)) for b, found in rows.items() if found is not None}


@settings(max_examples=5, deadline=None)
@given(data=st.data(), history=worlds.histories(LAST), n=st.sampled_from([1, 2, 4]))
def test_a_partitioned_query_gives_the_bits_of_the_whole(data: st.DataObject, history: Buckets, n: int) -> None:
    def build(app: App, a: Stream, b: Stream, n: int) -> Stream:
        return app.union(a, b).node("n").window("400ms", every="200ms").group_by("k").agg(n="count(*)", x="sum(x)")

    app = described(build, n, partitions=n, by="k")
    flat = compile_query(app.flattened("q"), "q")
    expected = stepped(flat, worlds.ordered(flat, history), [])
    flat.close()
    spec = physical(app)
    assert list(spec.queries) == [f"q.{i}" for i in range(n)]
    with compiled_parts(spec) as kernels:
        streams = lived(spec, kernels, history, data)
    assert together(streams, "q", ("k",)) == rows_of(expected)


@contextmanager
def compiled_parts(spec: AppSpec) -> Iterator[dict[str, DuckKernel]]:
    kernels = {name: compile_query(spec, name) for name in spec.all_nodes}
    try:
        yield kernels
    finally:
        for kernel in kernels.values():
            kernel.close()


KEYS = pa.record_batch(
    {
        "s": ["a", "b", None, "a", "ü"],
        "i": [1, -1, None, 1, 2**62],
        "d": [0.0, 1.5, None, -0.0, float("nan")],
        "b": [True, False, None, True, False],
        "stime": [5, 4, 3, 2, 1],
    }
)


TYPED_KEYS = pa.record_batch(
    {
        "m": pa.array([Decimal("1.50"), Decimal("-0.05"), None, Decimal("100.00")], pa.decimal128(12, 2)),
        "n": pa.array([Decimal("1.5"), Decimal("0.0"), None, Decimal("100.0")], pa.decimal128(38, 1)),
        "t": pa.array([datetime.min, datetime(2026, 1, 2, 3, 4, 5, 6), None, datetime.max]),
        "d": pa.array([date.min, date(2026, 1, 2), None, date.max]),
        "y": [b"", b"a", None, b"\xff'"],
        "j": pa.array(['{"a":1.10}', "1", None, '"1"'], pa.json_()),
    }
)


def test_rows_fall_to_the_partitions_they_always_fell_to() -> None:
    """States and logs outlive a release: these figures may not change."""
    assert {c: partitions_of(KEYS, (c,), 1000).tolist() for c in ("s", "i", "d", "b")} == {
        "s": [200, 576, 926, 200, 5],
        "i": [947, 23, 927, 947, 798],
        "d": [680, 79, 815, 680, 874],
        "b": [481, 649, 494, 481, 649],
    }
    assert partitions_of(KEYS, ("s", "i"), 1000).tolist() == [171, 975, 625, 171, 623]
    assert {c: partitions_of(TYPED_KEYS, (c,), 1000).tolist() for c in TYPED_KEYS.schema.names} == {
        "m": [117, 957, 236, 925],
        "n": [117, 148, 236, 925],
        "t": [91, 257, 44, 921],
        "d": [186, 561, 654, 352],
        "y": [603, 964, 786, 901],
        "j": [623, 925, 391, 844],
    }
    odd = pa.record_batch({"s": ["it's", 'a "b"', "\\n", "\n", "\0", "e\u0301", "\u00e9", "\U0001fae8", "None", ""]})
    assert partitions_of(odd, ("s",), 1000).tolist() == [59, 793, 677, 367, 924, 306, 26, 417, 870, 776]


def test_a_decimal_falls_by_its_value_whatever_digits_its_column_has() -> None:
    digest = hashlib.blake2b(b"decimal|'1.5'", digest_size=8).digest()
    for column in ("m", "n"):
        assert partitions_of(TYPED_KEYS, (column,), 1000)[0] == int.from_bytes(digest, "little") % 1000


def test_a_text_falls_by_its_bytes_whatever_python_thinks_of_its_characters() -> None:
    """Python 3.11 does not know U+1FAE8 yet and would escape it in a repr, later ones do not."""
    batch = pa.record_batch({"s": ["\U0001fae8"]})
    digest = hashlib.blake2b(b"string|'\xf0\x9f\xab\xa8'", digest_size=8).digest()
    assert partitions_of(batch, ("s",), 1000).tolist() == [int.from_bytes(digest, "little") % 1000]


@pytest.mark.parametrize("by", [("s",), ("i",), ("d",), ("b",), ("s", "d")])
def test_each_row_falls_to_one_partition_and_equal_keys_to_the_same(by: tuple[str, ...]) -> None:
    parts = [part_of(KEYS, by, 3, index) for index in range(3)]
    assert sum(p.num_rows for p in parts if p is not None) == KEYS.num_rows
    where = partitions_of(KEYS, by, 3)
    assert where[0] == where[3]
    assert part_of(KEYS, by, 1, 0) is KEYS


def test_partitions_are_about_equally_full() -> None:
    batch = pa.record_batch({"k": [f"carrier {n}" for n in range(4_000)]})
    counts = np.bincount(partitions_of(batch, ("k",), 8), minlength=8)
    assert counts.min() > 400
    assert counts.max() < 600


def test_the_order_is_by_stime_then_key_with_nulls_last_then_place() -> None:
    batch = pa.record_batch({"k": ["b", None, "a", "b", "a"], "n": [0, 1, 2, 3, 4], "stime": [7, 7, 7, 7, 3]})
    assert sort_by_key(batch, ("k",)).column("n").to_pylist() == [4, 2, 0, 3, 1]


@pytest.mark.parametrize("key", ["k", "i", "x", "b"])
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_null_is_a_key_like_any_other_and_none_of_its_rows_is_lost(key: str, data: st.DataObject) -> None:
    """Of every type, behind a node that divides and at a source: one group, in one partition, with all its rows."""
    history: Buckets = {
        bucket: [
            [(None, None, None, None, bucket * worlds.WIDTH_US)] * 2,
            [("a", 1, 2.5, True, bucket * worlds.WIDTH_US)],
        ]
        for bucket in range(0, LAST, 2)
    }

    def build(app: App, a: Stream, b: Stream, n: int) -> Stream:
        both = app.union(a, b).map(**{key: key}).node("first", partitions=n, by=key)
        return both.window("200ms").group_by(key).agg(n="count(*)")

    for n in (1, 2, 4):
        spec = physical(described(build, n, partitions=3, by=key))
        with compiled_parts(spec) as kernels:
            streams = lived(spec, kernels, history, data)
            parts = [
                [row for output in streams[name].values() for row in kernels[name].to_dicts(output.rows)]
                for name in spec.queries
            ]
        assert sum(None in {row[key] for row in rows} for rows in parts) == 1
        counts = [(row[key], row["n"]) for rows in parts for row in rows]
        assert sum(n for k, n in counts if k is None) == 2 * len(history)
        assert sum(n for _, n in counts) == 3 * len(history)


def test_a_key_that_is_null_in_one_column_is_another_than_null_in_both() -> None:
    both, one, none = (
        pa.record_batch({"k": pa.array([k], pa.string()), "i": pa.array([i], pa.int64())})
        for k, i in ((None, None), (None, 1), ("a", 1))
    )
    assert len({int(partitions_of(batch, ("k", "i"), 2**32)[0]) for batch in (both, one, none)}) == 3


def test_a_list_is_no_key() -> None:
    app = App("a")
    s = app.source("s", schema={"x": "int"})
    lists = s.window("1s").group_by("x").agg(l="list(x)").node("n")
    app.query("q", lists.filter("l[1] > 0").node("p", partitions=2, by="l"))
    spec = physical(app.describe())
    said = r"its rows are partitioned by 'l', a list of int64; a key is one value: partition by another column"
    for name in ("n", "p.0"):
        with pytest.raises(QueryError, match=said):
            compile_query(spec, name)


@pytest.mark.parametrize("nested", ["{'a': x}", "to_days(1)", "to_json(x)::JSON[]"])
def test_what_is_no_column_is_no_key(nested: str) -> None:
    app = App("a")
    mapped = app.source("s", schema={"x": "int"}).map(k=nested).node("n")
    app.query("q", mapped.filter("k IS NOT NULL"), partitions=2, by="k")
    for build in (lambda: compile_query(app.describe(), "n"), lambda: check(app.describe(), Timing())):
        with pytest.raises(QueryError, match=r"map\(k\) of node 'n': its type is .*columns are string, int64, double"):
            build()
