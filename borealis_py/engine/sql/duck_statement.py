"""Prepared statements of one connection: a record batch in, a record batch out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import duckdb
import pyarrow as pa
from pyarrow import dataset

from borealis_py.engine.arrow.row_limit import larger
from borealis_py.engine.sql.causes import ExpressionStage, culprit, explained
from borealis_py.engine.sql.duck_connection import MEMORY_BYTES, connect
from borealis_py.engine.sql.duck_faults import REFUSALS, RowError, judged
from borealis_py.protocol.settings import ROW_MAX_BYTES
from borealis_py.types.arrow import JSON, check_range, finished
from borealis_py.types.values import Misfit

T = TypeVar("T")

_BOUND = "bind_feed"
REOPEN_AFTER_CALLS = 20_000
"""A connection grows by up to 2.5 kB per call (measured on 1.5.6), so it is reopened after this many calls."""


class ScanInput(dataset.Dataset):  # type: ignore[misc]
    """The input of a statement: registered once, it supplies the current batch to each scan.

    DuckDB 1.5 reads other Arrow data through the scanner of `pyarrow.dataset`, which reads ahead in threads: 0.4 ms of
    CPU a statement, and where such a thread releases a Python object while the interpreter exits, the process aborts.
    It asks a dataset for a scanner of its own. This one reads in the calling thread. It has nothing else of a dataset.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._empty = self._table = schema.empty_table()

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def set(self, batch: pa.RecordBatch) -> None:
        """Set the next batch. Checks the schema: with another one than registered, DuckDB 1.5 crashes the process."""
        if not batch.schema.equals(self.schema):
            raise TypeError(f"rows of another schema than the statement's: {batch.schema} instead of {self.schema}")
        self._table = pa.Table.from_batches([batch])

    def clear(self) -> None:
        self._table = self._empty

    def scanner(self, columns: list[str] | None = None) -> _Scan:
        """What DuckDB calls. We push no filters down (`connection`)."""
        return _Scan(self._table if columns is None else self._table.select(columns))


class _Scan:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def to_reader(self) -> pa.RecordBatchReader:
        return self._table.to_reader()


class Statement:
    """A prepared query over one input. `output` is the schema of its result."""

    def __init__(
        self,
        duck: Duck,
        number: int,
        sql: Callable[[str], str],
        schema: pa.Schema,
        row_max_bytes: int,
        stages: Sequence[ExpressionStage] = (),
    ) -> None:
        self._duck = duck
        self._stages = stages
        self.row_max_bytes = row_max_bytes
        """Maximum size of a row of the result."""
        self._number = number
        self._sql = sql(f"feed{number}")
        self._feed = ScanInput(schema)
        self.input = schema
        self._execute = f"EXECUTE s{number}"
        self.prepare()
        self.output = self._described()

    def prepare(self) -> None:
        """Prepare it on the current connection. Raises duckdb.Error for invalid SQL."""
        connection = self._duck.connection
        connection.register(f"feed{self._number}", self._feed)
        connection.execute(f"PREPARE s{self._number} AS {self._sql}")

    def _described(self) -> pa.Schema:
        """The schema of its result. The engine returns json as plain text."""
        returned: pa.Schema = self._duck.connection.execute(self._execute).to_arrow_table().schema
        types = [row[1] for row in self._duck.connection.execute(f"DESCRIBE {self._sql}").fetchall()]
        marked = [f.with_type(JSON) if kind == "JSON" else f for f, kind in zip(returned, types, strict=True)]
        return pa.schema(marked)

    def release(self) -> None:
        self._duck.connection.unregister(f"feed{self._number}")

    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Run it and return the result, in which every value is one that its column's type has.

        Raises:
            RowError: an expression rejects a value, or produces one that no column has.
            EngineOutOfMemory: see there. Other faults of the process propagate unchanged.
        """
        self._duck.count()
        self._feed.set(batch)
        try:
            table = self._duck.connection.execute(self._execute).to_arrow_table()
        except Exception as exc:
            raise judged(exc) from exc
        finally:
            self._feed.clear()
        return checked(single_batch(table), self.output, self.row_max_bytes)

    def explained(self, batch: pa.RecordBatch, reason: str) -> str:
        """Why these rows, which fail together, fail: the reason with the expression that does, and what to write."""
        self._feed.set(batch)
        try:
            found = culprit(self._stages, f"feed{self._number}", self._fails)
        finally:
            self._feed.clear()
        return explained(reason, found, batch)

    def _fails(self, select: str) -> bool:
        try:
            table = self._duck.connection.execute(select).to_arrow_table()
            single_batch(table).validate(full=True)
        except (*REFUSALS, pa.ArrowInvalid):
            return True
        return any(_out_of_range(column) for column in single_batch(table).columns)

    def run_afresh(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Run it on a connection that has run nothing before."""
        self._duck.reopen()
        return self.run(batch)


