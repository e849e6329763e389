"""How large a row may be where it leaves the kernel: in Arrow, as replicas' topics carry it, and as JSON, as the
corrected stream does. What is larger than `row_max` in either is a dead letter: no record might have room for it.

Most batches are found small enough by the number of their bytes alone, most others by the longest value of each
column. Only rows that might be too large are encoded. Knows no records, topics or brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.engine.arrow.rows import row_sizes
from borealis_py.query.names import STIME
from borealis_py.types.arrow import JSON, holds_bool, said, sizes, stored, type_of

_ESCAPED = 6
"""The most bytes that a byte of text takes in JSON: \\u0000."""
_OF_BITS = 72
"""The same of a byte of Arrow in which values are bits: eight of them."""
_WIDTHS = {"int64": 20, "double": 25, "bool": 8, "timestamp": 34, "date": 16, "string": 8, "json": 8, "binary": 8}
"""The most bytes of a value in JSON or Arrow, whichever has more; of texts and bytes without their content."""
_encode = msgspec.json.Encoder().encode


class RowLimit:
    """How large the rows of one schema may be.

    Args:
        rows: their schema, which may have a column stime: no row as JSON has it.
        bytes_max: `row_max`.
        of: whose rows they are, as reasons name it: "query 'q'".
    """

    def __init__(self, rows: pa.Schema, bytes_max: int, of: str) -> None:
        self._bytes_max = bytes_max
        self._of = of
        self._names = [name for name in rows.names if name != STIME]
        names = sum(len(_encode(name)) + 2 for name in self._names)
        self._least = 10 + names + sum(_width(rows.field(name).type) for name in self._names)
        self._long = [name for name in self._names if _grows(rows.field(name).type)]
        self._factor = _factor(rows.field(name).type for name in self._long)

    def refused(self, rows: pa.RecordBatch) -> dict[int, str]:
        """Position and reason of each row that is too large, in ascending order."""
        if not rows.num_rows or _all_fit(self._content(rows), self._least, self._factor, self._bytes_max):
            return {}
        found = {}
        for at in self._suspects(rows):
            why = self._why(rows.slice(at, 1))
            if why is not None:
                found[at] = why
        return found

    def _content(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [stored(rows.column(name)) for name in self._long]

    def _suspects(self, rows: pa.RecordBatch) -> list[int]:
        """Rows that may be too large."""
        most = np.full(rows.num_rows, self._least, dtype=np.int64)
        for column in self._content(rows):
            most += _most(column)
        found: list[int] = np.flatnonzero(most > self._bytes_max).tolist()
        return found

    def _why(self, row: pa.RecordBatch) -> str | None:
        """Why this one row is too large; None: it is not."""
        as_json = {name: len(_encode(name)) + 2 + _said_bytes(row.column(name)) for name in self._names}
        size = sum(as_json.values()) + 1
        if size > self._bytes_max:
            return self._reason(f"a row of {size} bytes as JSON", as_json)
        in_arrow = {name: int(sizes(row.column(name))[0]) for name in self._names}
        size = sum(in_arrow.values())
        return self._reason(f"a row of {size} bytes in Arrow", in_arrow) if size > self._bytes_max else None

    def _reason(self, row: str, by_column: dict[str, int]) -> str:
        largest = max(by_column, key=by_column.__getitem__)
        return (
            f"{self._of}: {row}, {by_column[largest]} of them in column {largest!r}, row_max is {self._bytes_max}: "
            "select less of it, or raise `timing: row_max`"
        )


def larger(rows: pa.RecordBatch, bytes_max: int) -> str | None:
    """How large the first row is in Arrow that has more than `bytes_max`, and its largest column, in words; None: none
    has.
    """
    least = sum(_width(column.type) for column in rows.columns)
    content = [column for column in map(stored, rows.columns) if _grows(column.type)]
    if _all_fit(content, least, _factor(column.type for column in content), bytes_max):
        return None
    found = row_sizes(rows)
    if int(found.max(initial=0)) <= bytes_max:
        return None
    at = int(np.argmax(found > bytes_max))
    by_column = {name: int(sizes(rows.column(name).slice(at, 1))[0]) for name in rows.schema.names}
    largest = max(by_column, key=by_column.__getitem__)
    return f"it has {found[at]}, {by_column[largest]} of them in column {largest!r}"


def _factor(types: Iterable[pa.DataType]) -> int:
    """The most bytes in JSON of a byte in columns of these types."""
    return _OF_BITS if any(map(holds_bool, types)) else _ESCAPED


def _all_fit(content: Sequence[pa.Array], least: int, factor: int, bytes_max: int) -> bool:
    """Whether no row can be too large: all the content together would fit into one, or the longest of each column."""
    if least + factor * sum(column.nbytes for column in content) <= bytes_max:
        return True
    return least + sum(map(_longest, content)) <= bytes_max


def _grows(arrow: pa.DataType) -> bool:
    """Whether the size of a column's value depends on the value."""
    return arrow == JSON or bool(pa.types.is_list(arrow) or pa.types.is_string(arrow) or pa.types.is_binary(arrow))


def _width(arrow: pa.DataType) -> int:
    """The most bytes of a column's value, in JSON or Arrow, without the content of what has any size."""
    if pa.types.is_list(arrow):
        return 8
    kind = type_of(arrow)
    if kind is None:  # of the engine's own, within a statement
        return _WIDTHS["double"]
    return kind.precision + 16 if kind.kind == "decimal" else _WIDTHS[kind.kind]


def _longest(column: pa.Array) -> int:
    """No value has more bytes of content in JSON or Arrow, as cheaply as that can be told."""
    column = stored(column)
    if pa.types.is_list(column.type):
        inner = column.flatten()
        each = _width(inner.type) + 1 + (_longest(inner) if _grows(inner.type) else 0)
        return each * int(pc.max(pc.list_value_length(column)).as_py() or 0)
    return _ESCAPED * int(pc.max(pc.binary_length(column)).as_py() or 0)


def _most(column: pa.Array) -> np.ndarray:
    """The most bytes of the content of each value, in JSON or Arrow, whichever has more."""
    column = stored(column)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return _ESCAPED * sizes(column)
    inner = column.flatten()
    content = _most(inner) if _grows(inner.type) else np.zeros(len(inner), dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(content + _width(inner.type) + 1)])
    last = np.cumsum(np.asarray(column.value_lengths().fill_null(0), dtype=np.int64))
    within: np.ndarray = np.diff(ends[last], prepend=0)
    return within


def _said_bytes(column: pa.Array) -> int:
    """The bytes of the JSON of a column's only value."""
    return len(_encode(said(column)[0]))
