"""Lets DuckDB read Arrow data in the thread that asks for it.

DuckDB 1.5 reads a registered stream through the scanner of `pyarrow.dataset`, which reads ahead in threads of Arrow's
pool: 0.4 ms of CPU for each statement, and a thread that lets go of its last Python object while the process exits
aborts it ("terminate called without an active exception"). Without a filter to push down, columns are all that DuckDB
wants of that scanner, and whoever reads a stream can drop those that it does not need.

DuckDB looks the scanner up once in a process. If somebody has used DuckDB on Arrow data before, it keeps what it found:
slower, and the same rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import dataset


class _Likewise(type):
    """Whatever is a scanner of pyarrow's counts as one of ours."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, dataset.Scanner)


class _PlainScanner(metaclass=_Likewise):
    """What DuckDB calls `pyarrow.dataset.Scanner`."""

    @staticmethod
    def from_batches(source: Any, *args: Any, columns: list[str] | None = None, **options: Any) -> Any:
        if args or options or not isinstance(source, pa.RecordBatchReader):
            return dataset.Scanner.from_batches(source, *args, columns=columns, **options)
        return _Columns(source, columns)


class _Columns:
    """A stream reduced to some of its columns."""

    def __init__(self, source: pa.RecordBatchReader, columns: list[str] | None) -> None:
        self._source, self._columns = source, columns

    def to_reader(self) -> pa.RecordBatchReader:
        schema = self._source.schema
        if self._columns is None or self._columns == schema.names:
            return self._source
        return pa.RecordBatchReader.from_batches(pa.schema([schema.field(c) for c in self._columns]), self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._source:
            yield batch.select(self._columns)


class _PlainDataset(ModuleType):
    """`pyarrow.dataset`, but for its scanner."""

    Scanner = _PlainScanner

    def __getattr__(self, name: str) -> Any:
        return getattr(dataset, name)


class _Empty:
    """Makes DuckDB look the scanner up."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return pa.table({"nothing": []}).__arrow_c_stream__(requested_schema)


def install() -> None:
    """Let this process's DuckDB find that scanner instead of pyarrow's, which everybody else goes on to find."""
    sys.modules[dataset.__name__] = _PlainDataset(dataset.__name__)
    try:
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.register("nothing", _Empty())
    finally:
        sys.modules[dataset.__name__] = dataset
