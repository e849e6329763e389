"""A query that is cut into nodes: what the description says about each of them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from borealis_py import App, QueryError
from borealis_py.query import AppSpec, Stream
from borealis_py.query.spec import Serves
from sunion.model import Input


def diamond() -> App:
    """Sources a, b, c. cleaned(a, b); slow(cleaned); q(cleaned, slow, c); p(slow); alone(c)."""
    app = App("d", bucket="100ms")
    a, b, c = (app.source(s, schema={"k": "string", "x": "int"}) for s in "abc")
    cleaned = app.union(a, b).filter("x > 0").node("cleaned")
    slow = cleaned.window("1s").group_by("k").agg(x="sum(x)").map(k="k", x="x").node("slow", replicas=3)
    app.query("q", app.union(slow, cleaned, c), delay_threshold="3s", replicas=2)
    app.query("p", slow.filter("x > 10"), delay_threshold="5s", on_failure="delay", replicas=1)
    app.query("alone", c, replicas=1)
    return app


def test_every_cut_is_a_node_and_the_rest_is_the_querys() -> None:
    spec = diamond().describe()
    assert list(spec.nodes) == ["cleaned", "slow"]
    assert list(spec.all_nodes) == ["cleaned", "slow", "q", "p", "alone"]
    assert [op.op for op in spec.node("cleaned").plan] == ["source", "source", "union", "filter"]
    assert [op.op for op in spec.node("slow").plan] == ["source", "window", "map"]
    assert [op.op for op in spec.node("q").plan] == ["source", "source", "source", "union"]
    assert [spec.node(n).inputs for n in spec.all_nodes] == [
        ("a", "b"), ("cleaned",), ("slow", "cleaned", "c"), ("slow",), ("c",),
    ]  # fmt: skip
    assert spec.query("q") is spec.node("q")


def test_a_node_has_as_many_replicas_as_its_largest_query_unless_it_says_how_many() -> None:
    assert {n: node.replicas for n, node in diamond().describe().nodes.items()} == {"cleaned": 2, "slow": 3}
    app = App("a")
    s = app.source("s", schema={"x": "int"})
    first = s.filter("x > 0").node("first")
    app.query("q", first.filter("x > 1").node("second", replicas=1), replicas=4)
    app.query("p", first, replicas=2)
    assert {n: node.replicas for n, node in app.describe().nodes.items()} == {"first": 4, "second": 1}


def test_inputs_sources_positions_and_what_a_node_serves() -> None:
    spec = diamond().describe()
    assert spec.inputs_of("cleaned") == (Input.source("a"), Input.source("b"))
    assert spec.inputs_of("q") == (Input("slow", 3, ("a", "b")), Input("cleaned", 2, ("a", "b")), Input.source("c"))
    assert [spec.sources_of(n) for n in spec.all_nodes] == [
        ("a", "b"), ("a", "b"), ("a", "b", "c"), ("a", "b"), ("c",),
    ]  # fmt: skip
    assert [spec.position(n) for n in spec.all_nodes] == [1, 2, 3, 3, 1]
    assert spec.serves("cleaned") == (Serves(query="q", hops=2, depth=3), Serves(query="p", hops=2, depth=3))
    assert spec.serves("slow") == (Serves(query="q", hops=1, depth=3), Serves(query="p", hops=1, depth=3))
    assert spec.serves("q") == (Serves(query="q", hops=0, depth=3),)
    assert spec.serves("alone") == (Serves(query="alone"),)
    assert spec.upstream_of("p") == ("cleaned", "slow", "p")


def test_the_description_reads_back() -> None:
    spec = diamond().describe()
    again = AppSpec.from_json(spec.to_json())
    assert again == spec
    assert list(again.all_nodes) == list(spec.all_nodes)
    assert (again.hash, again.query_hash("slow")) == (spec.hash, spec.query_hash("slow"))


def test_a_hash_covers_what_lies_upstream_and_no_more() -> None:
    def spec(predicate: str = "x > 0", other: str = "y > 0", cut: bool = True, name: str = "n") -> AppSpec:
        app = App("a")
        s, t = app.source("s", schema={"x": "int"}), app.source("t", schema={"y": "int"})
        stream = s.filter(predicate)
        app.query("q", (stream.node(name) if cut else stream).window("1s").agg(m="max(x)"))
        app.query("p", t.filter(other).node("m"))
        return app.describe()

    base = spec()
    for changed in (spec(predicate="x > 1"), spec(cut=False), spec(name="n2")):
        assert changed.query_hash("q") != base.query_hash("q")
        assert changed.query_hash("p") == base.query_hash("p")
        assert changed.hash != base.hash
    assert spec(other="y > 1").query_hash("n") == base.query_hash("n")
    assert len({base.query_hash(n) for n in base.all_nodes}) == 4


def test_flattened_is_one_node_that_reads_sources() -> None:
    spec = diamond().describe()
    flat = spec.flattened("q")
    assert (list(flat.all_nodes), flat.query("q").inputs, list(flat.sources)) == (["q"], ("a", "b", "c"), list("abc"))
    assert [op.op for op in flat.query("q").plan] == [
        "source", "source", "union", "filter", "cut", "window", "map", "cut", "source", "union",
    ]  # fmt: skip
    assert flat.query("q").plan[-1].inputs == (7, 4, 8)  # type: ignore[union-attr]
    assert spec.flattened("alone").query("alone") == spec.query("alone")
    assert AppSpec.from_json(flat.to_json()) == flat


def test_a_source_may_be_cut_and_a_stream_twice() -> None:
    app = App("a")
    s = app.source("s", schema={"x": "int"})
    relayed = s.node("relay").node("again")
    app.query("q", app.union(relayed, s, s.filter("x > 0").node("one"), s.filter("x > 0").node("two")))
    spec = app.describe()
    assert [spec.node(n).inputs for n in spec.nodes] == [("s",), ("relay",), ("s",), ("s",)]
    assert [op.op for op in spec.node("again").plan] == ["source"]
    assert spec.flattened("q").query("q").plan[-1].inputs == (2, 0, 4, 6)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda a, s: s.node("s"), "node 's': app 'a' already has a source of this name"),
        (lambda a, s: (s.node("n"), s.node("n")), "node 'n': app 'a' already has a node of this name"),
        (lambda a, s: (a.query("q", s), s.node("q")), "node 'q': app 'a' already has a query of this name"),
        (lambda a, s: a.query("n", s.node("n")), "query 'n': app 'a' already has a node of this name"),
        (lambda a, s: (s.node("n"), a.source("n", schema={"x": "int"})), "'n'.*already has a node of this name"),
        (lambda a, s: s.node("a.b"), "node name 'a.b'"),
        (lambda a, s: s.node("control"), "taken by the app's own topics"),
        (lambda a, s: s.node("n", replicas=0), "node 'n': replicas=0; choose 1 to 9"),
        (lambda a, s: (s.node("n"), a.query("q", s), a.describe()), "node 'n' is read by no query"),
        (lambda a, s: (s.node("n").node("m"), a.query("q", s), a.describe()), "node 'm' is read by no query"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(write: Callable[[App, Stream], object], message: str) -> None:
    app = App("a")
    source = app.source("s", schema={"x": "int"})
    with pytest.raises(QueryError, match=message):
        write(app, source)


def test_an_unknown_node_is_named_with_candidates() -> None:
    with pytest.raises(QueryError, match=r"no node or query 'clean'; did you mean 'cleaned'.*: cleaned, slow, q"):
        diamond().describe().node("clean")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["queries"]["q"].update(sources=d["queries"]["q"].pop("inputs")), "inputs"),  # as once written
        (lambda d: d["nodes"]["cleaned"].update(inputs=["q"]), "'cleaned' does not read its inputs q"),
        (lambda d: d["nodes"]["slow"].update(d["nodes"]["cleaned"], plan=[]), "'slow' does not read its inputs"),
        (lambda d: d["nodes"]["slow"]["plan"][1].update(input=1), "the plan of 'slow' is not in order"),
        (lambda d: d["nodes"].update(q=d["queries"]["q"]), ""),
        (lambda d: d["nodes"].update(a=d["nodes"]["cleaned"]), "^not an app's description: two streams have one name"),
    ],
)
def test_a_description_that_does_not_hold_together_is_refused(
    change: Callable[[dict[str, dict[str, dict[str, object]]]], object], message: str
) -> None:
    description = json.loads(diamond().describe().to_json())
    change(description)
    with pytest.raises(
        QueryError, match=message if message.startswith("^") else f"not an app's description.*{message}"
    ):
        AppSpec.from_json(json.dumps(description))
