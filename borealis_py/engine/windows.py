"""Compiles a plan's window to its operator: partials where its aggregates decompose, else rows; and the statements."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from borealis_py.engine import aggregates as agg
from borealis_py.engine.duck import Statement
from borealis_py.engine.expressions import Expression, Tree, sql_of
from borealis_py.engine.operators import WindowOperator
from borealis_py.engine.statements import Relation, Sql, StatementCompiler, q
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START, base_name
from borealis_py.query.plan import WindowOp

_INT = pa.int64()


class WindowCompiler:
    """Compiles one window operator: chooses partials or rows, and writes the statements."""

    def __init__(
        self, compiler: StatementCompiler, op: WindowOp, source: Relation, expressions: list[Expression]
    ) -> None:
        self._c, self._op, self._source, self._expressions = compiler, op, source, expressions
        self._keys = [q(k) for k in op.keys]
        self._group = _group_by(self._keys)

    def build(self) -> WindowOperator:
        c, op = self._c, self._op
        for expression in self._expressions:  # the user's own expressions first, so that type errors refer to them
            c.type_of(self._source, sql_of(expression), expression, self._group)
        self._expressions = [c.guarded(self._source, e, self._group) for e in self._expressions]
        for expression in self._expressions:
            c.probe(self._source, sql_of(expression), expression, self._group)
        calls = agg.Calls()
        outers = [calls.outer(e) for e in self._expressions]
        types = [self._argument_type(tree) for tree in calls.trees]
        found = [agg.decompose(tree, kind) for tree, kind in zip(calls.trees, types, strict=True)]
        parts = [d for d in found if d is not None]
        positions = len(parts) != len(found)
        collect: Statement | None
        columns: tuple[str, ...] = ()
        if positions:
            collect, columns, partial_schema = self._rows()
            inner = [agg.over_rows(tree, kind) for tree, kind in zip(calls.trees, types, strict=True)]
        else:
            collect, inner = self._partials(parts)
            partial_schema = collect.output.remove(0)
        feed_schema = partial_schema.insert(0, pa.field(agg.WINDOW, _INT))
        feed_schema = feed_schema.append(pa.field(agg.POSITION, _INT)) if positions else feed_schema
        close, fields = self._close(inner, outers, feed_schema)
        schema = pa.schema([(WINDOW_START, _INT), (WINDOW_END, _INT), *fields, (STIME, _INT)])
        bucket = c.app.bucket_us
        return WindowOperator(
            node=base_name(c.node),
            input=self._source.slot,
            size=op.size_us // bucket,
            every=op.every_us // bucket,
            width_us=bucket,
            keys=op.keys,
            columns=columns,
            collect=collect,
            close=close,
            rank=self._rank(partial_schema),
            positions=positions,
            partial_schema=partial_schema,
            schema=schema,
        )

    def _argument_type(self, call: Tree) -> str:
        sql = agg.argument(call)
        return self._c.type_of(self._source, sql, self._expressions[0]) if sql else ""

    def _partials(self, parts: list[agg.Decomposed]) -> tuple[Statement, list[str]]:
        by, inner = [agg.BUCKET, *self._keys], []
        selected = list(by)
        for part in parts:
            names = [f"__p{len(selected) + i}" for i in range(len(part.parts))]
            selected += [f"{sql} AS {name}" for sql, name in zip(part.parts, names, strict=True)]
            inner.append(part.combine(names))
        columns, group, order = ", ".join(selected), _group_by(by), _order_by(by)
        sql: Sql = lambda feed: f"SELECT {columns} FROM ({self._bucketed(feed)}){group}{order}"  # noqa: E731
        return self._c.statement(sql, self._source.base, self._where), inner

    def _bucketed(self, feed: str) -> str:
        """The window's rows with their bucket as first column."""
        width = self._c.app.bucket_us
        return f"SELECT {q(STIME)} // {width} AS {agg.BUCKET}, * FROM ({self._source.select(feed)})"

    def _rows(self) -> tuple[Statement | None, tuple[str, ...], pa.Schema]:
        used = set(self._op.keys).union(*(e.columns() for e in self._expressions))
        columns = tuple(n for n in self._source.schema.names if n in used) or (STIME,)
        schema = pa.schema([self._source.schema.field(n) for n in columns])
        if self._source.chain is None:
            return None, columns, schema
        selected = ", ".join([agg.BUCKET, *(q(n) for n in columns)])
        sql: Sql = lambda feed: f"SELECT {selected} FROM ({self._bucketed(feed)})"  # noqa: E731
        return self._c.statement(sql, self._source.base, self._where), columns, schema

    def _close(self, inner: list[str], outers: list[str], feed: pa.Schema) -> tuple[Statement, list[pa.Field]]:
        by = [agg.WINDOW, *self._keys]
        combined = ", ".join([*by, *(f"{sql} AS __a{i}" for i, sql in enumerate(inner))])
        nested: Sql = lambda name: f"SELECT {combined} FROM {name}{_group_by(by)}"  # noqa: E731
        selected, fields = list(by), [feed.field(k) for k in self._op.keys]
        relation = Relation(-1, feed, feed, nested)
        for expression, (name, _), outer in zip(self._expressions, self._op.aggregates, outers, strict=True):
            kind = self._c.type_of(relation, outer, expression)
            cast, arrow = self._c.column(kind, expression)
            selected.append(f"CAST({outer} AS {cast}) AS {q(name)}")
            fields.append(pa.field(name, arrow))
        columns = ", ".join(selected)
        sql: Sql = lambda name: f"SELECT {columns} FROM ({nested(name)}){_order_by(by)}"  # noqa: E731
        return self._c.statement(sql, feed, self._where), fields

    def _rank(self, partial: pa.Schema) -> Statement | None:
        if not self._op.keys:
            return None
        schema = pa.schema([*(partial.field(k) for k in self._op.keys), (agg.POSITION, _INT)])
        over = _order_by(self._keys)
        sql: Sql = lambda feed: f"SELECT {agg.POSITION}, dense_rank() OVER ({over}) - 1 FROM {feed}"  # noqa: E731
        return self._c.statement(sql, schema, self._where)

    @property
    def _where(self) -> str:
        return f"window of {self._c.label}"


def _group_by(columns: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(columns)}" if columns else ""


def _order_by(columns: Sequence[str]) -> str:
    return " ORDER BY " + ", ".join(f"{k} ASC NULLS LAST" for k in columns)
