"""One JSON object a value."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.ingress.formats.base import NO_PATHS, FormatRows, JsonFields, Paths, names_in
from borealis_py.types.arrow import array
from borealis_py.types.plain_json import PlainDecoder


class JsonFormat(JsonFields):
    """One JSON object a value. Fields that no column names are ignored, missing ones are null, and an integer is a
    valid double; any other difference from the schema makes the value bad. A byte order mark
    before the object says nothing."""

    def __init__(self, columns: Mapping[str, str], paths: Paths = NO_PATHS) -> None:
        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        self._decoder = PlainDecoder(columns, paths)

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        found = self._decoded(values)
        at: Sequence[int] = range(len(found))
        bad: list[tuple[int, str]] = []
        if str in set(map(type, found)):  # seldom: each record is looked at once, without a line of Python
            bad = [(i, row) for i, row in enumerate(found) if isinstance(row, str)]
            at = [i for i, row in enumerate(found) if not isinstance(row, str)]
            found = [found[i] for i in at]
        columns = list(zip(*found, strict=True)) or [()] * len(self.schema)
        arrays = [array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return FormatRows(pa.RecordBatch.from_arrays(arrays, schema=self.schema), at, bad)

    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
        """See `RecordFormat.fields`."""
        return names_in(value, within)

    def _decoded(self, values: Sequence[bytes]) -> list[tuple[object, ...] | str]:
        """The row of each value, or why there is none. Values are looked at for a mark only if one has it: few do."""
        if values and values[0].startswith(BOM_UTF8):
            return self._decoder.rows([value.removeprefix(BOM_UTF8) for value in values])
        found = self._decoder.rows(values)
        if str in set(map(type, found)):
            for i, row in enumerate(found):
                if isinstance(row, str) and values[i].startswith(BOM_UTF8):
                    found[i] = self._decoder.row(values[i].removeprefix(BOM_UTF8))
        return found
