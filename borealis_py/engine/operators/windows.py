"""Compiles a plan's window to its operator: partials where its aggregates decompose, else rows; and the statements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from borealis_py.engine.operators import aggregates as agg
from borealis_py.engine.operators import plain_sums as plain
from borealis_py.engine.operators.base import WindowOperator
from borealis_py.engine.operators.grouped_sums import GroupedSums
from borealis_py.engine.operators.window_times import WindowTimes, times_of
from borealis_py.engine.sql.causes import ExpressionStage
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.engine.sql.expressions import Expression, Tree, sql_of, to_sql
from borealis_py.engine.sql.statements import Relation, Sql, StatementCompiler, part_of, q
from borealis_py.engine.sql.zones import NoZone
from borealis_py.query.errors import QueryError
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START, base_name
from borealis_py.query.plan import CountWindowOp, SessionWindowOp, TopOp, WindowApplyOp, WindowOp

_INT = pa.int64()


def windows_of(c: StatementCompiler, op: WindowOp | TopOp, source: Relation) -> partial[WindowOperator]:
    """An operator over these windows of a relation, without what it computes."""
    bucket = c.app.bucket_us
    return partial(
        WindowOperator,
        node=base_name(c.node),
        inputs=(source.slot,),
        times=window_times(c, op),
        width_us=bucket,
        keys=op.keys,
        whole_us=c.whole_us,
    )


def window_times(c: StatementCompiler, op: WindowOp | TopOp | WindowApplyOp) -> WindowTimes:
    """When the windows of an operator begin and end. Raises QueryError."""
    try:
        return times_of(op, c.app.bucket_us)
    except NoZone as exc:
        raise QueryError(f"window of {c.label}: {exc}") from None


def numbering(c: StatementCompiler, keys: Sequence[str], rows: pa.Schema, where: str) -> Statement | None:
    """Numbers the groups of a window's rows by their keys, in the order of its results, as `group_numbers` takes it:
    from the keys, then positions. None: there are no keys.
    """
    if not keys:
        return None
    schema = pa.schema([*(rows.field(key) for key in keys), (agg.POSITION, _INT)])
    over = _order_by([q(key) for key in keys])
    sql: Sql = lambda feed: f"SELECT {agg.POSITION}, dense_rank() OVER ({over}) - 1 FROM {feed}"  # noqa: E731
    return c.statement(sql, schema, where)


class AggregateCompiler:
    """Compiles the aggregates of windows: checks them, and writes the statement that closes windows."""

    def __init__(
        self,
        compiler: StatementCompiler,
        op: WindowOp | CountWindowOp | SessionWindowOp,
        source: Relation,
        expressions: list[Expression],
    ) -> None:
        self._c = compiler
        self._op = op
        self._source = source
        self._expressions = expressions
        self._keys = [q(k) for k in op.keys]
        self._group = _group_by(self._keys)

    def _check(self) -> None:
        """Check the expressions and guard them. Raises QueryError."""
        c = self._c
        for expression in self._expressions:  # the user's own expressions first, so that type errors refer to them
            c.type_of(self._source, sql_of(expression), expression, self._group)
        self._expressions = [c.guarded(self._source, e, self._group) for e in self._expressions]
        for expression in self._expressions:
            c.probe(self._source, sql_of(expression), expression, self._group)

    def _argument_type(self, call: Tree) -> str:
        sql = agg.argument(call)
        return self._c.type_of(self._source, sql, replace(self._expressions[0], tree=call)) if sql else ""

    def _columns(self) -> tuple[str, ...]:
        """The columns that windows computed from rows need; one at least."""
        used = set(self._op.keys).union(*(e.columns() for e in self._expressions))
        return tuple(n for n in self._source.schema.names if n in used) or (STIME,)

    def _close(
        self, inner: list[str], outers: list[str], feed: pa.Schema, windows: Sequence[str] = (agg.WINDOW,)
    ) -> tuple[Statement, list[pa.Field]]:
        """From rows or partials to results, ordered by the first of the columns `windows`, which tell windows apart."""
        by = [*windows, *self._keys]
        combined = ", ".join([*by, *(f"{sql} AS __a{i}" for i, sql in enumerate(inner))])
        nested: Sql = lambda name: f"SELECT {combined} FROM {name}{_group_by(by)}"  # noqa: E731
        selected, fields, ends = list(by), [feed.field(k) for k in self._op.keys], []
        relation = Relation(-1, feed, feed, nested)
        kinds = self._c.types_of(relation, list(zip(outers, self._expressions, strict=True)))
        for expression, (name, _), outer, kind in zip(
            self._expressions, self._op.aggregates, outers, kinds, strict=True
        ):
            cast, arrow = self._c.column(kind, expression)
            ends.append(part_of(expression, f"CAST({outer} AS {cast})"))
            selected.append(f"CAST({outer} AS {cast}) AS {q(name)}")
            fields.append(pa.field(name, arrow))
        stage = ExpressionStage(nested, tuple(ends), self._source.stage(()).types)
        columns, order = ", ".join(selected), _order_by([windows[0], *self._keys])
        sql: Sql = lambda name: f"SELECT {columns} FROM ({nested(name)}){order}"  # noqa: E731
        return self._c.statement(sql, feed, self._where, stages=(stage,)), fields

    def _rank(self, partial: pa.Schema) -> Statement | None:
        return numbering(self._c, self._op.keys, partial, self._where)

    @property
    def _where(self) -> str:
        return f"window of {self._c.label}"


class WindowCompiler(AggregateCompiler):
    """Compiles one window operator: chooses partials or rows, and writes the statements."""

    _op: WindowOp

    def build(self) -> WindowOperator:
        c, op = self._c, self._op
        self._check()
        calls = agg.Calls()
        outers = [calls.outer(e) for e in self._expressions]
        types = [self._argument_type(tree) for tree in calls.trees]
        found = [agg.decompose(tree, kind) for tree, kind in zip(calls.trees, types, strict=True)]
        parts = [d for d in found if d is not None]
        positions = len(parts) != len(found)
        collect: Statement | GroupedSums | None
        columns: tuple[str, ...] = ()
        if positions:
            collect, columns, partial_schema = self._rows()
            inner = [agg.over_rows(tree, kind) for tree, kind in zip(calls.trees, types, strict=True)]
        else:
            collect, inner = self._partials(parts, calls.trees)
            partial_schema = collect.output.remove(0)
        feed_schema = partial_schema.insert(0, pa.field(agg.WINDOW, _INT))
        feed_schema = feed_schema.append(pa.field(agg.POSITION, _INT)) if positions else feed_schema
        statement, fields = self._close(inner, outers, feed_schema)
        close = statement if positions else self._closed(statement, parts, calls.trees)
        schema = pa.schema([(WINDOW_START, _INT), (WINDOW_END, _INT), *fields, (STIME, _INT)])
        return windows_of(c, op, self._source)(
            columns=columns,
            collect=collect,
            close=close,
            rank=self._rank(partial_schema),
            positions=positions,
            partial_schema=partial_schema,
            schema=schema,
        )

    def _partials(self, parts: list[agg.Decomposed], calls: list[Tree]) -> tuple[Statement | GroupedSums, list[str]]:
        by = [agg.BUCKET, *self._keys]
        names = self._partial_names(parts)
        selected = [
            f"{sql} AS {n}"
            for part, of in zip(parts, names, strict=True)
            for sql, n in zip(part.parts, of, strict=True)
        ]
        inner = [part.combine(of) for part, of in zip(parts, names, strict=True)]
        columns, group, order = ", ".join([*by, *selected]), _group_by(by), _order_by(by)
        sql: Sql = lambda feed: f"SELECT {columns} FROM ({self._bucketed(feed)}){group}{order}"  # noqa: E731
        stages = (*self._source.stages, self._collected(calls, parts))
        statement = self._c.statement(sql, self._source.base, self._where, partial=True, stages=stages)
        found = None if self._source.chain else plain.of_rows(calls, self._source.base)
        if found is None or not plain.groups_by(self._op.keys, self._source.base):
            return statement, inner
        return GroupedSums(statement, STIME, self._c.app.bucket_us, self._op.keys, found), inner

    def _collected(self, calls: list[Tree], parts: list[agg.Decomposed]) -> ExpressionStage:
        """The partials of a row, as parts of the expressions that they are of."""
        whole = {to_sql(call): part for call, part in zip(calls, parts, strict=True)}
        found = [
            part_of(expression, sql)
            for expression in self._expressions
            for call in expression.aggregates()
            for sql in whole[to_sql(call)].parts
        ]
        return self._source.stage(found)

    def _partial_names(self, parts: list[agg.Decomposed]) -> list[list[str]]:
        """The names of each call's partials."""
        numbers = itertools.count(1 + len(self._keys))
        return [[f"__p{next(numbers)}" for _ in part.parts] for part in parts]

    def _closed(self, statement: Statement, parts: list[agg.Decomposed], calls: list[Tree]) -> Statement | GroupedSums:
        """What closes windows: sums of our own where each result is an aggregate as it is."""
        names = dict(zip(map(to_sql, calls), self._partial_names(parts), strict=True))
        found = plain.of_partials([e.tree for e in self._expressions], names, statement.input)
        if found is None or not plain.groups_by(self._op.keys, statement.input):
            return statement
        return GroupedSums(statement, agg.WINDOW, 1, self._op.keys, found)

    def _bucketed(self, feed: str) -> str:
        """The window's rows with their bucket as first column."""
        width = self._c.app.bucket_us
        return f"SELECT {q(STIME)} // {width} AS {agg.BUCKET}, * FROM ({self._source.select(feed)})"

    def _rows(self) -> tuple[Statement | None, tuple[str, ...], pa.Schema]:
        columns = self._columns()
        schema = pa.schema([self._source.schema.field(n) for n in columns])
        if self._source.chain is None:
            return None, columns, schema
        selected = ", ".join([agg.BUCKET, *(q(n) for n in columns)])
        sql: Sql = lambda feed: f"SELECT {selected} FROM ({self._bucketed(feed)})"  # noqa: E731
        return self._c.statement(sql, self._source.base, self._where, stages=self._source.stages), columns, schema


def _group_by(columns: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(columns)}" if columns else ""


def _order_by(columns: Sequence[str]) -> str:
    return " ORDER BY " + ", ".join(f"{k} ASC NULLS LAST" for k in columns)
