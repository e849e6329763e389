"""The whole value as the only column: a line of a log, or bytes that a query takes apart itself."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.ingress.formats.base import FormatRows, ImmediateFormat
from borealis_py.types.explained import not_utf8


class TextFormat(ImmediateFormat):
    """A value is the row's only column: UTF-8 where that is a string, less a byte order mark before it; any bytes where
    it is binary."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        if len(self.schema) != 1:
            raise ValueError(f"text is one column, not {len(self.schema)}")

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        (field,) = self.schema
        column, bad = pa.array(values, pa.binary()), dict[int, str]()
        if pa.types.is_string(field.type) and pc.any(pc.starts_with(column, BOM_UTF8)).as_py():
            values = [value.removeprefix(BOM_UTF8) for value in values]
            column = pa.array(values, pa.binary())
        try:
            made = column.cast(field.type)
        except pa.ArrowInvalid:
            bad = {i: reason for i, value in enumerate(values) if (reason := _not_text(value))}
            column = pa.array([value for i, value in enumerate(values) if i not in bad], pa.binary())
            made = column.cast(field.type)
        at = range(len(values)) if not bad else [i for i in range(len(values)) if i not in bad]
        return FormatRows(pa.RecordBatch.from_arrays([made], schema=self.schema), at, sorted(bad.items()))

    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
        """See `RecordFormat.fields`."""
        names: list[str] = self.schema.names
        return names


def _not_text(value: bytes) -> str:
    try:
        value.decode()
    except UnicodeDecodeError as exc:
        return not_utf8(f"{exc.reason} at byte {exc.start}")
    return ""
