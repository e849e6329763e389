"""Queries whose steps may be split anywhere."""

from __future__ import annotations

from collections.abc import Callable

from borealis_py import App
from borealis_py.query import Stream
from borealis_py.query.tables import Table

LAST = 26


CASE = "CASE WHEN i > 0 THEN 0.1 ELSE 1e16 END"


QUERIES: dict[str, Callable[[App, Stream, Stream], Stream]] = {
    "filter": lambda app, a, b: app.union(a, b).filter("x > 0 OR b"),
    "map": lambda app, a, b: app.union(a, b.filter("b")).map(k="k || '!'", y="x * 3.1 + i / 7", z="i % 3"),
    "plain": lambda app, a, b: app.union(b, a),
    "keyed": lambda app, a, b: (
        app.union(a, b).filter("i IS NOT NULL").window("500ms").group_by("k")
        .agg(n="count(*)", s="sum(x)", m="avg(x / 60.0)", lo="min(x)", hi="max(k)", r="sum(x) / count(*)", t="sum(i)")
    ),
    "sliding": lambda app, a, b: (
        app.union(a, b).window("1s", every="200ms").group_by("k", "b")
        .agg(s=f"sum({CASE})", c="sum(0.1::DOUBLE)", m="avg(x)", n="count(x) FILTER (WHERE b)", a="bool_or(b)")
    ),
    "unkeyed": lambda app, a, b: (
        app.union(a, b).filter("x <> 0").window("300ms")
        .agg(s="sum(x)", c=f"avg({CASE})", z="count_if(i > 0)", k="max(x)")
    ),
    "rows": lambda app, a, b: (
        app.union(a, b).filter("b IS NOT NULL").window("600ms", every="300ms").group_by("k")
        .agg(l="list(x)", f="first(x)", m="median(i)", d="stddev(i % 100)", s="sum(x)", t="string_agg(k, ',')",
             u="count(DISTINCT i)", e="max_by(x, i)")
    ),
    "rows_unkeyed": lambda app, a, b: a.window("400ms", every="200ms").agg(f="last(i)", s="sum(x) + sum(0.1::DOUBLE)"),
    "windows_of_windows": lambda app, a, b: (
        app.union(a, b).window("200ms").group_by("k").agg(s="sum(x)", n="count(*)")
        .filter("n > 1").window("800ms", every="400ms").agg(t="sum(s)", w="count(*)")
    ),
    "union_of_windows": lambda app, a, b: app.union(
        a.window("300ms").group_by("k").agg(s="sum(x)"), b.window("200ms").group_by("k").agg(s="avg(x)")
    ),
    "decimals": lambda app, a, b: (
        app.union(a, b).map(k="k", b="b", d="CAST(i % 1000000 AS DECIMAL(18, 3)) * 1.125")
        .window("600ms", every="200ms").group_by("k")
        .agg(s="sum(d)", m="avg(d)", lo="min(d)", n="count(d)", f="sum(d) FILTER (WHERE b)", l="list(d)")
    ),
    "rejecting": lambda app, a, b: (
        app.union(a, b).map(k="k", y="i * 3", x="x").window("400ms").group_by("k")
        .agg(s="sum(y)", n="count(*)", t="sum(x)")
    ),
}  # fmt: skip


def _paired(app: App, a: Stream, b: Stream, how: str) -> Stream:
    renamed = b.map(k="k", y="x * 2", j="i", c="b")
    return a.filter("b IS NOT NULL").join(renamed, on="k", within=("-350ms", "2s"), how=how)


def _table(changes: Stream) -> Table:
    return changes.map(k="k", y="x * 2", j="i", c="b").table("k", deleted="c")


KEYED: dict[str, Callable[[App, Stream, Stream], Stream]] = {
    "join": lambda app, a, b: _paired(app, a, b, "inner").filter("j IS NOT NULL OR y > 0"),
    "left_join": lambda app, a, b: _paired(app, a, b, "left").map(k="k", s="x + y", j="i * j"),
    "self_join": lambda app, a, b: a.join(a.map(k="k", i="i", later="x"), on=("i", "k"), within=("1ms", "900ms")),
    "aggregated_join": lambda app, a, b: (
        _paired(app, a, b, "left").window("500ms").group_by("k").agg(s="sum(x + y)", n="count(*)", l="list(j)")
    ),
    "join_of_windows": lambda app, a, b: a.window("300ms").group_by("k").agg(s="sum(x)").join(
        b.window("300ms").group_by("k").agg(t="sum(x)"), on=("window_start", "window_end", "k"), within=("0s", "0s"),
        how="left",
    ),
    "lookup": lambda app, a, b: a.filter("b IS NOT NULL").lookup(_table(b), on="k").map(k="k", s="x + y", j="i * j"),
    "aggregated_lookup": lambda app, a, b: (
        a.lookup(_table(b), on="k").window("500ms").group_by("k").agg(s="sum(x + y)", n="count(y)", l="list(j)")
    ),
    "lookup_in_windows": lambda app, a, b: app.union(a, b).map(k="k", x="x").lookup(
        b.window("300ms").group_by("x").agg(n="count(*)", l="list(i)").table("x", deleted="n = 1"), on="x"
    ),
    "distinct": lambda app, a, b: app.union(a, b).distinct("k", "b", within="2s").filter("x > 0 OR b"),
    "distinct_join": lambda app, a, b: _paired(app, a, b.distinct("k", within="300ms"), "left"),
    "over": lambda app, a, b: app.union(a, b).filter("b IS NOT NULL").over("k", last=4, within="1s").map(
        k="k", before="lag(x)", d="i - lag(i, 2)", s="sum(x)", n="count(*)", l="list(x)", m="avg(x) FILTER (WHERE b)",
        t="sum(i * 3)",
    ),
    "over_all": lambda app, a, b: app.union(b, a).over(last=20, within="700ms").map(s="sum(x)", f="first(k)", x="x"),
    "top": lambda app, a, b: (
        app.union(a, b).filter("b").window("600ms", every="300ms").group_by("k").top(2, by="x DESC")
    ),
    "top_unkeyed": lambda app, a, b: app.union(b, a).window("400ms").top(3, by="i * 2, k DESC NULLS FIRST"),
    "count": lambda app, a, b: app.union(a, b).filter("b IS NOT NULL").window(rows=3).group_by("k").agg(
        s="sum(x)", l="list(x)", m="avg(x)", t="sum(i)", f="first(stime)", r="sum(x) / count(*)", z=f"sum({CASE})",
    ),
    "count_unkeyed": lambda app, a, b: app.union(b, a).window(rows=4).agg(s="sum(x * 3)", n="count(*)"),
    "session": lambda app, a, b: app.union(a, b).filter("x <> 0").window(gap="400ms", most="1s").group_by("k", "b").agg(
        s="sum(x)", l="list(i)", n="count(*)", t="sum(i * 3)",
    ),
    "session_unkeyed": lambda app, a, b: (
        a.window(gap="150ms", most="210ms").agg(n="count(*)", f="first(k)", s="avg(x)")
    ),
    "sessions_of_counts": lambda app, a, b: (
        app.union(a, b).window(rows=2).group_by("k").agg(s="sum(x)").window(gap="300ms", most="2s").agg(
            n="count(*)", s="sum(s)", l="list(k)")
    ),
}  # fmt: skip
"""The same, of operators that compare rows by key."""
