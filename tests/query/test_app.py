"""What a user writes becomes a value, or an error that says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from borealis_py import App, QueryError
from borealis_py.query import AppSpec, Stream


def flights() -> App:
    app = App("flights", bucket="100ms")
    ewr, jfk, lga = (app.source(a, schema={"carrier": "string", "dep_delay": "double"}) for a in ("ewr", "jfk", "lga"))
    delays = (
        app.union(ewr, jfk, lga)
        .filter("dep_delay IS NOT NULL")
        .window("1s")
        .group_by("carrier")
        .agg(flights="count(*)", mean_delay_hours="avg(dep_delay / 60.0)")
    )
    late = app.union(ewr, jfk, lga).filter("dep_delay > 120")
    app.query(
        "carrier_delays", delays, delay_threshold="3s", on_failure="process", on_stabilization="process", replicas=2
    )
    app.query("very_late", late, delay_threshold="3s", replicas=2)
    return app


def small() -> tuple[App, Stream]:
    app = App("a")
    return app, app.source("s", schema={"k": "string", "x": "int"})


def test_the_example_becomes_a_value_and_reads_back() -> None:
    spec = flights().describe()
    query = spec.query("carrier_delays")
    assert (spec.bucket_us, query.threshold_us, query.replicas) == (100_000, 3_000_000, 2)
    assert query.inputs == ("ewr", "jfk", "lga")
    assert [op.op for op in query.plan] == ["source", "source", "source", "union", "filter", "window"]
    again = AppSpec.from_json(spec.to_json())
    assert again == spec
    assert again.hash == spec.hash


def test_sources_are_in_order_of_first_use_and_shared_streams_are_there_once() -> None:
    app = App("a")
    b, a = app.source("b", schema={"x": "int"}), app.source("a", schema={"x": "int"})
    both = app.union(a, b)
    app.query("q", app.union(both.filter("x > 1"), both.filter("x < 0"), b))
    query = app.describe().query("q")
    assert query.inputs == ("a", "b")
    assert [op.op for op in query.plan] == ["source", "source", "union", "filter", "filter", "union"]


def test_a_chain_of_any_length_is_described() -> None:
    app, stream = small()
    for _ in range(3000):
        stream = stream.filter("x > 0")
    app.query("q", stream)
    assert len(app.describe().query("q").plan) == 3001


def test_hashes_cover_what_determines_results_and_nothing_else() -> None:
    def spec(threshold: str = "3s", policy: str = "process", predicate: str = "x > 1", kind: str = "int") -> AppSpec:
        app = App("a")
        source = app.source("s", schema={"x": kind})
        app.source("unused", schema={"y": "int"})
        app.query("q", source.filter(predicate), delay_threshold=threshold, on_failure=policy)
        return app.describe()

    base = spec()
    assert spec(threshold="9s", policy="suspend").hash == base.hash
    assert spec(kind="bigint").hash == base.hash
    for other in (spec(predicate="x > 2"), spec(kind="double")):
        assert other.hash != base.hash
        assert other.query_hash("q") != base.query_hash("q")


def test_types_have_several_spellings_and_one_name() -> None:
    app = App("a")
    spelled = {"a": "text", "b": "BIGINT", "c": "float", "d": "boolean", "e": "Timestamp", "f": "numeric( 12 ,2)",
               "g": "decimal(5)", "h": "date", "i": "bytes", "j": "JSON"}  # fmt: skip
    app.source("s", schema=spelled)
    assert list(app.describe().sources["s"].values()) == [
        "string", "int64", "double", "bool", "timestamp", "decimal(12,2)", "decimal(5,0)", "date", "binary", "json"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("decimal", "column 'x' of source 's' has type 'decimal': say how many digits, and how many of them after"),
        ("decimal(39,2)", "a decimal has 1 to 38 digits"),
        ("decimal(2,3)", "a decimal has 1 to 38 digits, and at most as many of them after the point"),
        ("decimal(0)", "a decimal has 1 to 38 digits"),
        ("int(4)", "int64 takes no size"),
        ("timestmp", "unknown type 'timestmp'; did you mean 'timestamp'"),
        ("", "has unknown type ''"),
    ],
)
def test_a_type_that_is_none_is_refused_with_what_to_write(kind: str, message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(message)):
        App("a").source("s", schema={"x": kind})


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda a, s: a.source("s", schema={"x": "int"}), "source 's': app 'a' already has a source of this name"),
        (lambda a, s: a.source("a/b", schema={"x": "int"}), "source name 'a/b'.*Kafka"),
        (lambda a, s: a.source("control", schema={"x": "int"}), "taken by the app's own topics"),
        (lambda a, s: a.source("t", schema={}), "source 't' has no columns"),
        (lambda a, s: a.source("t", schema={"x": "flaot"}), "unknown type 'flaot'; did you mean 'float'"),
        (lambda a, s: a.source("t", schema={"stime": "int"}), "'stime' in source 't' is reserved"),
        (lambda a, s: a.source("t", schema={"window_end": "int"}), "'window_end' in source 't' is reserved"),
        (lambda a, s: a.source("t", schema={"x": "int", "X": "int"}), "there twice"),
        (lambda a, s: a.source("t", schema={"__x": "int"}), "used internally"),
        (lambda a, s: a.source("t", schema={"x y": "int"}), "use letters, digits and '_'"),
        (lambda a, s: s.map(), "map\\(\\) needs columns"),
        (lambda a, s: s.map(stime="x"), "'stime' in map\\(\\) is reserved"),
        (lambda a, s: s.filter(""), "filter\\(\\) needs an SQL expression"),
        (lambda a, s: s.window("1s").group_by("kk"), "column 'kk' in group_by\\(\\); did you mean 'k'\\?.* k, x"),
        (lambda a, s: s.window("1s").group_by("k").agg(k="count(*)"), "'k' in agg\\(\\) is reserved: it is a key"),
        (lambda a, s: s.window("1s").agg(window_start="count(*)"), "window_start.*reserved"),
        (lambda a, s: s.group_by("k"), r'group_by\(\) needs a window: stream.window\("1s"\).group_by'),
        (lambda a, s: s.agg(n="count(*)"), r'agg\(\) needs a window'),
        (lambda a, s: a.source("t", schema={"x": "flot"}), r"'float' or 'float64'.*double \(float, float64\), bool"),
        (lambda a, s: s.window("1s").agg(), "agg\\(\\) needs aggregates"),
        (lambda a, s: s.window("150ms"), "size 150ms is not a multiple of the app's bucket, 100ms"),
        (lambda a, s: s.window("1s", every="30ms"), "every 30ms is not a multiple"),
        (lambda a, s: s.window("1s", every="2s"), "every 2s is longer than its size 1s"),
        (lambda a, s: a.union(), "union\\(\\) needs streams"),
        (lambda a, s: a.union(s, s.map(x="x")), "different columns: \\(k, x\\) and \\(x\\)"),
        (lambda a, s: a.union(s, small()[1]), "a stream of app 'a'; an app uses its own"),
        (lambda a, s: a.query("q", s.window("1s")), "query 'q' was given a window without aggregates"),
        (lambda a, s: a.query("q", "s"), "query 'q' was given str, not a stream"),
        (lambda a, s: a.query("s", s), "already has a source of this name"),
        (lambda a, s: a.query("q", s, delay_threshold="0s"), "delay_threshold of query 'q'.*more than zero"),
        (lambda a, s: a.query("q", s, delay_threshold="-1s"), "more than zero"),
        (lambda a, s: a.query("q", s, on_failure="ignore"), "on_failure='ignore'; choose process, delay or suspend"),
        (lambda a, s: a.query("q", s, replicas=0), "replicas=0; choose 1 to 9"),
        (lambda a, s: App("a", bucket="1500us"), "must be whole milliseconds"),
        (lambda a, s: App("1a"), "app name '1a'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_reason(write: Callable[[App, Stream], object], message: str) -> None:
    app, source = small()
    with pytest.raises(QueryError, match=message):
        write(app, source)


def test_an_unknown_query_is_named_with_candidates() -> None:
    with pytest.raises(QueryError, match=r"no query 'very_lat'; did you mean 'very_late'.*queries: carrier_delays"):
        flights().describe().query("very_lat")


@pytest.mark.parametrize("text", ["{", "{}", '{"name":"a","bucket_us":1,"sources":{},"queries":{},"more":1}'])
def test_a_broken_description_is_a_query_error(text: str) -> None:
    with pytest.raises(QueryError, match="not an app's description"):
        AppSpec.from_json(text)


@pytest.mark.parametrize("end", ["_r0", "_r12", "_progress", "_0", "_3_r1", "_3_progress", "_r0_redo"])
@pytest.mark.parametrize("what", ["a source before it", "a source after it", "a query beside it"])
def test_names_whose_topics_kafka_cannot_tell_apart_are_refused(end: str, what: str) -> None:
    """`app.q.r0` and `app.q_r0` have one name in Kafka's metrics, and Kafka creates only the first."""
    app = App("app")
    s = app.source("s", schema={"x": "int"})
    if what == "a source before it":
        app.source(f"q{end}", schema={"x": "int"})
    else:
        app.query("q", s)
    with pytest.raises(
        QueryError, match=f"'q'.*differ in '.' and '_' alone.*choose a name that does not end in '{end}'"
    ):
        {
            "a source before it": lambda: app.query("q", s),
            "a source after it": lambda: app.source(f"q{end}", schema={"x": "int"}),
            "a query beside it": lambda: app.query(f"q{end}", s),
        }[what]()


def test_names_that_only_look_alike_are_no_trouble() -> None:
    """A source has one topic, whatever its partitions: nothing is named after it."""
    app = App("app")
    s, other = app.source("q", schema={"x": "int"}), app.source("q_r0", schema={"x": "int"})
    for name in ("q_0", "sales", "sales_progressive", "sales_r", "sales_0x", "sales_per_r0"):
        app.query(name, app.union(s, other))
