"""Which records of a foreign topic are heartbeat records: a condition over rows that are in no query yet."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.engine.sql.duck_connection import MEMORY_BYTES
from borealis_py.engine.sql.duck_faults import RowError
from borealis_py.engine.sql.duck_statement import Duck
from borealis_py.engine.sql.expressions import ExpressionPlace, parse, sql_of
from borealis_py.engine.sql.statements import Relation, StatementCompiler
from borealis_py.query.names import STIME
from borealis_py.query.spec import AppSpec


class RowCompiler(StatementCompiler):
    """Compiles expressions over rows that are in no query yet. `owner`: whose they are, for messages."""

    def __init__(self, owner: str, duck: Duck) -> None:
        super().__init__(AppSpec(name="none", bucket_us=1, sources={}, queries={}), "", duck)
        self._owner = owner

    @property
    def label(self) -> str:
        return self._owner


class RowCondition:
    """Compiles a condition with the same checks and bounds as a query's filter. Not thread-safe.

    Args:
        columns: with their types. text: the SQL condition.
        owner, where: whose it is, and which argument, for messages.
        memory_bytes: memory limit of the engine; 0: its default.

    Raises:
        QueryError: it is no condition over these columns.
    """

    def __init__(
        self, columns: Mapping[str, str], text: str, owner: str, where: str = "heartbeat", memory_bytes: int = 0
    ) -> None:
        schema: pa.Schema = segment_schema(columns)
        schema = schema.remove(schema.get_field_index(STIME))
        self._duck = Duck(memory_bytes or MEMORY_BYTES)
        try:
            compiler, rows = RowCompiler(owner, self._duck), Relation(0, schema, schema)
            expression = parse(text, ExpressionPlace(owner, where, rows.columns), aggregate=False)
            kind = compiler.type_of(rows, sql_of(expression), expression)
            if kind != "BOOLEAN":
                raise expression.error(f"it must be true or false, this is {kind}")
            condition = sql_of(compiler.guarded(rows, expression))
            compiler.probe(rows, condition, expression)
            sql = f"SELECT coalesce({condition}, false) AS holds FROM "
            self._statement = compiler.statement(lambda feed: sql + feed, schema, owner)
        except BaseException:
            self._duck.close()
            raise

    def __call__(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Whether it is true of each row; not where it is null, or fails. Raises EngineOutOfMemory."""
        if not rows.num_rows:
            return np.zeros(0, np.bool_)
        try:
            found: npt.NDArray[np.bool_] = self._statement.run(rows).column(0).to_numpy(zero_copy_only=False)
            return found
        except RowError:
            if rows.num_rows == 1:
                return np.zeros(1, np.bool_)
        half = rows.num_rows // 2
        return np.concatenate([self(rows.slice(0, half)), self(rows.slice(half))])

    def close(self) -> None:
        """Release the engine's memory."""
        self._duck.close()


def check_condition(columns: Mapping[str, str], text: str, owner: str) -> None:
    """Raises QueryError if it is no condition over these columns."""
    RowCondition(columns, text, owner).close()
