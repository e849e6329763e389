"""Turns the values of foreign records into rows. One class per format; what they share is in `decoder`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from borealis_py.engine.rows import segment_schema
from borealis_py.types.arrow import array
from borealis_py.types.plain_json import PlainDecoder


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
        self._decoder = PlainDecoder(columns)

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        found = self._decoder.rows(values)
        bad = [(i, row) for i, row in enumerate(found) if isinstance(row, str)]
        good = [row for row in found if not isinstance(row, str)]
        columns = list(zip(*good, strict=True)) or [()] * len(self.schema)
        arrays = [array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        unusable = {i for i, _ in bad}
        at = [i for i in range(len(found)) if i not in unusable] if bad else range(len(found))
        return FormatRows(pa.RecordBatch.from_arrays(arrays, schema=self.schema), at, bad)
