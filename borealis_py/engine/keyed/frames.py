"""Compiles a plan's over: which values of its rows are kept, and the statement that computes over frames.

What a row gives to an aggregate or to lag() is computed once, when the row comes: a value that it refuses costs that
row, not all rows whose frames it would be in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from borealis_py.engine.keyed.build import hash_statement
from borealis_py.engine.keyed.kept_rows import KeptRows
from borealis_py.engine.keyed.over import OverOperator
from borealis_py.engine.operators import aggregates as agg
from borealis_py.engine.sql.causes import ExpressionStage, NamedExpression
from borealis_py.engine.sql.expressions import (
    Expression,
    ExpressionPlace,
    Tree,
    check_over,
    column_ref,
    is_aggregate,
    nodes,
    replace_aggregates,
    sql_of,
    to_sql,
)
from borealis_py.engine.sql.statements import Relation, Sql, StatementCompiler, part_of, q
from borealis_py.query.names import STIME, base_name
from borealis_py.query.plan import OverOp

ROW, BACK = "__row", "__back"
"""In frames: the number of the row that a frame is of, and how many rows before it a row is."""
_INT = pa.int64()


class OverCompiler:
    """Compiles one over. First `arguments`, a chain that computes what aggregates take; then `build` on its rows."""

    def __init__(self, compiler: StatementCompiler, op: OverOp, source: Relation) -> None:
        self._c = compiler
        self._op = op
        self._source = source
        self._computed: dict[str, tuple[str, str, pa.DataType]] = {}  # SQL -> column, its SQL with a CAST, type
        self._parts: list[NamedExpression] = []  # the same, for the reasons of dead letters
        self._calls = agg.Calls()
        self._written: dict[str, Expression] = {}
        self._expressions = [self._parsed(name, text) for name, text in op.columns]
        self._outers = [self._calls.outer(expression) for expression in self._expressions]
        self._trees = [self._over_columns(tree) for tree in self._calls.trees]

    def arguments(self) -> Relation:
        """The rows with what their aggregates take in columns of their own."""
        source = self._source
        added = "".join(f", {sql} AS {name}" for name, sql, _ in self._computed.values())
        chain: Sql = lambda feed: f"SELECT *{added} FROM ({source.select(feed)})"  # noqa: E731
        fields = [pa.field(name, kind) for name, _, kind in self._computed.values()]
        schema = pa.schema([*source.schema, *fields])
        return Relation(source.slot, source.base, schema, chain, (*source.stages, source.stage(self._parts)))

    def build(self, rows: Relation) -> OverOperator:
        """The operator over these rows. Raises QueryError."""
        c, op = self._c, self._op
        arguments = tuple(name for name, _, _ in self._computed.values())
        used = set[str]().union(*(_names(replace_aggregates(e.tree, lambda _: "__a")[0]) for e in self._expressions))
        own = tuple(name for name in self._source.schema.names if name.lower() in used)
        feed = pa.schema(
            [(ROW, _INT), (BACK, _INT), *(rows.schema.field(name) for name in (*arguments, *own)), (agg.POSITION, _INT)]
        )
        computed = {name: f"first({q(name)}) FILTER (WHERE {BACK} = 0) AS {q(name)}" for name in own}
        computed |= {f"__a{i}": f"{sql} AS __a{i}" for i, sql in enumerate(self._called(feed))}
        nested = _nested(computed.values())
        selected, fields, parts = [ROW], [], []
        for expression, (name, _), outer in zip(self._expressions, op.columns, self._outers, strict=True):
            over = replace(expression, tree=self._outer_tree(expression))
            mine = _names(over.tree)
            relation = Relation(-1, feed, feed, _nested(sql for of, sql in computed.items() if of.lower() in mine))
            cast, kind = c.column(c.type_of(relation, outer, expression), expression)
            guarded = c.guarded(relation, over)
            computes = f"CAST({sql_of(guarded)} AS {cast})"
            parts.append(part_of(self._written[name], computes))
            selected.append(f"{computes} AS {q(name)}")
            fields.append(pa.field(name, kind))
        columns = ", ".join(selected)
        sql: Sql = lambda name: f"SELECT {columns} FROM ({nested(name)}) ORDER BY {ROW}"  # noqa: E731
        kept = pa.schema([*(rows.schema.field(n) for n in dict.fromkeys((*op.keys, *arguments))), (STIME, _INT)])
        return OverOperator(
            node=base_name(c.node),
            inputs=(rows.slot,),
            last=op.last,
            within_us=op.within_us,
            hash=hash_statement(c, rows.schema, op.keys, "over") if op.keys else None,
            kept=KeptRows.of(kept, op.keys, op.within_us, c.app.bucket_us),
            arguments=arguments,
            own=own,
            statement=c.statement(
                sql,
                feed,
                f"over of {c.label}",
                stages=(ExpressionStage(nested, tuple(parts), self._source.stage(()).types),),
            ),
            schema=pa.schema([*fields, (STIME, _INT)]),
        )

    def _parsed(self, name: str, text: str) -> Expression:
        """The expression with lag(x) as an aggregate over the frame. Its types are checked where it is taken apart."""
        place = ExpressionPlace(self._c.label, f"map({name})", self._source.columns)
        expression = check_over(text, place, lambda tree: _replaced(tree, _is_lag, _lagged))
        self._written[name] = expression
        expression = replace(
            expression, tree=_replaced(expression.tree, _is_lag, lambda lag: self._lag(expression, lag))
        )
        for call in expression.aggregates():
            for part in ("children", "order_bys", *(() if _is_lagged(call) else ("filter",))):
                for node in nodes(call[part]):
                    if is_aggregate(node):
                        raise expression.error("an aggregate or lag() inside another one")
        return expression

    def _lag(self, expression: Expression, lag: Tree) -> Tree:
        """The value of the row that is so many rows before: at most one row of a frame is."""
        rest = lag["children"][1:]
        by: Any = rest[0].get("value", {}).get("value") if rest else 1
        plain = not (lag["distinct"] or lag["filter"] or lag["order_bys"]["orders"]) and len(lag["children"]) in (1, 2)
        if not plain or not isinstance(by, int) or isinstance(by, bool) or not 1 <= by < self._op.last:
            most = self._op.last - 1
            here = "1 here: lag(x)" if most == 1 else f"1 to {most} here: lag(x) or lag(x, {most})"
            raise expression.error(f"lag() takes an expression and a number of rows, {here}")
        value = {"type": {"id": "INTEGER", "type_info": None}, "is_null": False, "value": by}
        constant = {"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": 0, "value": value}
        chosen = {
            "class": "COMPARISON", "type": "COMPARE_EQUAL", "alias": "", "query_location": 0,
            "left": column_ref(BACK), "right": constant,
        }  # fmt: skip
        return {**lag, "function_name": "first", "children": lag["children"][:1], "filter": chosen}

    def _over_columns(self, call: Tree) -> Tree:
        """The call with each argument, filter and order as a computed column."""
        filter_ = call["filter"] if _is_lagged(call) or not call["filter"] else self._column(call["filter"], "BOOLEAN")
        orders = [{**one, "expression": self._column(one["expression"])} for one in call["order_bys"]["orders"]]
        return {
            **call,
            "children": [self._column(child) for child in call["children"]],
            "filter": filter_,
            "order_bys": {**call["order_bys"], "orders": orders},
        }

    def _column(self, tree: Tree, wanted: str = "") -> Tree:
        if tree["class"] == "CONSTANT":
            return tree
        sql = to_sql(tree)
        if sql not in self._computed:
            expression = replace(self._expressions[0], tree=tree, text=sql)
            kind = self._c.type_of(self._source, sql, expression)
            if wanted and kind != wanted:
                raise expression.error(f"a filter must be true or false, this is {kind}")
            cast, arrow = self._c.column(kind, expression)
            guarded = sql_of(self._c.guarded(self._source, expression))
            self._c.probe(self._source, guarded, expression)
            name = f"__x{len(self._computed)}"
            self._computed[sql] = name, f"CAST({guarded} AS {cast})", arrow
            self._parts.append(part_of(expression, f"CAST({guarded} AS {cast})"))
        return column_ref(self._computed[sql][0])

    def _called(self, feed: pa.Schema) -> list[str]:
        """The calls as SQL over frames, in their order where that matters."""
        frames = Relation(-1, feed, feed)
        found = []
        for call in self._trees:
            expression = replace(self._expressions[0], tree=call)
            guarded = self._c.guarded(frames, expression, f" GROUP BY {ROW}").tree
            argument = agg.argument(call)
            kind = self._c.type_of(frames, argument, expression) if argument else ""
            found.append(agg.over_rows(guarded, kind))
        return found

    def _outer_tree(self, expression: Expression) -> Tree:
        tree, _ = replace_aggregates(expression.tree, self._calls.column)
        return tree


def _nested(columns: Iterable[str]) -> Sql:
    """What is computed of each frame."""
    inner = ", ".join([ROW, *columns])
    return lambda name: f"SELECT {inner} FROM {name} GROUP BY {ROW}"


def _names(tree: Tree) -> set[str]:
    """The columns of a tree, in lower case."""
    return {node["column_names"][0].lower() for node in nodes(tree) if node["class"] == "COLUMN_REF"}


def _is_lag(node: Tree) -> bool:
    return node.get("class") == "FUNCTION" and node["function_name"].lower() == "lag"


def _lagged(lag: Tree) -> Tree:
    """What lag() takes the value of; itself where it says nothing."""
    children: list[Tree] = lag["children"]
    return children[0] if children else lag


def _is_lagged(call: Tree) -> bool:
    """Whether an aggregate was made of lag()."""
    return any(node["class"] == "COLUMN_REF" and node["column_names"] == [BACK] for node in nodes(call["filter"] or []))


def _replaced(tree: Tree, which: Callable[[Tree], bool], by: Callable[[Tree], Tree]) -> Tree:
    """A copy with some nodes replaced, from the inside out."""

    def go(value: Any) -> Any:
        if isinstance(value, list):
            return [go(v) for v in value]
        if not isinstance(value, dict):
            return value
        made = {k: go(v) for k, v in value.items()}
        return by(made) if which(made) else made

    found: Tree = go(tree)
    return found
