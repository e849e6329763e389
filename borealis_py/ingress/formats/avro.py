"""Avro's binary encoding of one record a value, without a container: read by the schema of its writer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa

from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.ingress.formats.avro_fits import avro_fit
from borealis_py.ingress.formats.avro_schema import WriterSchema
from borealis_py.ingress.formats.base import NO_PATHS, FormatRows, ImmediateFormat, Paths, decoded
from borealis_py.ingress.formats.fits import rows_of
from borealis_py.types.spelling import parse_type


class AvroFormat(ImmediateFormat):
    """Args:
        text, references: see `WriterSchema`. paths: of columns that are not the field of their name.
        skip: bytes of each value before the record.

    Raises:
        UnusableSchema: records cannot be read by this schema.
        ImportError: fastavro is not installed.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        text: str,
        references: Iterable[str] = (),
        skip: int = 0,
        paths: Paths = NO_PATHS,
    ) -> None:
        from fastavro import schemaless_reader  # an extra: loaded by those who need it

        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        at = {name: tuple(paths.get(name, (name,))) for name in columns}
        of_json = {path for name, path in at.items() if parse_type(columns[name]).kind == "json"}
        typed = set(at.values()) - of_json
        twice = {path for path in of_json if any(one[: len(path)] == path for one in typed)}
        self._writer = writer = WriterSchema(text, references, of_json - twice)
        self._read = schemaless_reader
        self._parsed = writer.parsed
        self._skip = skip
        self._whole = writer.plain(twice) if twice else None
        """Reads again what is both a json column and has others in it, which need what JSON does not have."""
        self._fits = {
            name: avro_fit(kind, branches)
            for name, kind in columns.items()
            if (branches := writer.field(at[name])) is not None
        }
        self._at = [(at[name], at[name] in twice) for name in self._fits]

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        records, at, bad = decoded(self._record, _reason, values)
        whole = [] if self._whole is None else [self._record_by(self._whole, values[i]) for i in at]
        columns = [
            [one[path[0]] for one in of] if len(path) == 1 else [_within(one, path) for one in of]
            for path, of in ((path, whole if again else records) for path, again in self._at)
        ]
        return rows_of(self.schema, self._fits, columns, at, bad)

    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
        """See `RecordFormat.fields`."""
        return self._writer.names(within)

    def has(self, values: Sequence[bytes], columns: Paths) -> set[str]:
        """See `RecordFormat.has`. All values have the same fields."""
        return super().has(values[:1], columns)

    def _record(self, value: bytes) -> dict[str, Any]:
        return self._record_by(self._parsed, value)

    def _record_by(self, parsed: Any, value: bytes) -> dict[str, Any]:
        source = BytesIO(value)
        source.seek(self._skip)
        record: dict[str, Any] = self._read(source, parsed, None)
        if source.tell() != len(value):
            raise ValueError(f"{len(value) - source.tell()} bytes are left after the record")
        return record


def _within(value: Any, path: Sequence[str]) -> Any:
    """The field at the end of these names; None: an object on the way is missing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _reason(exc: Exception) -> str:
    """Of what fastavro raises: IndexError, UnicodeDecodeError, KeyError, ..."""
    why = "the record ends too early" if isinstance(exc, EOFError) else str(exc) or type(exc).__name__
    return f"not Avro by its schema: {why}"