class Duck:
    """The connection of one kernel. Reopened, with its statements prepared again, after `REOPEN_AFTER_CALLS` calls."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES, row_max_bytes: int = ROW_MAX_BYTES) -> None:
        self.memory_bytes = memory_bytes
        self.row_max_bytes = row_max_bytes
        self.connection = connect(memory_bytes)
        self._statements: list[Statement] = []
        self._bound: ScanInput | None = None
        self._calls = 0

    def statement(
        self,
        sql: Callable[[str], str],
        schema: pa.Schema,
        partial: bool = False,
        stages: Sequence[ExpressionStage] = (),
    ) -> Statement:
        """Prepare `sql(relation)`, where the relation holds rows of this schema. Raises duckdb.Error.

        Args:
            partial: its rows are parts of results, which are bounded themselves: each may be larger than a row.
            stages: the expressions that it computes, in their order, to tell which one fails.
        """
        row_max_bytes = sys.maxsize if partial else self.row_max_bytes
        made = Statement(self, len(self._statements), sql, schema, row_max_bytes, stages)
        self._statements.append(made)
        return made

    def bind(
        self,
        schema: pa.Schema,
        use: Callable[[duckdb.DuckDBPyConnection, str], T],
        rows: pa.RecordBatch | None = None,
    ) -> T:
        """Call `use` with the connection and the name of a relation of this schema, which has these rows meanwhile."""
        if self._bound is None or not self._bound.schema.equals(schema):
            self._unbind()
            self._bound = ScanInput(schema)
            self.connection.register(_BOUND, self._bound)
        if rows is not None:
            self._bound.set(rows)
        try:
            return use(self.connection, _BOUND)
        finally:
            self._bound.clear()

    def _unbind(self) -> None:
        if self._bound is not None:
            self.connection.unregister(_BOUND)
            self._bound = None

    def count(self) -> None:
        self._calls += 1
        if self._calls >= REOPEN_AFTER_CALLS:
            self.reopen()

    def reopen(self) -> None:
        self.close()
        self.connection = connect(self.memory_bytes)
        self._calls = 0
        for statement in self._statements:
            statement.prepare()

    def close(self) -> None:
        self._unbind()
        for statement in self._statements:
            statement.release()
        self.connection.close()


def checked(batch: pa.RecordBatch, schema: pa.Schema, row_max_bytes: int) -> pa.RecordBatch:
    """Check a result, and give it its schema: the engine returns text and sums of decimals unchecked, and invalid UTF-8
    would end whoever decodes it. Rows too large for any record would, too. Raises RowError.
    """
    try:
        batch.validate(full=True)
        batch = finished(batch, schema)
    except pa.ArrowInvalid as exc:
        raise RowError(_invalid(batch), True) from exc
    except Misfit as exc:
        raise RowError(f"the result has {exc}", True) from exc
    if (how := larger(batch, row_max_bytes)) is not None:
        raise RowError(f"a row of the result is larger than row_max, {row_max_bytes} bytes: {how}", True)
    return batch


def _out_of_range(column: pa.Array) -> bool:
    try:
        check_range(column, column.type)
    except Misfit:
        return True
    return False


def _invalid(batch: pa.RecordBatch) -> str:
    for column in batch.columns:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            if pa.types.is_decimal(column.type):
                return f"the result is a decimal of more than {column.type.precision} digits"
    return "the result is not valid UTF-8"


def single_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one contiguous batch, even if it has no rows."""
    batches = table.to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches) if batches else empty(table.schema)


def empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
