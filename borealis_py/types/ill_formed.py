"""Values of a batch that another program wrote whose bytes are none of their column's type: text that is not UTF-8,
decimals of too many digits. Arrow writes and reads both without a word."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.types.arrow import stored


def ill_formed(batch: pa.RecordBatch) -> dict[int, str]:
    """Row and reason of each such value, of a row's values the first; nothing, if all are right.

    Raises:
        pa.ArrowInvalid: it cannot be told which bytes are whose: offsets or lengths are wrong.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        if all(map(_in_range, batch.columns)):
            return {}
    found: dict[int, str] = {}
    for name, column in zip(batch.schema.names, map(stored, batch.columns), strict=True):
        plain, why = _as_bytes(column)
        plain.validate(full=True)
        if why:
            for at in _bad(column, 0):
                found.setdefault(at, f"column {name!r}: {why}")
    return found


def _in_range(column: pa.Array) -> bool:
    """Whether a decimal is not the least of 128 bits. It has no absolute value, so Arrow takes it for valid."""
    if not pa.types.is_decimal128(column.type):
        return True
    least = pc.min_max(column)["min"].as_py()
    return least is None or len(least.as_tuple().digits) <= column.type.precision


def _as_bytes(column: pa.Array) -> tuple[pa.Array, str]:
    """The column as one whose values may be any bytes, and what a value of it is that is bad; "": any value is good."""
    kind = column.type
    if pa.types.is_string(kind):
        return _viewed(column, pa.binary()), "text that is not UTF-8"
    if pa.types.is_decimal128(kind):
        return _viewed(column, pa.binary(16)), f"a decimal of more than {kind.precision} digits"
    return column, ""


def _viewed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(column), column.buffers(), column.null_count, column.offset)


def _bad(column: pa.Array, first: int) -> list[int]:
    """Where the bad values of a column are whose layout is right, counted from `first`. Halves without one are looked
    at once."""
    try:
        column.validate(full=True)
        good = _in_range(column)
    except pa.ArrowInvalid:
        good = False
    if good:
        return []
    half = len(column) // 2
    return [first] if not half else _bad(column.slice(0, half), first) + _bad(column.slice(half), first + half)
