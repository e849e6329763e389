"""The times of rows of a foreign topic by an SQL expression over their columns, which are in no query yet."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.engine.operators.base import dead_letter_values, readable
from borealis_py.engine.operators.poison_rows import isolate_bad_rows
from borealis_py.engine.sql.duck_connection import MEMORY_BYTES
from borealis_py.engine.sql.duck_statement import Duck
from borealis_py.engine.sql.expressions import ExpressionPlace, parse, sql_of
from borealis_py.engine.sql.statements import Relation, part_of
from borealis_py.ingress.column_times import ColumnTimes, Int64s
from borealis_py.ingress.heartbeat import RowCompiler
from borealis_py.query.names import STIME
from borealis_py.query.times import NoTime, TimeForm
from borealis_py.types.arrow import spelled

_SHOWN = 60
"""How much of a value a reason shows."""


class SqlTimes:
    """Compiles an expression with the same checks and bounds as a query's. Not thread-safe.

    Args:
        columns: with their types. text: the SQL expression; it gives a timestamp or a date.
        owner: whose it is, for messages.
        memory_bytes: memory limit of the engine; 0: its default.

    Raises:
        QueryError: it is no such expression over these columns.
    """

    def __init__(self, columns: Mapping[str, str], text: str, owner: str, memory_bytes: int = 0) -> None:
        schema: pa.Schema = segment_schema(columns)
        schema = schema.remove(schema.get_field_index(STIME))
        self._text = text.strip()
        self._times = ColumnTimes(None, TimeForm())
        self._duck = Duck(memory_bytes or MEMORY_BYTES)
        try:
            compiler, rows = RowCompiler(owner, self._duck), Relation(0, schema, schema)
            expression = parse(text, ExpressionPlace(owner, "stime_sql", rows.columns), aggregate=False)
            cast, kind = compiler.column(compiler.type_of(rows, sql_of(expression), expression), expression)
            if not pa.types.is_timestamp(kind) and not pa.types.is_date32(kind):
                raise expression.error(
                    f"a row's time is a timestamp or a date, this is {spelled(kind)}: write CAST(... AS TIMESTAMP) or "
                    "strptime(..., format) of text, make_timestamp(...) of microseconds, epoch_ms(...) of milliseconds"
                )
            guarded = sql_of(compiler.guarded(rows, expression))
            compiler.probe(rows, guarded, expression)
            sql = f"CAST({guarded} AS {cast})"
            stage = rows.stage([part_of(expression, sql)])
            self._statement = compiler.statement(
                lambda feed: f"SELECT {sql} AS told FROM {feed}", schema, owner, stages=(stage,)
            )
            self._columns = [name for name in schema.names if name in expression.columns()]
        except BaseException:
            self._duck.close()
            raise

    def of(self, rows: pa.RecordBatch) -> tuple[Int64s, dict[int, NoTime]]:
        """The time of each row in microseconds since 1970, 0 where it has none; and why, in ascending order.

        Raises:
            EngineOutOfMemory: the rows need more memory than the engine may take.
        """
        stimes = np.zeros(rows.num_rows, np.int64)
        if not rows.num_rows:
            return stimes, {}
        found, bad = isolate_bad_rows(self._statement, rows)
        why = {row: NoTime(f"stime: {reason}") for row, reason in bad.items()}
        if found is not None:
            good = np.flatnonzero(~np.isin(np.arange(rows.num_rows), list(bad)))
            stimes[good], others = self._times.of(found.column(0))
            why |= {int(good[i]): self._named(rows, int(good[i]), one) for i, one in others.items()}
        return stimes, dict(sorted(why.items()))

    def _named(self, rows: pa.RecordBatch, row: int, why: NoTime) -> NoTime:
        values = dead_letter_values(rows.select(self._columns), row)
        told = ", ".join(f"{name}={_short(readable(value))}" for name, value in values.items())
        given = f" with {told}" if told else ""
        return NoTime(
            f"{why}: stime_sql={_short(self._text)!r}{given}; correct the record, or write coalesce(..., another time) "
            "in it"
        )

    def close(self) -> None:
        """Release the engine's memory."""
        self._duck.close()


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def check_times(columns: Mapping[str, str], text: str, owner: str) -> None:
    """Raises QueryError if it is no expression that gives a time over these columns."""
    SqlTimes(columns, text, owner).close()
