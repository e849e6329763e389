"""No function that a query may use rounds a number because of what stands beside it.

Every function of the catalogue is called with numbers whose digits no common type of the engine holds: a decimal with
eight digits after the point beside one with two of 38, either beside a double, an int64 beside a double. What comes out
is what comes out of the same numbers as decimal(38,20), which hold all digits; or an error of the row, or a refusal. A
function that is added to the catalogue is called as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache

import duckdb
import pyarrow as pa
import pytest

from borealis_py import App, QueryError
from borealis_py.engine.sql.duck_connection import connect
from borealis_py.engine.sql.duck_statement import Duck
from borealis_py.engine.sql.expressions import ExpressionPlace, parse, sql_of
from borealis_py.engine.sql.functions import AGGREGATES, BY_NAME, IN_DOUBLES, OPERATORS, SCALARS
from borealis_py.engine.sql.statements import Relation, StatementCompiler
from borealis_py.testing import run

COLUMNS = {"a": "decimal(18,8)", "b": "decimal(38,2)", "x": "double", "i": "int64"}
_SCHEMA = pa.schema([
    ("a", pa.decimal128(18, 8)), ("b", pa.decimal128(38, 2)), ("x", pa.float64()), ("i", pa.int64()),
    ("stime", pa.int64()),
])  # fmt: skip
_ROWS = pa.RecordBatch.from_arrays([
    pa.array([Decimal("0.00001234"), Decimal("0.00001235")], _SCHEMA[0].type),
    pa.array([Decimal("1234567890123456.25"), Decimal("1234567890123456.26")], _SCHEMA[1].type),
    pa.array([0.5, 1.5]), pa.array([9007199254740993, 9007199254740995]), pa.array([1, 2]),
], schema=_SCHEMA)  # fmt: skip
_PAIRS = (
    ("a", "b"), ("b", "a"), ("[a]", "b"), ("[b]", "a"), ("a", "[b]"), ("[a]", "[b]"), ("[b]", "[a]"),
    ("a", "x"), ("x", "a"), ("i", "x"), ("[x]", "i"), ("[i]", "[x]"), ("b", "0.00001"), ("map([b], [1])", "a"),
    ("{'p': a}", "{'p': b}"), ("[a, b]", "'sum'"), ("[b, b]", "'median'"), ("b", "0.5"), ("'{}'", "b"),
)  # fmt: skip
_BESIDE = ("1", "true", "b")
_SPELLED = {"concat", "||", "hash"}
"""Their results show how many digits a type has, without anything between two numbers."""
_SIZED = {"list_resize", "array_resize"}
"""A double as their second argument is a size, and a whole number as such."""


@cache
def _arities() -> dict[str, set[int]]:
    connection = connect()
    asked = "SELECT lower(function_name), len(parameter_types), varargs FROM duckdb_functions()"
    found: dict[str, set[int]] = {}
    for name, count, more in connection.execute(asked).fetchall():
        found.setdefault(name, set()).update(range(count, 4) if more else [count])
    connection.close()
    return found


def calls(name: str) -> Iterator[str]:
    """Calls of a function, most of which the engine may refuse."""
    if name in OPERATORS:
        yield from (f"({one} {name} {other})" for one, other in _PAIRS)
        return
    yield from (f"{name}({one})" for one in ("a", "b", "[a, b]"))
    yield from (f"{name}({one}, {other})" for one, other in _PAIRS)
    if _arities().get(name, {3}) & {3, 4}:
        for pair in _PAIRS[:8]:
            for beside in _BESIDE:
                for at in range(3):
                    yield f"{name}({', '.join([*pair[:at], beside, *pair[at:]])})"


BY_SYNTAX = (
    "CASE WHEN x < 1 THEN a ELSE b END", "CASE WHEN x < 1 THEN i ELSE x END", "CASE a WHEN b THEN 1 ELSE 2 END",
    "CASE i WHEN x THEN 1 ELSE 2 END", "coalesce(a, b)", "coalesce(b, a)", "coalesce(NULL, i, x)", "coalesce(b, x)",
    "ifnull(a, b)", "if(x < 1, a, b)", "nullif(a, b)", "nullif(i, x)", "a IN (b, 1)", "i IN (x, 2)", "i NOT IN (x)",
    "i = x", "i <> x", "i < x", "i >= x", "b = x", "i IS DISTINCT FROM x", "a BETWEEN b AND b", "i BETWEEN x AND x",
    "[a, b]", "[i, x]", "[[a], [b]]", "greatest([a], [b])", "[a] = [b]", "{'p': a} = {'p': b}", "[{'p': a}, {'p': b}]",
    "CASE WHEN x < 1 THEN [a] ELSE [b] END", "CASE WHEN x < 1 THEN map([a], [b]) ELSE map([b], [a]) END",
    "coalesce(coalesce(a, b), x)", "coalesce(CAST(NULL AS FLOAT), i)",
)  # fmt: skip
"""What finds a common type without being a function."""
_WIDE = {name: f"CAST({name} AS DECIMAL(38,20))" for name in COLUMNS}


def _wide(call: str) -> str:
    return re.sub(r"\b([abxi])\b(?!\()", lambda found: _WIDE[found[1]], call)


class Checked:
    """Expressions over `_ROWS`, as queries run them and as they stand."""

    def __init__(self) -> None:
        app = App("p")
        app.query("q", app.source("s", COLUMNS).map(v="a"))
        self._duck = Duck()
        self._compiler = StatementCompiler(app.describe(), "q", self._duck)
        self._relation = Relation(0, _SCHEMA, _SCHEMA)

    def guarded(self, text: str, aggregate: bool) -> str:
        """Raises QueryError."""
        expression = parse(text, ExpressionPlace("q", "map(v)", tuple(_SCHEMA.names)), aggregate=aggregate)
        return sql_of(self._compiler.guarded(self._relation, expression))

    def known(self, text: str) -> bool:
        try:
            self._duck.bind(_SCHEMA, lambda on, feed: on.execute(f"EXPLAIN SELECT {text} FROM {feed}"))
        except duckdb.Error:
            return False
        return True

    def values(self, sql: str) -> tuple[str, list[object]]:
        """(type, values). Raises duckdb.Error."""

        def use(connection: duckdb.DuckDBPyConnection, feed: str) -> tuple[str, list[object]]:
            found = connection.execute(f"SELECT {sql} AS v FROM {feed}")
            return str(found.description[0][1]), [row[0] for row in found.fetchall()]

        return self._duck.bind(_SCHEMA, use, _ROWS)

    def rounds(self, text: str, aggregate: bool) -> bool:
        """Whether it gives other numbers than those with all digits; not where it is refused, or the row is."""
        try:
            kind, got = self.values(self.guarded(text, aggregate))
            _, wanted = self.values(_wide(text))
        except (QueryError, duckdb.Error):
            return False
        computed = text.removeprefix("(").split("(")[0].split(" ")
        in_doubles = "DECIMAL" not in kind and any(word in IN_DOUBLES for word in computed[:2])
        return not in_doubles and _plain(got) != _plain(wanted)

    def close(self) -> None:
        self._duck.close()


def _plain(value: object) -> object:
    """A value in which 1, 1.0 and 1.00 are the same."""
    if isinstance(value, float):
        return Decimal(repr(value)).normalize() if abs(value) < 1e300 else repr(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value).normalize()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, str):
        return [Decimal(number).normalize() for number in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", value)] or value
    return value


@pytest.fixture(scope="module")
def checked() -> Iterator[Checked]:
    made = Checked()
    yield made
    made.close()


@pytest.mark.parametrize("part", range(4))
def test_no_function_rounds_what_stands_beside_something_else(checked: Checked, part: int) -> None:
    names = sorted((SCALARS | BY_NAME | AGGREGATES) - _SPELLED)[part::4]
    tried = [(name, call) for name in names for call in calls(name) if checked.known(call)]
    assert len(tried) > len(names)
    rounded = [call for name, call in tried if checked.rounds(call, name in AGGREGATES)]
    assert [call for call in rounded if not (call.endswith(", x)") and call.split("(")[0] in _SIZED)] == []


@pytest.mark.parametrize("text", BY_SYNTAX)
def test_no_expression_rounds_what_stands_beside_something_else(checked: Checked, text: str) -> None:
    assert checked.known(text)
    assert not checked.rounds(text, aggregate=False)


def test_that_would_be_seen(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the guard, each kind of cast does round."""
    monkeypatch.setattr("borealis_py.engine.sql.exact.lossy", lambda *types, doubles: False)
    for text in ("coalesce(a, b)", "least(a, b)", "[i, x]", "list_append([b], a)"):
        assert checked.rounds(text, aggregate=False), text
    monkeypatch.setattr("borealis_py.engine.sql.exact.interpolates", lambda name, chosen: False)
    assert checked.rounds("median(a)", aggregate=True)


