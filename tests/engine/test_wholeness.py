"""An app that begins in the middle of its topics, against one that has read all rows: what it gives is whole, and all
that is whole is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.query import AppSpec, Stream
from borealis_py.query.spec import Beginning
from borealis_py.query.wholeness import ALWAYS, left_out_until, whole_from
from tests.engine import worlds
from tests.engine.chains import LAST, compiled, lived, rows_of, stepped
from tests.engine.worlds import COLUMNS, Buckets, Row
from tests.examples import examples

END = LAST + 40
"""By then every window has closed."""


def counted(app: App, a: Stream, b: Stream) -> Stream:
    return app.union(a, b).window("300ms").group_by("k").agg(n="count(*)", i="sum(i)")


def sliding(app: App, a: Stream, b: Stream) -> Stream:
    return app.union(a.filter("b"), b).window("500ms", every="200ms", offset="100ms").agg(n="count(*)")


def of_windows(app: App, a: Stream, b: Stream) -> Stream:
    parts = app.union(a, b).window("200ms").group_by("k").agg(n="count(*)").node("parts")
    return (
        parts.window("400ms", every="200ms")
        .agg(n="sum(n)", most="max(n)")
        .node("totals")
        .window("800ms")
        .agg(n="sum(n)")
    )


def topped(app: App, a: Stream, b: Stream) -> Stream:
    return app.union(a, b).window("300ms").group_by("k").agg(n="count(*)").window("300ms").top(2, by="n DESC, k")


def unpaid(app: App, a: Stream, b: Stream) -> Stream:
    return a.join(b.map(k="k", j="i"), on="k", within=("-600ms", "300ms"), how="left")


def unpaid_counted(app: App, a: Stream, b: Stream) -> Stream:
    return unpaid(app, a, b).node("joined").window("400ms").group_by("k").agg(n="count(*)", paid="count(j)")


def pairs_counted(app: App, a: Stream, b: Stream) -> Stream:
    joined = a.join(b.map(k="k", j="i"), on="k", within=("-400ms", "100ms"))
    return joined.window("200ms").group_by("k").agg(n="count(*)")


def visits(app: App, a: Stream, b: Stream) -> Stream:
    return app.union(a, b).window(gap="200ms", most="2s").group_by("k").agg(n="count(*)")


def visits_counted(app: App, a: Stream, b: Stream) -> Stream:
    return visits(app, a, b).node("visits").window("400ms").agg(n="count(*)", rows="sum(n)")


SHAPES = (counted, sliding, of_windows, topped, unpaid, unpaid_counted, pairs_counted, visits, visits_counted)
WHOLE = ((1_150_000, 700_000), (0, 930_001))
Case = tuple[AppSpec, DuckKernel, DuckKernel]


def described(build: Callable[[App, Stream, Stream], Stream], whole: tuple[int, int]) -> AppSpec:
    app = App("test", bucket="100ms")
    a, b = app.source("a", schema=COLUMNS), app.source("b", schema=COLUMNS)
    app.query("q", build(app, a, b))
    begun = {name: Beginning(offsets=(7,), whole_us=us) for name, us in zip("ab", whole, strict=True)}
    return app.describe().model_copy(update={"beginnings": begun})


@pytest.fixture(scope="module", params=[(s, w) for s in SHAPES for w in WHOLE], ids=lambda p: f"{p[0].__name__}-{p[1]}")
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """The app that began late, its kernel, and that of one that has read all rows."""
    spec = described(*request.param).flattened("q")
    full = spec.model_copy(update={"beginnings": {}})
    with closing(compile_query(spec, "q")) as late, closing(compile_query(full, "q")) as all_of_it:
        yield spec, late, all_of_it


def results(kernel: DuckKernel, history: Buckets) -> list[dict[str, Any]]:
    _, outputs = kernel.step(kernel.initial(), 0, END, worlds.ordered(kernel, history))
    return [row for out in outputs.values() if out.rows is not None for row in out.rows.to_pylist()]


def counts(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


@settings(max_examples=examples(6), deadline=None)
@given(data=st.data(), history=worlds.histories(LAST, tame=True))
def test_what_is_given_is_whole_and_all_that_is_whole_is_given(
    case: Case, data: st.DataObject, history: Buckets
) -> None:
    spec, late, all_of_it = case

    def seen(row: Row, source: str) -> bool:
        return row[-1] >= spec.beginnings[source].whole_us or data.draw(st.booleans(), label=f"{row} came late")

    read = {
        b: [[row for row in rows if seen(row, s)] for s, rows in zip("ab", parts, strict=True)]
        for b, parts in history.items()
    }
    found, truth = results(late, read), results(all_of_it, history)
    assert counts(found) <= counts(truth)
    since = whole_from(spec, "q")
    assert counts([row for row in truth if row["stime"] >= since]) <= counts(found)


@settings(max_examples=examples(3), deadline=None)
@given(data=st.data(), history=worlds.histories(LAST, tame=True))
@pytest.mark.parametrize("build", [of_windows, unpaid_counted, visits_counted])
def test_node_by_node_leaves_out_the_same(build: Any, data: st.DataObject, history: Buckets) -> None:
    assume(history)
    spec = described(build, (1_150_000, 700_000))
    with compiled(spec) as (kernels, flat):
        streams = lived(spec, kernels, history, data)
        assert rows_of(streams["q"]) == rows_of(stepped(flat, worlds.ordered(flat, history), []))


def test_an_app_that_has_read_all_rows_leaves_nothing_out() -> None:
    spec = described(of_windows, (0, 0))
    for one in (spec, spec.model_copy(update={"beginnings": {}})):
        assert [bound for node in one.all_nodes for bound in left_out_until(one, node) if bound > ALWAYS] == []
        assert whole_from(one, "q") == ALWAYS


def test_where_a_query_begins_is_no_part_of_what_it_computes() -> None:
    spec = described(counted, (5, 0))
    assert spec.hash == spec.model_copy(update={"beginnings": {}}).hash
    assert AppSpec.from_json(spec.to_json()) == spec
