"""Expressions over a relation: typed, probed, guarded, and made into statements. Failures become
errors for the user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from borealis_py.engine.duck.faults import REFUSALS, first_line
from borealis_py.engine.duck.statement import Duck, Statement, with_feed
from borealis_py.engine.expressions import Expression, bound, describe
from borealis_py.query.errors import QueryError
from borealis_py.query.spec import AppSpec
from borealis_py.types.arrow import array, column_type, plain_value

Sql = Callable[[str], str]


@dataclass(frozen=True)
class Relation:
    """Rows of operator `slot`, with columns `base`, after a chain of filters and maps, `chain(feed)`, which leaves
    columns `schema`; None where there is no chain. `slot` -1: a subquery, not an operator."""

    slot: int
    base: pa.Schema
    schema: pa.Schema
    chain: Sql | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def select(self, feed: str) -> str:
        return self.chain(feed) if self.chain else f"SELECT * FROM {feed}"


def q(name: str) -> str:
    """A quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


class StatementCompiler:
    """Compiles expressions of one node. `node`: the one whose operator is being compiled, for messages."""

    def __init__(self, app: AppSpec, node: str, duck: Duck) -> None:
        self.app, self.node, self._duck = app, node, duck

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
        errors = []
        for row in (_null_row(source.schema), _plain_row(source.schema)):

            def run(connection: duckdb.DuckDBPyConnection, feed: str) -> None:
                connection.execute(f"SELECT {sql} FROM {feed}{group}").fetchall()

            try:
                with_feed(self._duck, source.schema, run, row)
                return
            except REFUSALS as exc:
                errors.append(first_line(exc))
        raise expression.error(f"fails for every row: {errors[-1]}")

    def type_of(self, source: Relation, sql: str, expression: Expression, group: str = "") -> str:
        """DuckDB's type of an expression over a relation. Raises the user's QueryError."""

        def bind(connection: duckdb.DuckDBPyConnection, feed: str) -> str:
            return describe(connection, f"SELECT {sql} AS c FROM ({source.select(feed)}){group}", expression.error)["c"]

        return with_feed(self._duck, source.base, bind)

    def guarded(self, source: Relation, expression: Expression, group: str = "") -> Expression:
        """The expression as it runs, with the work that one value can cause bounded."""

        def kind(sql: str, aggregated: bool) -> str:
            return self.type_of(source, sql, expression, group if aggregated else "")

        def plan(sql: str, columns: str, aggregated: bool) -> str:
            def bind(connection: duckdb.DuckDBPyConnection, feed: str) -> str:
                rows = f"SELECT {columns} FROM ({source.select(feed)}){group if aggregated else ''}"
                return bound(connection, f"SELECT {sql} FROM ({rows})", expression.error)

            return with_feed(self._duck, source.base, bind)

        return expression.guarded(kind, plan)

    def column(self, duck_type: str, expression: Expression) -> tuple[str, pa.DataType]:
        found = column_type(duck_type)
        if found is None:
            raise expression.error(
                f"its type is {duck_type}, which no column has: columns are string, int64, double, bool, decimal, "
                "timestamp, date, binary or json, or lists of them (but of json); CAST it, or take to_json(...) of it"
            )
        return found

    def statement(self, sql: Sql, schema: pa.Schema, where: str, partial: bool = False) -> Statement:
        try:
            return self._duck.statement(sql, schema, partial)
        except REFUSALS as exc:
            raise QueryError(f"{where}: {first_line(exc)}") from exc


def _null_row(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema)


def _plain_row(schema: pa.Schema) -> pa.RecordBatch:
    arrays = [array([plain_value(f.type)], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
