"""A user's SQL expression as a checked tree: parsed by DuckDB, checked here, written back as SQL from the tree.

The engine only ever receives SQL written from the tree, never the user's text, so nothing can be smuggled in. Types are
checked later, by binding (`statements`). Knows nothing of windows or state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import duckdb

from borealis_py.engine.sql import clocks, exact, guards, implicit
from borealis_py.engine.sql.catalogue import catalogue
from borealis_py.engine.sql.duck_connection import connect
from borealis_py.engine.sql.duck_faults import REFUSALS, first_line
from borealis_py.engine.sql.functions import BY_NAME, TYPES
from borealis_py.query.errors import QueryError, unknown_column

Tree = dict[str, Any]

_ALLOWED = {
    "COLUMN_REF", "CONSTANT", "FUNCTION", "CAST", "CASE", "COMPARISON", "CONJUNCTION", "OPERATOR", "BETWEEN", "COLLATE",
}  # fmt: skip
_REASONS = {
    "SUBQUERY": "subqueries are not allowed: an expression sees one row (or one window's rows)",
    "WINDOW": "OVER (...) is not allowed: use .window(...).agg(...)",
    "STAR": "* and COLUMNS() are not allowed here: name the columns",
    "PARAMETER": "parameters (? and $1) are not allowed: write the value",
    "LAMBDA": "lambda functions and the arrow operator -> are not allowed",
    "DEFAULT": "DEFAULT is not allowed",
    "POSITIONAL_REFERENCE": "positions (#1) are not allowed: name the column",
}
_PREFIX = "SELECT "
_ORDER_PREFIX = "SELECT 1 ORDER BY "


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    return connect()


def _ask(sql: str, values: Sequence[str] = ()) -> str:
    """Run one query, on a cursor of its own: two threads may compile queries concurrently."""
    with _parser().cursor() as cursor:
        answer: str = cursor.execute(sql, list(values)).fetchone()[0]  # type: ignore[index]
    return answer


@dataclass(frozen=True)
class ExpressionPlace:
    """Where an expression occurs, for messages. `node` as in "query 'q'"; `where` in it, as in "map(x)"; `columns` it
    may use, including stime."""

    node: str
    where: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.where} of {self.node}"


@dataclass(frozen=True)
class Expression:
    """A checked expression. `text`: as the user wrote it, for messages. `tree`: the engine's parse of it, from which
    the SQL that runs is written. `place`: where it occurs."""

    text: str
    tree: Tree
    place: ExpressionPlace

    def columns(self) -> set[str]:
        """The columns it uses, as the schema spells them."""
        spelled = {c.lower(): c for c in self.place.columns}
        return {spelled[n["column_names"][0].lower()] for n in nodes(self.tree) if n["class"] == "COLUMN_REF"}

    def aggregates(self) -> list[Tree]:
        """Its outermost aggregate calls, in order."""
        return [n for n in nodes(self.tree) if is_aggregate(n)]

    def guarded(self, kind: Callable[[str, bool], str], plan: Callable[[str, str, bool], str]) -> Expression:
        """The expression with its cost bounded for any value, and exact (`implicit`, `guards`, `exact`).

        Args:
            kind: the engine's type of a subexpression (its SQL; whether it contains aggregates).
            plan: the engine's plan, as text, of SQL over columns with the given SQL (whether these contain aggregates).

        Raises:
            QueryError: its cost cannot be bounded, a constant in it would be rounded, or it takes a clock time for an
                instant (`clocks`).
        """

        def kind_of(tree: Tree) -> str:
            return kind(to_sql(tree), _aggregated([tree]))

        def plan_of(tree: Tree, parts: Sequence[Tree]) -> str:
            columns = ", ".join(f"{to_sql(part)} AS {implicit.PART}{n}" for n, part in enumerate(parts))
            return plan(to_sql(tree), columns or "1 AS one", _aggregated(parts))

        engine = implicit.CastEngine(kind_of, plan_of, _read, _written, _holds, to_sql)
        try:
            clocks.check(self.tree, kind_of)
            return replace(self, tree=guards.guarded(implicit.explicit(self.tree, engine), kind_of))
        except (guards.Unbounded, exact.Inexact, clocks.WrongClock) as exc:
            raise self.error(str(exc)) from exc

    def error(self, reason: str) -> QueryError:
        return QueryError(f"{self.place}: {reason}\n    {self.text}")


def parse(text: str, place: ExpressionPlace, *, aggregate: bool) -> Expression:
    """Parse and check one expression.

    Args:
        aggregate: whether it must consist of aggregates (agg) or must not contain any (filter, map).

    Raises:
        QueryError: it does not parse (the message points at the place), names an unknown column, or uses what is not
            allowed.
    """
    expression = Expression(text, _parse(text, place), place)
    _check(expression.tree, expression)
    found = expression.aggregates()
    if not aggregate and found:
        name = found[0]["function_name"]
        raise expression.error(f"aggregate {name}() outside of agg(); use .window(...).agg(...)")
    if aggregate:
        _check_aggregates(expression, found)
    return expression


@dataclass(frozen=True)
class OrderTerm:
    """One `expression` of an ORDER BY list, and how it sorts: `direction`, as SQL."""

    expression: Expression
    direction: str


def parse_order(text: str, place: ExpressionPlace) -> list[OrderTerm]:
    """Parse and check an ORDER BY list. Raises QueryError: as `parse` does."""
    node = _parsed(text, place, _ORDER_PREFIX)
    modifiers = node.get("modifiers", [])
    plain = len(modifiers) == 1 and modifiers[0]["type"] == "ORDER_MODIFIER" and _bare({**node, "modifiers": []})
    if not plain:
        raise QueryError(f"{place}: write what follows ORDER BY, without LIMIT, FROM or WHERE\n    {text}")
    found = []
    for order in modifiers[0]["orders"]:
        expression = Expression(text, order["expression"], place)
        _check(expression.tree, expression)
        if expression.aggregates():
            raise expression.error(
                "an order is over rows, not over aggregates; aggregate first, then .window(...).top() of the same "
                "times over that"
            )
        if expression.tree["class"] == "CONSTANT":
            raise expression.error("a constant orders nothing: name a column")
        if expression.tree["class"] == "COLLATE":
            raise expression.error("COLLATE is not allowed here: order by lower(...) or another expression")
        direction = "DESC" if order["type"] == "DESCENDING" else "ASC"
        nulls = "FIRST" if order["null_order"] == "NULLS FIRST" else "LAST"
        found.append(OrderTerm(expression, f"{direction} NULLS {nulls}"))
    return found


def _parsed(text: str, place: ExpressionPlace, prefix: str) -> Tree:
    """The SELECT that the text makes behind a prefix; empty: it is no single one. Raises QueryError."""
    answer = json.loads(_ask("SELECT json_serialize_sql(?)", [prefix + text]))
    if answer["error"]:
        if answer["error_type"] != "parser":  # two statements: DuckDB's error is that it serialises only SELECT
            raise QueryError(f"{place}: this is not one SQL expression\n    {text}")
        at = max(0, int(answer.get("position", len(prefix))) - len(prefix))
        before = text[:at]
        line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
        lines = ["    " + part for part in text.split("\n")]
        lines.insert(min(line, len(lines) - 1) + 1, "    " + " " * column + "^")
        lines += _in_quotes(text, place.columns, prefix)
        raise QueryError(f"{place} does not parse: {answer['error_message']}\n" + "\n".join(lines))
    statements = answer["statements"]
    node: Tree = statements[0]["node"] if len(statements) == 1 else {}
    return node


def _in_quotes(text: str, columns: Iterable[str], prefix: str) -> list[str]:
    """What to write where columns have names that are words of SQL; none: it would not parse either."""
    wrong = {name.lower() for name in columns if _needs_quotes(name)}
    quoted = _TOKENS.sub(lambda found: f'"{found[0]}"' if found[0].lower() in wrong else found[0], text)
    if quoted == text or json.loads(_ask("SELECT json_serialize_sql(?)", [prefix + quoted]))["error"]:
        return []
    names = dict.fromkeys(found for found in _TOKENS.findall(text) if found.lower() in wrong)
    what = f"{', '.join(names)} {'is a word' if len(names) == 1 else 'are words'}"
    return [f"{what} of SQL, too: write {quoted}"]


@lru_cache(maxsize=1024)
def _needs_quotes(name: str) -> bool:
    """Whether a column's name is no name to SQL unless it is quoted."""
    return bool(json.loads(_ask("SELECT json_serialize_sql(?)", [f"{_PREFIX}max({name}) = {name} + {name}"]))["error"])