def told(expression: str, **row: object) -> tuple[list[object], list[str]]:
    app = App("p")
    app.query("q", app.source("s", COLUMNS).map(v=expression))
    found = run(app, {"s": [dict.fromkeys(COLUMNS) | row]})
    return [one["v"] for one in found["q"]], [letter.reason for letter in found.dead_letters]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (
            "coalesce(a, b)",
            "a is 0.00001234, and would be rounded to DECIMAL(38,2), like what it stands beside: CAST that to "
            "DECIMAL(38,8), or write round(a, 2)",
        ),
        (
            "greatest(i, x)",
            "i is 9007199254740993, and as a DOUBLE, like what it stands beside, it would lose digits: CAST that to "
            "BIGINT, or i to DOUBLE",
        ),
        (
            "CAST(a + 1 AS DECIMAL(12,2))",
            "(a + 1) is 1.00001234, and CAST to DECIMAL(12,2) would round it: write CAST(round((a + 1), 2) AS "
            "DECIMAL(12,2))",
        ),
        (
            "[[a], [b]]",
            "list_value(a) is [0.00001234], and would be rounded to DECIMAL(38,2)[] here: CAST both to one type that "
            "holds all digits",
        ),
    ],
)
def test_the_reason_names_expression_value_and_what_to_write(expression: str, reason: str) -> None:
    values, reasons = told(expression, a="0.00001234", b="5.00", x=0.5, i=2**53 + 1)
    assert (values, [text.partition(": ")[2].partition("; in map(v): ")[0] for text in reasons]) == ([], [reason])


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("coalesce(a, CAST(b AS DECIMAL(38,8)))", "0.00001234"),
        ("coalesce(round(a, 2), b)", "0.00"),
        ("coalesce(CAST(i AS DOUBLE), x)", 2.0**53),
        ("CAST(round(a + 1, 2) AS DECIMAL(12,2))", "1.00"),
        ("TRY_CAST(a AS DECIMAL(12,2))", None),
        ("TRY_CAST(b AS DECIMAL(12,1))", "5.0"),
        ("coalesce(CAST(NULL AS DECIMAL(18,8)), b)", "5.00"),
        ("i < x", False),
        ("i > 1e15", True),
        ("i IN (x, 1e15)", False),
        ("coalesce(x, 0.1)", 0.5),
        ("x / 3.14159265358979323846 > 0", True),
    ],
)
def test_what_the_reasons_recommend_and_what_keeps_its_digits_is_computed(expression: str, value: object) -> None:
    assert told(expression, a="0.00001234", b="5.00", x=0.5, i=2**53 + 1) == ([value], [])


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("coalesce(b, 0.001)", "0.001 would be rounded to DECIMAL(38,2), like what it stands beside: CAST that"),
        ("b IN (1, 0.001, i)", ""),
        ("coalesce(CAST(5 AS DECIMAL(38,2)), 0.001)", "0.001 would be rounded"),
        ("coalesce(x, 0.12345678901234567890123)", "as a DOUBLE, like what it stands beside, it would lose digits"),
    ],
)
def test_a_constant_that_would_be_rounded_is_refused(expression: str, reason: str) -> None:
    if not reason:
        assert told(expression, a="0.00001234", b="5.00", i=5) == ([True], [])
        return
    with pytest.raises(QueryError, match=re.escape(reason)):
        told(expression)


@pytest.mark.parametrize("call", ["median(a)", "mad(b)", "quantile_cont(b, 0.3)", "approx_quantile(b, 0.3)"])
def test_an_aggregate_between_two_decimals_is_refused(call: str) -> None:
    app = App("p")
    app.query("q", app.source("s", COLUMNS).window("1s").agg(v=call))
    with pytest.raises(QueryError, match="is computed as a double, and rounded to the digits of the decimal: CAST the"):
        run(app, {"s": []})


def test_an_aggregate_of_a_window_keeps_its_digits() -> None:
    app = App("p")
    windows = app.source("s", COLUMNS).window("1s").agg(v="coalesce(max(a), sum(b))", w="max(if(x > 0, a, b))")
    app.query("q", windows)
    found = run(app, {"s": [{"a": "0.00001234", "b": "5.00", "x": 1.0, "i": 1}]})
    assert found["q"] == []
    (letter,) = found.dead_letters
    assert "a is 0.00001234" in letter.reason or "max(a) is 0.00001234" in letter.reason
