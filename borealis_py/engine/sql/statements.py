"""Expressions over a relation: typed, probed, guarded, and made into statements. Failures become
errors for the user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import duckdb
import pyarrow as pa

from borealis_py.engine.sql.causes import ExpressionStage, NamedExpression
from borealis_py.engine.sql.duck_faults import REFUSALS, first_line
from borealis_py.engine.sql.duck_statement import Duck, Statement
from borealis_py.engine.sql.expressions import Expression, bound, describe
from borealis_py.query.errors import QueryError
from borealis_py.query.spec import AppSpec
from borealis_py.query.wholeness import ALWAYS
from borealis_py.types.arrow import array, column_type, plain_value

Sql = Callable[[str], str]


@dataclass(frozen=True)
class Relation:
    """Rows of operator `slot`, with columns `base`, after a chain of filters and maps, `chain(feed)`, which leaves
    columns `schema`; None where there is no chain. `stages`: the chain's expressions, in their order. `slot` -1: a
    subquery, not an operator."""

    slot: int
    base: pa.Schema
    schema: pa.Schema
    chain: Sql | None = None
    stages: tuple[ExpressionStage, ...] = ()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def stage(self, parts: Sequence[NamedExpression]) -> ExpressionStage:
        """These expressions over its rows."""
        return ExpressionStage(self.select, tuple(parts), {field.name: field.type for field in self.schema})

    def narrowed(self, names: set[str]) -> Relation:
        """These columns of it alone, as a subquery: what expressions over them mean does not depend on the others, and
        binding all columns of a wide relation for each of its expressions would take time by the square of its width.
        """
        if self.slot < 0:
            return self
        fields = [self.schema.field(name) for name in self.columns if name in names]
        schema = pa.schema(fields or [self.schema.field(self.columns[-1])])
        return Relation(-1, schema, schema)

    def select(self, feed: str) -> str:
        return self.chain(feed) if self.chain else f"SELECT * FROM {feed}"


def q(name: str) -> str:
    """A quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


class StatementCompiler:
    """Compiles expressions of one node. `node`: the one whose operator is being compiled, for messages. `whole_us`: of
    that operator, see `query.wholeness.left_out_until`.
    """

    whole_us = ALWAYS

    def __init__(self, app: AppSpec, node: str, duck: Duck) -> None:
        self.app = app
        self.node = node
        self._duck = duck

    @property
    def label(self) -> str:
        return self.app.label(self.node)

    @property
    def row_max_bytes(self) -> int:
        """The largest row of a source or result."""
        return self._duck.row_max_bytes

    @property
    def memory_bytes(self) -> int:
        """The engine's memory limit on this machine."""
        return self._duck.memory_bytes

    def probe(self, source: Relation, sql: str, expression: Expression, group: str = "") -> None:
        """Detect expressions that fail for every row, like `i > 'abc'`: try one row of nulls and
        one of plain values.
        """
        schema = _used(source, expression, group).schema
        errors = []
        for row in (_null_row(schema), _plain_row(schema)):

            def run(connection: duckdb.DuckDBPyConnection, feed: str) -> None:
                connection.execute(f"SELECT {sql} FROM {feed}{group}").fetchall()

            try:
                self._duck.bind(schema, run, row)
                return
            except REFUSALS as exc:
                errors.append(first_line(exc))
        raise expression.error(f"fails for every row: {errors[-1]}")

    def type_of(self, source: Relation, sql: str, expression: Expression, group: str = "") -> str:
        """DuckDB's type of an expression over a relation. Raises the user's QueryError."""
        source = _used(source, expression, group)

        def bind(connection: duckdb.DuckDBPyConnection, feed: str) -> str:
            return describe(connection, f"SELECT {sql} AS c FROM ({source.select(feed)}){group}", expression.error)["c"]

        return self._duck.bind(source.base, bind)

    def types_of(self, source: Relation, selected: Sequence[tuple[str, Expression]]) -> list[str]:
        """The same of several expressions, each with its SQL over the relation, at once."""

        def bind(connection: duckdb.DuckDBPyConnection, feed: str) -> list[str]:
            columns = ", ".join(f"{sql} AS c{n}" for n, (sql, _) in enumerate(selected))
            select = f"SELECT {columns} FROM ({source.select(feed)})"
            return list(describe(connection, select, _Unbound).values())

        try:
            return self._duck.bind(source.base, bind)
        except _Unbound:  # of which expression, that says
            return [self.type_of(source, sql, expression) for sql, expression in selected]

    def guarded(self, source: Relation, expression: Expression, group: str = "") -> Expression:
        """The expression as it runs, with the work that one value can cause bounded, and no value rounded."""
        source = _used(source, expression, group)
        known: dict[tuple[str, bool], str] = {}

        def kind(sql: str, aggregated: bool) -> str:
            if (sql, aggregated) not in known:
                known[sql, aggregated] = self.type_of(source, sql, expression, group if aggregated else "")
            return known[sql, aggregated]

        def plan(sql: str, columns: str, aggregated: bool) -> str:
            def bind(connection: duckdb.DuckDBPyConnection, feed: str) -> str:
                rows = f"SELECT {columns} FROM ({source.select(feed)}){group if aggregated else ''}"
                return bound(connection, f"SELECT {sql} FROM ({rows})", expression.error)

            return self._duck.bind(source.base, bind)

        return expression.guarded(kind, plan)

    def column(self, duck_type: str, expression: Expression) -> tuple[str, pa.DataType]:
        found = column_type(duck_type)
        if found is None:
            raise expression.error(
                f"its type is {duck_type}, which no column has: columns are string, int64, double, bool, decimal, "
                "timestamp, date, binary or json, or lists of them (but of json); CAST it, or take to_json(...) of it"
            )
        return found

    def statement(
        self, sql: Sql, schema: pa.Schema, where: str, partial: bool = False, stages: Sequence[ExpressionStage] = ()
    ) -> Statement:
        try:
            return self._duck.statement(sql, schema, partial, stages)
        except REFUSALS as exc:
            raise QueryError(f"{where}: {first_line(exc)}") from exc


class _Unbound(QueryError):
    """One of several expressions has no type."""


def _used(source: Relation, expression: Expression, group: str) -> Relation:
    """The columns of a relation that an expression and the keys of its groups need."""
    if source.slot < 0:
        return source
    keys = {name for name in source.columns if q(name) in group} if group else set()
    return source.narrowed(expression.columns() | keys)


def part_of(expression: Expression, sql: str) -> NamedExpression:
    """An expression as part of a statement, with its SQL there."""
    used = expression.columns()
    columns = tuple(name for name in expression.place.columns if name in used)
    return NamedExpression(expression.place.where, expression.text, sql, columns)


def _null_row(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema)


def _plain_row(schema: pa.Schema) -> pa.RecordBatch:
    arrays = [array([plain_value(f.type)], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
