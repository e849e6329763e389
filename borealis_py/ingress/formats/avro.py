"""Avro's binary encoding of one record a value, without a container: read by the schema of its writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa

from borealis_py.engine.rows import segment_schema
from borealis_py.ingress.formats.avro_fits import avro_fit
from borealis_py.ingress.formats.avro_schema import WriterSchema
from borealis_py.ingress.formats.base import FormatRows, ImmediateFormat, decoded
from borealis_py.ingress.formats.fits import fitted, placed


class AvroFormat(ImmediateFormat):
    """Args:
        text, references: see `WriterSchema`.
        skip: bytes of each value before the record.

    Raises:
        UnusableSchema: records cannot be read by this schema.
        ImportError: fastavro is not installed.
    """

    def __init__(self, columns: Mapping[str, str], text: str, references: Iterable[str] = (), skip: int = 0) -> None:
        from fastavro import schemaless_reader  # an extra: loaded by those who need it

        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        writer = WriterSchema(text, references)
        self._read, self._parsed, self._skip = schemaless_reader, writer.parsed, skip
        self._fields = {
            name: avro_fit(kind, writer.fields[name]) for name, kind in columns.items() if name in writer.fields
        }
        self._fits = list(self._fields.values())
        self._known = pa.schema([self.schema.field(name) for name in self._fields])
        self._absent = [name for name in columns if name not in self._fields]

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        records, at, bad = decoded(self._record, _reason, values)
        columns = [[record[name] for record in records] for name in self._fields]
        rows, good, wrong = fitted(self._known, self._fits, columns) if self._fits else self._nothing(len(records))
        bad |= {at[i]: reason for i, reason in wrong.items()}
        return FormatRows(self._whole(rows), placed(at, good), sorted(bad.items()))

    def _record(self, value: bytes) -> dict[str, Any]:
        source = BytesIO(value)
        source.seek(self._skip)
        record: dict[str, Any] = self._read(source, self._parsed, None)
        if source.tell() != len(value):
            raise ValueError(f"{len(value) - source.tell()} bytes are left after the record")
        return record

    def _nothing(self, count: int) -> tuple[pa.RecordBatch, None, dict[int, str]]:
        """Rows of no column, when the schema has none of them."""
        return pa.RecordBatch.from_arrays([pa.nulls(count)], names=[""]), None, {}

    def _whole(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """With null in the columns that the writer does not have."""
        arrays = [
            pa.nulls(rows.num_rows, field.type) if field.name in self._absent else rows.column(field.name)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _reason(exc: Exception) -> str:
    """Of what fastavro raises: IndexError, UnicodeDecodeError, KeyError, ..."""
    why = "the record ends too early" if isinstance(exc, EOFError) else str(exc) or type(exc).__name__
    return f"not Avro by its schema: {why}"
