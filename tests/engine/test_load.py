"""What is wrong with a query is said when it is loaded: where, what, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from borealis_py import App, QueryError
from borealis_py.engine import compile_query
from borealis_py.query import AppSpec, Stream
from tests.engine import worlds


def refused(build: Callable[[Stream], Stream]) -> str:
    with pytest.raises(QueryError) as caught:
        worlds.make(lambda app, a, b: build(a))
    return str(caught.value)


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        ("x >", "filter of query 'q' does not parse: syntax error at end of input"),
        ("x > 1; DROP TABLE t", "filter of query 'q'"),
        ("x > 1, i", "write one SQL expression"),
        ("x > 1 AS y", "write one SQL expression"),
        ("x FROM feed0", "write one SQL expression"),
        ("b ORDER BY x", "write one SQL expression"),
        ("true) OR (true", "does not parse"),
        ("xx > 1", "unknown column 'xx' in filter of query 'q'; did you mean 'x'? columns: k, i, x, b, stime"),
        ("r.x > 1", "unknown column 'r.x'"),
        ("x", "a filter must be true or false, this is DOUBLE"),
        ("k + 1 > b", "No function matches the given name and argument types '+(VARCHAR, INTEGER_LITERAL)'"),
        ("abs(k) > 1", "abs"),
        ("i > 'abc'", "fails for every row: Conversion Error: Could not convert string 'abc' to INT64"),
        ("x > random()", "function random() is not allowed: its result varies between calls"),
        ("now() IS NULL", "function now() is not allowed"),
        ("today() IS NULL", "function today() is not allowed"),
        ("current_date IS NULL", "current_date is not allowed"),
        ("CURRENT_TIMESTAMP IS NULL", "current_timestamp is not allowed"),
        ("uuid() = k", "function uuid() is not allowed"),
        ("nextval('s') > 1", "function nextval() is not allowed"),
        ("current_setting('threads') = 1", "function current_setting() is not allowed: it reads a setting"),
        ("getvariable('v') = 1", "it reads a variable"),
        ("age(make_timestamp(stime)) IS NULL", "it reads the clock"),
        ("pg_sleep(1) IS NULL", "function pg_sleep() is not allowed"),
        ("read_csv('/etc/passwd') IS NULL", "function read_csv() is not allowed"),
        ("read_text('/etc/passwd') IS NULL", "function read_text() is not allowed"),
        ("unnest([b])", "function unnest() is not allowed: it turns one row into several"),
        ("current_localtimestamp() IS NULL", "function current_localtimestamp() is not allowed: its result varies"),
        ("current_localtime() IS NULL", "function current_localtime() is not allowed: its result varies between calls"),
        ("json_serialize_plan('SELECT now()') IS NULL", "it exposes the engine's internal state"),
        ("vector_type(i) = 'FLAT'", "function vector_type() is not allowed: it depends on the engine's internal types"),
        ("parse_path(k) = []", "it is not on the list of functions known to give the same result everywhere"),
        ("parse_path(k) = []", "allowed are parse_dirpath, "),
        (
            "list_aggregate([x], 'reservoir_quantile', 0.5) > 1",
            "aggregate reservoir_quantile() is not allowed: it draws",
        ),
        ("list_aggr([x], 'maxx') > 1", "unknown aggregate 'maxx'; did you mean 'max'"),
        ("array_aggregate([x], k) > 1", "array_aggregate() takes the name of an aggregate as text"),
        ("aggregate([x], 'row_number') > 1", "it depends on the order of rows"),
        ("list_transform([x], 'abs') = []", "it takes a lambda function"),
        ("system.main.random() > 0.5", "write random() without a schema"),
        ("pg_catalog.lower(k) = k", "write lower() without a schema"),
        ("k::VARIANT IS NULL", "CAST to VARIANT is not allowed"),
        ("k::STRUCT(a GEOMETRY) IS NULL", "CAST to GEOMETRY is not allowed"),
        ("k::regclass IS NULL", "CAST to regclass is not allowed"),
        ("uper(k) = 'A'", "unknown function uper(); did you mean 'upper'"),
        ("EXISTS (SELECT 1)", "subqueries are not allowed"),
        ("x > (SELECT 1)", "subqueries are not allowed"),
        ("x IN (SELECT 1)", "subqueries are not allowed"),
        ("row_number() OVER () = 1", "OVER (...) is not allowed"),
        ("sum(x) > 1", "aggregate sum() outside of agg()"),
        ("x > ?", "parameters"),
        ("x > $1", "parameters"),
        ("COLUMNS(*) > 1", "name the columns"),
        ("list_filter([1], lambda z: z > 1) = []", "lambda"),
        ("#1 > 1", "positions (#1) are not allowed"),
        ("x > 1e400", "cannot be used"),
    ],
)
def test_filters(predicate: str, message: str) -> None:
    assert message in refused(lambda s: s.filter(predicate))


def test_no_function_spelled_alike_is_named_where_it_is_said_what_to_use() -> None:
    assert refused(lambda s: s.filter("now() IS NULL")).split("\n")[0].endswith("; for the time use stime")


def test_the_place_of_a_syntax_error_is_pointed_at() -> None:
    lines = refused(lambda s: s.filter("x > 1 AND AND b")).split("\n")
    assert lines[1:] == ["    x > 1 AND AND b", "              ^"]
    lines = refused(lambda s: s.filter("k = 'ü'\nAND AND b")).split("\n")
    assert lines[1:] == ["    k = 'ü'", "    AND AND b", "        ^"]
    lines = refused(lambda s: s.filter("x >")).split("\n")
    assert lines[1:] == ["    x >", "       ^"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("x + 1", "no aggregate in it"),
        ("sum(x) + i", "column 'i' is outside of an aggregate and is not a key"),
        ("sum(max(x))", "aggregate max() inside sum()"),
        ("sum(k)", "sum(VARCHAR)"),
        ("sum(xx)", "unknown column 'xx' in agg(s) of query 'q'"),
        ("sum(x) OVER ()", "OVER (...) is not allowed"),
        (
            "max(CAST(make_timestamp(stime) AS TIME))",
            "its type is TIME, which no column has: columns are string, int64",
        ),
        ("histogram(i)", "its type is MAP"),
        ("reservoir_quantile(x, 0.5)", "it draws a random sample"),
        ("sum(random())", "function random() is not allowed"),
        ("count(*) FILTER (WHERE random() > 0.5)", "function random() is not allowed"),
        ("list(x ORDER BY random())", "function random() is not allowed"),
        ("sum(*)", "sum"),
        ("grouping(k)", "GROUPING"),
    ],
)
def test_aggregates(expression: str, message: str) -> None:
    assert message in refused(lambda s: s.window("1s").group_by("k").agg(s=expression))


def test_maps_name_the_column() -> None:
    message = refused(lambda s: s.map(good="x", y="dep + 1"))
    assert message.startswith("unknown column 'dep' in map(y) of query 'q'")


def test_a_constant_that_cannot_be_computed_is_found_when_loading() -> None:
    assert "Could not convert string 'abc'" in refused(lambda s: s.map(y="CAST('abc' AS INT)"))
    assert "Could not convert string 'abc'" in refused(lambda s: s.window("1s").agg(y="sum(CAST('abc' AS INT))"))


def test_what_fails_for_some_rows_only_is_loaded() -> None:
    for text in ("CAST(k AS INT) > 0", "CAST(coalesce(k, 'none') AS INT) > 0", "CAST(k AS DATE) > DATE '2013-01-01'"):
        worlds.make(lambda app, a, b, text=text: a.filter(text)).close()


def test_unions_have_equal_types() -> None:
    with pytest.raises(QueryError, match="union of query 'q': column 'i' is int64 in one input and double in another"):
        worlds.make(lambda app, a, b: app.union(a.map(i="i"), b.map(i="x")))


def test_an_unknown_query_and_an_unknown_source_are_named() -> None:
    app = App("a")
    app.query("late", app.source("ewr", schema={"x": "int"}))
    with pytest.raises(QueryError, match="no query 'lat'; did you mean 'late'"):
        compile_query(app.describe(), "lat")
    on = compile_query(app.describe(), "late")
    with pytest.raises(QueryError, match="query 'late' does not read 'err'; did you mean 'ewr'"):
        on.source_codec("err")
    on.close()


def test_columns_with_names_that_sql_has_meanings_for() -> None:
    app = App("a")
    source = app.source("s", schema={"select": "int", "class": "string", "order": "double", "Mixed": "int"})
    stream = source.filter('"select" > 0').window("1s").group_by("class").agg(**{"from": 'sum("order") + max(mixed)'})
    app.query("q", stream)
    on = compile_query(AppSpec.from_json(app.describe().to_json()), "q")
    rows, bad = on.source_codec("s").decode(b'[{"select":1,"class":"c","order":2,"Mixed":3}]', "json", [5])
    _, outputs = on.step(on.initial(), 0, 10, {0: on.order(on.settle([[rows]]))})
    assert not bad
    ((text, _),) = on.published(outputs[9].rows)
    assert text == b'{"window_start":0,"window_end":1000000,"class":"c","from":5.0}'
    on.close()


@pytest.mark.parametrize(
    "text",
    [
        "k = 'it''s'",
        "k LIKE '%{x}%'",
        "{'a': i}.a > 1",
        "k = '__feed__'",
        "k <> '\"'",
        "x BETWEEN 0 AND 1",
        "k ~ '[a-z]'",
    ],
)
def test_text_with_braces_and_quotes_stays_text(text: str) -> None:
    worlds.make(lambda app, a, b: a.filter(text)).close()


@pytest.mark.parametrize(
    ("predicate", "told"),
    [
        ("at > 3", 'at is a word of SQL, too: write "at" > 3'),
        ("x > at", 'at is a word of SQL, too: write x > "at"'),
        ("At > 3 AND k = 'at' AND k <> 'it''s at'", "write \"At\" > 3 AND k = 'at' AND k <> 'it''s at'"),
        ('"at" + order > 3', 'order is a word of SQL, too: write "at" + "order" > 3'),
        ("order + 1 > at", 'order, at are words of SQL, too: write "order" + 1 > "at"'),
    ],
)
def test_a_column_whose_name_is_a_word_of_sql_is_named_with_what_to_write(predicate: str, told: str) -> None:
    app = App("app")
    source = app.source("s", schema={"at": "int64", "order": "int64", "user": "string", "x": "int64", "k": "string"})
    app.query("q", source.filter(predicate))
    with pytest.raises(QueryError, match="does not parse: syntax error") as caught:
        compile_query(app.describe(), "q")
    assert str(caught.value).splitlines()[-1].endswith(told)


@pytest.mark.parametrize("predicate", ["at >", "x > 1 )", "user = ", "'at"])
def test_what_quotes_would_not_mend_is_not_blamed_on_names(predicate: str) -> None:
    app = App("app")
    app.query("q", app.source("s", schema={"at": "int64", "user": "string", "x": "int64"}).filter(predicate))
    with pytest.raises(QueryError, match="does not parse") as caught:
        compile_query(app.describe(), "q")
    assert "word" not in str(caught.value)


def test_of_an_aggregate_and_an_order_too() -> None:
    app = App("app")
    source = app.source("s", schema={"at": "int64", "x": "int64"})
    app.query("q", source.window("1s").agg(last="max(at)"))
    with pytest.raises(QueryError, match=r'write max\("at"\)$'):
        compile_query(app.describe(), "q")
    app = App("app")
    source = app.source("s", schema={"at": "int64", "x": "int64"})
    app.query("q", source.window("1s").top(3, by="at DESC"))
    with pytest.raises(QueryError, match=r'write "at" DESC$'):
        compile_query(app.describe(), "q")
