"""A chain run node by node gives what the flattened query gives, bit for bit, for any cuts and any split of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.engine import DuckKernel, OperatorClass, compile_query
from borealis_py.query import AppSpec, Stream
from tests.engine import worlds
from tests.engine.chains import LAST, compiled, lived, rejects_of, rows_of, stepped
from tests.engine.worlds import COLUMNS, Buckets

CASE = "CASE WHEN i > 0 THEN 0.1 ELSE 1e16 END"


def relay(app: App, a: Stream, b: Stream) -> Stream:
    return app.union(a, b).node("n1").node("n2")


def rejecting(app: App, a: Stream, b: Stream) -> Stream:
    """i * 3 overflows now and then; y is not used below the cut and refuses rows all the same."""
    mapped = app.union(a, b).map(k="k", y="i * 3", x="x", c="0.1::DOUBLE").node("mapped")
    return mapped.window("400ms").group_by("k").agg(s="sum(x)", c="sum(c)").node("sums").filter("s IS NOT NULL")


def diamond(app: App, a: Stream, b: Stream) -> Stream:
    common = app.union(b, a).filter("b IS NOT NULL")
    left = common.map(k="k", x="x * 3.1").node("left")
    right = common.filter("i > 0").map(k="k", x="x / 7").node("right")
    return app.union(right, left, a.map(k="k || '!'", x="x")).window("300ms").group_by("k").agg(s="sum(x)")


def windows(app: App, a: Stream, b: Stream) -> Stream:
    parts = app.union(a, b).window("200ms").group_by("k").agg(s=f"sum({CASE})", l="list(x)", n="count(*)").node("parts")
    totals = parts.filter("n > 1").window("800ms", every="400ms").agg(t="sum(s)", l="list(l[1])", w="max(window_end)")
    return app.union(totals.node("totals"), totals.filter("w > 400000"))


CHAINS = {f.__name__: f for f in (relay, rejecting, diamond, windows)}


@pytest.fixture(scope="module", params=list(CHAINS))
def chain(request: pytest.FixtureRequest) -> Iterator[tuple[AppSpec, dict[str, DuckKernel], DuckKernel]]:
    """The description, the kernel of each node, the kernel of the flattened query."""
    app = App("test", bucket="100ms")
    a, b = app.source("a", schema=COLUMNS), app.source("b", schema=COLUMNS)
    app.query("q", CHAINS[request.param](app, a, b))
    spec = app.describe()
    with compiled(spec) as (kernels, flat):
        yield spec, kernels, flat


@settings(max_examples=25, deadline=None)
@given(data=st.data(), history=worlds.histories(LAST))
def test_node_by_node_equals_the_flattened_query(
    chain: tuple[AppSpec, dict[str, DuckKernel], DuckKernel], data: st.DataObject, history: Buckets
) -> None:
    spec, kernels, flat = chain
    streams = lived(spec, kernels, history, data)
    expected = stepped(flat, worlds.ordered(flat, history), [])
    assert rows_of(streams["q"]) == rows_of(expected)
    assert rejects_of(*streams.values()) == rejects_of(expected)


STEPS: dict[str, Callable[[App, Stream, Stream], Stream]] = {
    "filter": lambda app, s, a: s.filter("x > 0 OR b"),
    "map": lambda app, s, a: s.map(k="k || '.'", i="i * 2", x="x * 3.1 + 0.1", b="b"),
    "constant": lambda app, s, a: s.map(k="k", i="3", x="0.1::DOUBLE", b="i > 0"),
    "union": lambda app, s, a: app.union(s, a),
    "window": lambda app, s, a: (
        s.window("400ms", every="200ms").group_by("k").agg(i="count(*)", x="sum(x)", b="bool_or(b)")
        .map(k="k", i="i", x="x", b="b")
    ),
    "rows": lambda app, s, a: (
        s.window("300ms").group_by("b").agg(k="last(k)", i="max(i % 100)", x="sum(x) + first(x)")
        .map(k="k", i="i", x="x", b="b")
    ),
}  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(
    data=st.data(),
    steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.booleans()), min_size=2, max_size=6),
    history=worlds.histories(LAST),
)
def test_any_query_cut_anywhere_equals_its_flattened_self(
    data: st.DataObject, steps: list[tuple[str, bool]], history: Buckets
) -> None:
    app = App("test", bucket="100ms")
    a, b = app.source("a", schema=COLUMNS), app.source("b", schema=COLUMNS)
    stream = app.union(b, a)
    for number, (step, cut) in enumerate(steps):
        stream = STEPS[step](app, stream, a)
        stream = stream.node(f"n{number}") if cut else stream
    app.query("q", stream)
    spec = app.describe()
    with compiled(spec) as (kernels, flat):
        streams = lived(spec, kernels, history, data)
        expected = stepped(flat, worlds.ordered(flat, history), [])
    assert rows_of(streams["q"]) == rows_of(expected)
    assert rejects_of(*streams.values()) == rejects_of(expected)


def test_the_codec_of_a_stream_is_that_of_the_node_that_writes_it(
    chain: tuple[AppSpec, dict[str, DuckKernel], DuckKernel],
) -> None:
    spec, kernels, flat = chain
    for kernel in kernels.values():
        for name in set(kernel.spec.inputs) & set(spec.nodes):
            assert kernel.stream_codec(name).schema_id == kernels[name].schema_id
            assert kernel.stream_codec(name).schema == kernels[name].output_schema
    assert kernels["q"].output_schema == flat.output_schema
    assert len({kernel.fingerprint for kernel in kernels.values()}) == len(kernels)


def test_a_codec_of_what_a_node_does_not_read_is_refused(
    chain: tuple[AppSpec, dict[str, DuckKernel], DuckKernel],
) -> None:
    spec, kernels, _ = chain
    first = next(iter(spec.nodes))
    with pytest.raises(QueryError, match=f"node '{first}' does not read 'q'; it reads "):
        kernels[first].stream_codec("q")
    with pytest.raises(QueryError, match=rf"node '{first}' does not read '{first}'; it reads "):
        kernels[first].source_codec(first)


def test_errors_name_the_node_they_are_in() -> None:
    app = App("a")
    s = app.source("s", schema={"x": "int"})
    app.query("q", s.map(y="x + 1").node("n").filter("x > 1"))
    with pytest.raises(QueryError, match="unknown column 'x' in filter of query 'q'; columns: y, stime"):
        compile_query(app.describe(), "q")
    app = App("a")
    s = app.source("s", schema={"x": "int"})
    app.query("q", s.filter("x > now()").node("n").filter("x > 1"))
    for name in ("n", "q"):
        with pytest.raises(QueryError, match="filter of node 'n'"):
            compile_query(app.describe(), name)


def test_a_fragment_is_as_general_as_its_most_general_operator() -> None:
    app = App("a")
    s, t = (app.source(n, schema={"x": "int"}) for n in ("s", "t"))
    cleaned = app.union(s, t).filter("x > 0").map(x="x + 1").node("cleaned")
    app.query("q", cleaned.window("1s").agg(n="count(*)").filter("n > 1"))
    app.query("p", s)
    spec = app.describe()
    found = {}
    for name in spec.all_nodes:
        kernel = compile_query(spec, name)
        found[name] = kernel.operator_class
        kernel.close()
    assert found == {
        "cleaned": OperatorClass.REPEATABLE, "q": OperatorClass.CONVERGENT, "p": OperatorClass.REPEATABLE,
    }  # fmt: skip
    assert str(found["q"]) == "convergent-capable"
