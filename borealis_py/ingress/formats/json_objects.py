"""One JSON object a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from borealis_py.engine.rows import segment_schema
from borealis_py.ingress.formats.base import FormatRows, ImmediateFormat
from borealis_py.types.arrow import array
from borealis_py.types.plain_json import PlainDecoder


class JsonFormat(ImmediateFormat):
    """One JSON object a value. Fields that no column names are ignored, missing ones are null, and an integer is a
    valid double; any other difference from the schema makes the value bad."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        self._decoder = PlainDecoder(columns)

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        found = self._decoder.rows(values)
        at: Sequence[int] = range(len(found))
        bad: list[tuple[int, str]] = []
        if str in set(map(type, found)):  # seldom: each record is looked at once, without a line of Python
            bad = [(i, row) for i, row in enumerate(found) if isinstance(row, str)]
            at = [i for i, row in enumerate(found) if not isinstance(row, str)]
            found = [found[i] for i in at]
        columns = list(zip(*found, strict=True)) or [()] * len(self.schema)
        arrays = [array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return FormatRows(pa.RecordBatch.from_arrays(arrays, schema=self.schema), at, bad)
