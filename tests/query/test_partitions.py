"""Which nodes may be partitioned, what is said where one may not, and what runs in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from borealis_py import App, QueryError
from borealis_py.query import AppSpec, Stream
from borealis_py.query.names import base_name, part_index, part_name
from borealis_py.query.partitions import flattened, physical
from borealis_py.query.plan import MergeOp, PartOp, SourceOp, UnionOp
from borealis_py.query.spec import Partitioning

FLIGHTS = {"carrier": "string", "origin": "string", "delay": "double"}


def flights() -> tuple[App, Stream, Stream]:
    app = App("a")
    return app, app.source("ewr", schema=FLIGHTS), app.source("jfk", schema=FLIGHTS)


def sums(stream: Stream, *keys: str) -> Stream:
    return stream.window("1s").group_by(*keys).agg(n="count(*)")


Build = Callable[[App, Stream, Stream], Any]

REFUSED: dict[str, tuple[Build, str]] = {
    "a number alone": (lambda app, s, t: s.node("n", partitions=2), "node 'n': partitions and by go together"),
    "a key alone": (lambda app, s, t: s.node("n", by="carrier"), "partitions and by go together"),
    "none": (lambda app, s, t: s.node("n", partitions=0, by="carrier"), "partitions=0; choose 1 to 64"),
    "fewer than none": (lambda app, s, t: s.node("n", partitions=-2, by="carrier"), "partitions=-2; choose 1 to 64"),
    "half a one": (lambda app, s, t: s.node("n", partitions=1.5, by="carrier"), r"partitions=1\.5; choose 1 to 64"),
    "of a query, none": (
        lambda app, s, t: app.query("q", s, partitions=0, by="carrier"), "query 'q': partitions=0; choose 1 to 64"
    ),
    "no column": (lambda app, s, t: s.node("n", partitions=2, by=""), "unknown column '' in by of node 'n'"),
    "an absent column of a query": (
        lambda app, s, t: app.query("q", s, partitions=2, by="flight"), "unknown column 'flight' in by of query 'q'"
    ),
    "one absent of two": (
        lambda app, s, t: s.node("n", partitions=2, by=("carrier", "flight")),
        "unknown column 'flight' in by of node 'n'",
    ),
    "too many": (lambda app, s, t: s.node("n", partitions=65, by="carrier"), "partitions=65; choose 1 to 64"),
    "no number": (lambda app, s, t: s.node("n", partitions=True, by="carrier"), "partitions=True; choose 1 to 64"),
    "no name": (lambda app, s, t: s.node("n", partitions=2, by=()), r"by=\(\); give the name of a column"),
    "no text": (lambda app, s, t: s.node("n", partitions=2, by=3), "by=3; give the name of a column"),
    "stime": (lambda app, s, t: s.node("n", partitions=2, by="stime"), "would spread every key over all partitions"),
    "unknown": (lambda app, s, t: s.node("n", partitions=2, by="carier"), "'carier' in by of node 'n'; did you mean"),
    "twice": (lambda app, s, t: s.node("n", partitions=2, by=("carrier", "Carrier")), "names a column twice"),
    "a query": (
        lambda app, s, t: app.query("q", sums(s, "origin"), partitions=2, by="carrier"),
        "unknown column 'carrier' in by of query 'q'",
    ),
    "a window without the key": (
        lambda app, s, t: sums(sums(s, "carrier", "origin").map(carrier="carrier", origin="origin"), "origin")
        .map(carrier="origin").node("n", partitions=2, by="carrier"),
        r"a window of it groups \(origin\)",
    ),
    "a window over all rows": (
        lambda app, s, t: app.union(s.window("1s").agg(carrier="max(carrier)").map(carrier="carrier"),
                                    t.map(carrier="carrier")).node("n", partitions=2, by="carrier"),
        "a window of it groups all rows together",
    ),
    "a window by another key": (
        lambda app, s, t: sums(s, "origin").map(carrier="origin").map(carrier="carrier")
        .node("n", partitions=2, by="carrier"),
        r"a window of it groups \(origin\): the rows of a group would be in several partitions",
    ),
    "a map of the key": (
        lambda app, s, t: s.map(carrier="upper(carrier)").node("n", partitions=2, by="carrier"),
        r"a map of it drops or changes that column: keep it with map\(carrier='carrier', ...\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_partitioned_is_refused_by_name(why: str) -> None:
    build, message = REFUSED[why]
    with pytest.raises(QueryError, match=message):
        build(*flights())


def test_an_input_without_the_key_is_refused() -> None:
    app = App("a")
    s = app.source("s", schema={"x": "int"}).map(k="x")
    with pytest.raises(QueryError, match=r"'s', which it reads, has no such column \(x\): cut with .node\(\) after"):
        s.node("n", partitions=2, by="k")
    s.node("mapped").node("n", partitions=2, by="k")


def chain(n: int) -> AppSpec:
    app, s, t = flights()
    clean = app.union(s, t).filter("delay > 0").node("clean", partitions=n, by="CARRIER")
    app.query("q", sums(clean, "carrier"), partitions=2, by="carrier")
    app.query("whole", clean)
    return app.describe()


def test_a_partitioned_app_runs_as_a_node_for_each_partition() -> None:
    spec = physical(chain(3))
    assert list(spec.nodes) == ["clean.0", "clean.1", "clean.2"]
    assert list(spec.queries) == ["q.0", "q.1", "whole"]
    part = spec.nodes["clean.1"].plan
    assert part[:2] == (SourceOp(name="ewr"), PartOp(input=0, by=("carrier",), count=3, index=1))
    assert spec.inputs_of("q.1")[0].sources == ("ewr", "jfk")
    assert [i.name for i in spec.inputs_of("q.1")] == ["clean.0", "clean.1", "clean.2"]
    assert spec.queries["whole"].plan[-1] == MergeOp(inputs=(0, 1, 2), by=("carrier",))
    assert spec.position("whole") == 2


def test_the_dead_letters_of_what_all_partitions_read_are_told_by_the_first() -> None:
    spec = physical(chain(3))
    found = [[i.dead_letters for i in spec.inputs_of(f"clean.{p}")] for p in range(3)]
    assert found == [[True, True], [False, False], [False, False]]
    assert all(i.dead_letters for i in chain(1).inputs_of("clean"))


def test_a_node_writes_apart_what_each_partition_of_its_readers_gets_if_they_are_alike() -> None:
    app, s, t = flights()
    clean = app.union(s, t).filter("delay > 0").node("clean")
    by_carrier = sums(clean, "carrier").node("sums", partitions=2, by="carrier")
    app.query("q", by_carrier, partitions=2, by="carrier")
    spec = physical(app.describe())
    assert [spec.node(n).exchange for n in ("clean", "sums.0", "q.1")] == [
        Partitioning(by=("carrier",), count=2)
    ] * 2 + [None]
    assert [[(i.name, i.partition) for i in spec.inputs_of(n)] for n in ("sums.1", "q.0")] == [
        [("clean", 1)],
        [("sums.0", 0), ("sums.1", 0)],
    ]
    assert not [op for node in (*spec.nodes.values(), *spec.queries.values()) for op in node.plan if op.op == "part"]


def test_readers_that_differ_pick_their_part_out_of_the_whole() -> None:
    app, s, _ = flights()
    clean = s.filter("delay > 0").node("clean")
    app.query("q", sums(clean, "carrier"), partitions=2, by="carrier")
    app.query("p", sums(clean, "carrier", "origin"), partitions=2, by="origin")
    spec = physical(app.describe())
    assert spec.nodes["clean"].exchange is None
    assert [(i.name, i.partition) for i in spec.inputs_of("p.1")] == [("clean", 0)]
    assert spec.queries["p.1"].plan[1] == PartOp(input=0, by=("origin",), count=2, index=1)


def test_an_app_without_partitions_runs_as_it_is() -> None:
    app, s, _ = flights()
    app.query("q", s.node("n"))
    spec = app.describe()
    assert physical(spec) is spec


def test_a_description_survives_its_way_through_the_log() -> None:
    for spec in (chain(2), physical(chain(2))):
        assert AppSpec.from_json(spec.to_json()) == spec


def test_the_number_of_partitions_is_part_of_what_a_node_is() -> None:
    two, three = physical(chain(2)), physical(chain(3))
    assert two.query_hash("clean.0") != three.query_hash("clean.0")
    assert two.query_hash("clean.0") != two.query_hash("clean.1")


def test_names_of_partitions() -> None:
    assert part_name("clean", 3) == "clean.3"
    assert [(base_name(n), part_index(n)) for n in ("clean.3", "clean")] == [("clean", 3), ("clean", 0)]


def test_a_source_with_partitions_is_read_as_one_from_all_of_them() -> None:
    app = App("a")
    s = app.source("s", schema=FLIGHTS, partitions=2)
    t = app.source("t", schema=FLIGHTS)
    app.query("q", sums(app.union(s, t), "carrier"), partitions=2, by="carrier")
    spec = physical(app.describe())
    assert list(spec.sources) == ["s.0", "s.1", "t"]
    plan = spec.queries["q.1"].plan
    assert plan[:4] == (
        SourceOp(name="s.0"), SourceOp(name="s.1"), UnionOp(inputs=(0, 1)),
        PartOp(input=2, by=("carrier",), count=2, index=1),
    )  # fmt: skip
    assert spec.sources_of("q.0") == ("s.0", "s.1", "t")
    (flat, _) = flattened(app.describe(), "q")
    assert list(flat.sources) == ["s.0", "s.1", "t"]
    assert flat.queries["q.0"].inputs == ("s.0", "s.1", "t")


def test_a_sources_number_of_partitions_is_checked_and_determines_the_results() -> None:
    for wrong in (0, -1, 65, True, "2"):
        with pytest.raises(QueryError, match=f"source 's': partitions={wrong!r}; choose 1 to 64"):
            App("a").source("s", schema=FLIGHTS, partitions=wrong)  # type: ignore[arg-type]
    hashes = set()
    for count in (None, 1, 2):
        app = App("a")
        app.query("q", app.source("s", schema=FLIGHTS, partitions=count))
        hashes.add(app.describe().query_hash("q"))
    assert len(hashes) == 3


@pytest.mark.parametrize("name", ["true", "FALSE", "null"])
def test_a_column_named_like_a_value_is_kept_by_its_quoted_name_alone(name: str) -> None:
    def build(expression: str) -> None:
        app = App("a")
        source = app.source("s", schema={name: "bool", "k": "string"})
        app.query("q", sums(source.map(**{name: expression}, k="k"), name), partitions=2, by=name)

    with pytest.raises(QueryError, match=f"{name}='\"{name}\"'"):
        build(name)
    build(f'"{name}"')
