"""Turns the values of foreign records into rows. One class per format; what they share is in `decoder`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
import pyarrow as pa

from borealis_py.engine.rows import segment_schema

_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_JSON: Mapping[str, Any] = {"string": str | None, "int64": _INT64 | None, "double": float | None, "bool": bool | None}
_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for foreign bytes: invalid UTF-8 and deep nesting raise no msgspec error."""


class FormatRows(NamedTuple):
    """What a format makes of some values: `rows`, the position of each row's value (`at`, ascending), and (position,
    reason) of each value that is no row (`bad`, ascending)."""

    rows: pa.RecordBatch
    at: Sequence[int]
    bad: list[tuple[int, str]]


class RecordFormat(Protocol):
    """How a topic's values say rows."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """Decode values together. A bad one costs only itself, and never raises."""


class JsonFormat:
    """One JSON object a value. Fields that no column names are ignored, missing ones are null, and an integer is a
    valid double; any other difference from the schema makes the value bad."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        # f0, f1, ...: a column's name may be invalid as a Python attribute
        fields = [(f"f{i}", _JSON[kind], None) for i, kind in enumerate(columns.values())]
        rename = {f"f{i}": name for i, name in enumerate(columns)}
        row = msgspec.defstruct("TopicRow", fields, rename=rename, gc=False)
        self._decode = msgspec.json.Decoder(row).decode
        self._getters = [attrgetter(name) for name, _, _ in fields]

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        try:
            objects = list(map(self._decode, values))
        except _BAD:
            return self._one_by_one(values)
        return FormatRows(self._batch(objects), range(len(values)), [])

    def _one_by_one(self, values: Sequence[bytes]) -> FormatRows:
        objects, at, bad = [], [], []
        for i, value in enumerate(values):
            try:
                objects.append(self._decode(value))
                at.append(i)
            except _BAD as exc:
                bad.append((i, _reason(exc)))
        return FormatRows(self._batch(objects), at, bad)

    def _batch(self, objects: Sequence[Any]) -> pa.RecordBatch:
        pairs = zip(self._getters, self.schema, strict=True)
        arrays = [pa.array(list(map(get, objects)), field.type) for get, field in pairs]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _reason(error: Exception) -> str:
    """A decoder's message, with the column named first."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        text, _, path = str(error).partition(" - at `$.")
        return f"column {path.rstrip('`')!r}: {text}" if path else text
    return f"not JSON: {error}"
