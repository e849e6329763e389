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
from borealis_py.ingress.formats.fits import rows_of


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
        self._fits = {
            name: avro_fit(kind, writer.fields[name]) for name, kind in columns.items() if name in writer.fields
        }

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        records, at, bad = decoded(self._record, _reason, values)
        columns = [[record[name] for record in records] for name in self._fits]
        return rows_of(self.schema, self._fits, columns, at, bad)

    def _record(self, value: bytes) -> dict[str, Any]:
        source = BytesIO(value)
        source.seek(self._skip)
        record: dict[str, Any] = self._read(source, self._parsed, None)
        if source.tell() != len(value):
            raise ValueError(f"{len(value) - source.tell()} bytes are left after the record")
        return record


def _reason(exc: Exception) -> str:
    """Of what fastavro raises: IndexError, UnicodeDecodeError, KeyError, ..."""
    why = "the record ends too early" if isinstance(exc, EOFError) else str(exc) or type(exc).__name__
    return f"not Avro by its schema: {why}"
