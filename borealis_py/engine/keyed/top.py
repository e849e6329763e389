"""Compiles a plan's top to a window operator: the first rows of each group of a window, in an order, ranked.

A window's first rows are among the first ones of its buckets, so only those are kept. What they are ordered by is
computed once, with each row; its values are kept beside the row. Rows that are equal in it are in total order: a
bucket's rows are kept in that order, and buckets follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from borealis_py.engine.keyed.build import is_key
from borealis_py.engine.operators import aggregates as agg
from borealis_py.engine.operators.base import WindowOperator
from borealis_py.engine.operators.windows import numbering, windows_of
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.engine.sql.expressions import ExpressionPlace, OrderTerm, parse_order, sql_of
from borealis_py.engine.sql.statements import Relation, Sql, StatementCompiler, part_of, q
from borealis_py.query.bykey import RANK
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START
from borealis_py.query.plan import TopOp

_INT = pa.int64()


class TopCompiler:
    """Compiles one top."""

    def __init__(self, compiler: StatementCompiler, op: TopOp, source: Relation) -> None:
        self._c = compiler
        self._op = op
        self._source = source
        self._keys = [q(key) for key in op.keys]
        self._columns = [name for name in source.schema.names if name != STIME]

    def build(self) -> WindowOperator:
        """Raises QueryError."""
        c, op = self._c, self._op
        orders = parse_order(op.by, ExpressionPlace(c.label, "top()", self._source.columns))
        values, fields = zip(*(self._value(order) for order in orders), strict=True)
        directions = [order.direction for order in orders]
        collect = self._collect(orders, values, directions)
        kept = [self._source.schema.field(name) for name in self._columns]
        partial = pa.schema([*kept, *(pa.field(_by(n), kind) for n, kind in enumerate(fields))])
        feed = pa.schema([pa.field(agg.WINDOW, _INT), *partial, pa.field(agg.POSITION, _INT)])
        return windows_of(c, op, self._source)(
            columns=tuple(partial.names),
            collect=collect,
            close=self._close(feed, directions),
            rank=numbering(c, op.keys, partial, self._where),
            positions=True,
            partial_schema=partial,
            schema=pa.schema([(WINDOW_START, _INT), (WINDOW_END, _INT), *kept, (RANK, _INT), (STIME, _INT)]),
        )

    def _value(self, order: OrderTerm) -> tuple[str, pa.DataType]:
        """What a row is ordered by, as SQL, and its type."""
        expression = order.expression
        sql = sql_of(expression)
        cast, kind = self._c.column(self._c.type_of(self._source, sql, expression), expression)
        if not is_key(kind):
            raise expression.error("an order is by single values, not by lists")
        guarded = sql_of(self._c.guarded(self._source, expression))
        self._c.probe(self._source, guarded, expression)
        return f"CAST({guarded} AS {cast})", kind

    def _collect(self, orders: Sequence[OrderTerm], values: Sequence[str], directions: Sequence[str]) -> Statement:
        """The first rows of each bucket and group, in total order: the engine scans and numbers rows in theirs."""
        width = self._c.app.bucket_us
        names = ", ".join([agg.BUCKET, *map(q, self._columns), *(_by(n) for n in range(len(values)))])
        computed = ", ".join(f"{sql} AS {_by(n)}" for n, sql in enumerate(values))
        bucketed: Sql = lambda feed: (  # noqa: E731
            f"SELECT {q(STIME)} // {width} AS {agg.BUCKET}, *, {computed}, row_number() OVER () AS {agg.POSITION} "
            f"FROM ({self._source.select(feed)})"
        )
        place = self._placed(agg.BUCKET, directions)
        sql: Sql = lambda feed: (  # noqa: E731
            f"SELECT {names} FROM (SELECT *, {place} AS {_PLACE} FROM ({bucketed(feed)})) "
            f"WHERE {_PLACE} <= {self._op.limit} ORDER BY {agg.POSITION}"
        )
        parts = [part_of(order.expression, value) for order, value in zip(orders, values, strict=True)]
        stages = (*self._source.stages, self._source.stage(parts))
        return self._c.statement(sql, self._source.base, self._where, partial=True, stages=stages)

    def _close(self, feed: pa.Schema, directions: Sequence[str]) -> Statement:
        names = ", ".join([agg.WINDOW, *map(q, self._columns), f"{_PLACE} AS {q(RANK)}"])
        place = self._placed(agg.WINDOW, directions)
        by = ", ".join(f"{name} ASC NULLS LAST" for name in (agg.WINDOW, *self._keys, _PLACE))
        sql: Sql = lambda name: (  # noqa: E731
            f"SELECT {names} FROM (SELECT *, {place} AS {_PLACE} FROM {name}) "
            f"WHERE {_PLACE} <= {self._op.limit} ORDER BY {by}"
        )
        return self._c.statement(sql, feed, self._where)

    def _placed(self, group: str, directions: Sequence[str]) -> str:
        """A row's place in its group."""
        by = ", ".join([*(f"{_by(n)} {direction}" for n, direction in enumerate(directions)), agg.POSITION])
        return f"row_number() OVER (PARTITION BY {', '.join([group, *self._keys])} ORDER BY {by})"

    @property
    def _where(self) -> str:
        return f"top of {self._c.label}"


_PLACE = "__place"


def _by(number: int) -> str:
    """The column with the values of the order's expression of this number."""
    return f"__by{number}"
