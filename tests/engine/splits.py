"""Queries whose steps may be split anywhere."""

from __future__ import annotations

from collections.abc import Callable

from borealis_py import App
from borealis_py.query import Stream

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
    "rejecting": lambda app, a, b: (
        app.union(a, b).map(k="k", y="i * 3", x="x").window("400ms").group_by("k")
        .agg(s="sum(y)", n="count(*)", t="sum(x)")
    ),
}  # fmt: skip