_TOKENS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\w+""")
"""Texts, quoted names, words."""


def _bare(node: Tree) -> bool:
    """Whether a SELECT is of one expression and has nothing around it."""
    return bool(
        node.get("type") == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and node["from_table"]["type"] == "EMPTY"
        and not node["modifiers"]
        and not node["group_expressions"]
        and not node["cte_map"]["map"]
        and not any(node[part] for part in ("where_clause", "having", "qualify", "sample"))
        and not node["select_list"][0]["alias"]
    )


def check_over(text: str, place: ExpressionPlace, plain: Callable[[Tree], Tree]) -> Expression:
    """Parse an expression that may have aggregates, and check what `plain` makes of it. Raises QueryError."""
    expression = Expression(text, _parse(text, place), place)
    _check(plain(expression.tree), expression)
    return expression


def _parse(text: str, place: ExpressionPlace) -> Tree:
    node = _parsed(text, place, _PREFIX)
    if not _bare(node):
        raise QueryError(f"{place}: write one SQL expression, without commas, AS, FROM or WHERE around it\n    {text}")
    tree: Tree = node["select_list"][0]
    return tree


def nodes(tree: Any) -> Iterator[Tree]:
    """Every expression node, outermost first, in written order."""
    stack = [tree]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if "class" in value:
                yield value
            stack.extend(reversed([v for v in value.values() if isinstance(v, dict | list)]))
        elif isinstance(value, list):
            stack.extend(reversed(value))


def is_aggregate(node: Tree) -> bool:
    return node["class"] == "FUNCTION" and node["function_name"].lower() in catalogue().aggregates


def _aggregated(trees: Sequence[Tree]) -> bool:
    return any(is_aggregate(node) for node in nodes(list(trees)))


def _check(tree: Tree, expression: Expression) -> None:
    known = {c.lower() for c in expression.place.columns}
    for node in nodes(tree):
        kind = node["class"]
        if kind not in _ALLOWED:
            raise expression.error(_REASONS.get(kind, f"{kind.lower()} is not allowed in an expression"))
        if kind == "COLUMN_REF":
            name = ".".join(node["column_names"])
            if name.lower() not in known:
                objection = catalogue().bare(name)
                if objection:
                    raise expression.error(objection)
                raise unknown_column(name, str(expression.place), expression.place.columns)
        elif kind == "FUNCTION":
            objection = _objection(node)
            if objection:
                raise expression.error(objection)
        elif kind == "CAST":
            for name in _type_names(node["cast_type"]):
                if name.upper() not in TYPES:
                    raise expression.error(f"CAST to {name} is not allowed: types are {', '.join(sorted(TYPES))}")
        elif node.get("type") == "GROUPING_FUNCTION":
            raise expression.error("GROUPING() is not allowed")


def _objection(call: Tree) -> str | None:
    """Why a call is not allowed; None: it is."""
    name = call["function_name"]
    if call["catalog"] or call["schema"] not in ("", "main"):  # the parser adds main itself
        return f"write {name}() without a schema: functions are known by their names"
    objection = catalogue().objection(name) or guards.objection(call)
    if objection is None and name.lower() in BY_NAME:
        chosen = call["children"][1] if len(call["children"]) > 1 else {}
        value = chosen.get("value", {}).get("value") if chosen.get("class") == "CONSTANT" else None
        if not isinstance(value, str):
            return f"{name}() takes the name of an aggregate as text, like {name}(values, 'sum')"
        objection = catalogue().list_objection(value)
    return objection


def _type_names(type_: Tree) -> Iterator[str]:
    """The names of a type and of all its component types."""
    info = type_.get("type_info") or {}
    yield info.get("alias") or (info.get("name", "") if type_["id"] == "UNBOUND" else type_["id"])
    if type_["id"] != "VARIANT":
        yield from (name for part in guards.inner_types(type_).values() for name in _type_names(part))


def _check_aggregates(expression: Expression, found: list[Tree]) -> None:
    if not found:
        raise expression.error("no aggregate in it; agg() takes count(*), sum(x), avg(x), ... and expressions of them")
    for call in found:
        for part in ("children", "filter", "order_bys"):
            for node in nodes(call[part]):
                if is_aggregate(node):
                    raise expression.error(f"aggregate {node['function_name']}() inside {call['function_name']}()")


def check_outside(expression: Expression, keys: Sequence[str]) -> None:
    """Check that columns outside of aggregate calls are keys. Raises QueryError."""
    allowed = {k.lower() for k in keys}
    outside, _ = replace_aggregates(expression.tree, lambda _: None)
    for node in nodes(outside):
        if node["class"] == "COLUMN_REF" and node["column_names"] and node["column_names"][0].lower() not in allowed:
            name = node["column_names"][0]
            raise expression.error(
                f"column {name!r} is outside of an aggregate and is not a key; group_by({name!r}) or any_value({name})"
            )


def replace_aggregates(tree: Tree, name: Callable[[Tree], str | None]) -> tuple[Tree, int]:
    """A copy with each aggregate call replaced by a column of the given name (None: an unnamed column)."""
    count = 0

    def go(value: Any) -> Any:
        nonlocal count
        if isinstance(value, list):
            return [go(v) for v in value]
        if not isinstance(value, dict):
            return value
        if "class" in value and is_aggregate(value):
            count += 1
            column = name(value)
            return column_ref(column) if column is not None else {"class": "COLUMN_REF", "column_names": []}
        return {k: go(v) for k, v in value.items()}

    return go(tree), count


def column_ref(name: str) -> Tree:
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "query_location": 0, "column_names": [name]}


def to_sql(tree: Tree) -> str:
    """The tree as SQL in parentheses. Raises duckdb.Error for constants that DuckDB cannot write (1e400)."""
    return _deserialized(json.dumps(tree))


@lru_cache(maxsize=4_096)
def _deserialized(tree: str) -> str:
    before, after = _empty_select()
    text = _ask("SELECT json_deserialize_sql(?)", [f"{before}{tree}{after}"])
    return f"({text.removeprefix(_PREFIX).removesuffix(';')})"


def _written(tree: Tree) -> str:
    """The tree as a user would write it, for messages."""
    return to_sql(tree).removeprefix("(").removesuffix(")").replace("main.", "")


def _holds(condition: str) -> bool:
    """Whether a condition on constants is true. One that fails to be computed fails again where it is used."""
    try:
        return _ask(f"SELECT CAST(({condition}) AS VARCHAR)") == "true"
    except REFUSALS:
        return False


def _read(sql: str) -> Tree | None:
    """The tree of one expression written by the engine; None: it is not an expression."""
    answer = json.loads(_ask("SELECT json_serialize_sql(?)", [_PREFIX + sql]))
    return None if answer["error"] else answer["statements"][0]["node"]["select_list"][0]


@cache
def _empty_select() -> tuple[str, str]:
    """What stands before and after the only expression of a serialised SELECT."""
    answer = json.loads(_ask("SELECT json_serialize_sql('SELECT 1')"))
    answer["statements"][0]["node"]["select_list"] = ["here"]
    before, _, after = json.dumps(answer).partition('"here"')
    return before, after


def sql_of(expression: Expression) -> str:
    """The expression as SQL. Raises QueryError."""
    try:
        return to_sql(expression.tree)
    except REFUSALS as exc:
        raise expression.error(f"cannot be used: {first_line(exc)}") from exc


def describe(
    connection: duckdb.DuckDBPyConnection, select: str, error: Callable[[str], QueryError]
) -> Mapping[str, str]:
    """Column names and DuckDB types of a SELECT, bound but not run. A type error becomes the user's error."""
    try:
        rows = connection.execute(f"DESCRIBE {select}").fetchall()
    except REFUSALS as exc:
        raise error(first_line(exc)) from exc
    return {row[0]: row[1] for row in rows}


def bound(connection: duckdb.DuckDBPyConnection, select: str, error: Callable[[str], QueryError]) -> str:
    """How the engine binds the selection of `SELECT ... FROM (SELECT ...)`, before any optimisation."""
    try:
        plans = dict(connection.execute(f"EXPLAIN (FORMAT json) {select}").fetchall())
    except REFUSALS as exc:
        raise error(first_line(exc)) from exc
    node: Tree = json.loads(plans["logical_plan"])[0]
    texts: list[str] = []
    while not texts or node["name"] != "PROJECTION":  # an AGGREGATE may stand between the two
        told = node["extra_info"].get("Expressions", "")
        texts.append(told if isinstance(told, str) else "\n".join(told))
        (node,) = node["children"]
    return "\n".join(texts)
