"""Zeroes what lies under nulls.

The engine leaves there whatever its memory held. Encoded as it is, equal rows would differ in bytes from replica to
replica, and a process would write some of its memory into a topic.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

_ZEROS = pa.py_buffer(bytes(32))
"""No type's value is wider."""


def zero_nulls(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with zeros, or no bytes and no elements, under each null. Offsets and slices are gone then."""
    before = rows.columns
    columns = [_zeroed(column) for column in before]
    if all(new is old for new, old in zip(columns, before, strict=True)):
        return rows
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _zeroed(column: pa.Array) -> pa.Array:
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        plain = _zeroed(column.storage)
        return column if plain is column.storage else pa.ExtensionArray.from_storage(kind, plain)
    if pa.types.is_list(kind):
        return _zeroed_lists(column)
    if not column.null_count or pa.types.is_nested(kind) or pa.types.is_null(kind):
        return column
    _, *values = column.fill_null(_zero(kind)).buffers()
    return pa.Array.from_buffers(kind, len(column), [_validity(column), *values], column.null_count)


def _zeroed_lists(column: pa.ListArray) -> pa.Array:
    there = column.flatten()  # without the elements under nulls
    values = _zeroed(there)
    if not column.null_count and values is there:
        return column
    lengths = column.value_lengths().fill_null(0)
    offsets = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), lengths]))
    validity = _validity(column) if column.null_count else None
    buffers = [validity, offsets.buffers()[1]]
    return pa.Array.from_buffers(column.type, len(column), buffers, column.null_count, children=[values])


def _validity(column: pa.Array) -> pa.Buffer:
    return column.is_valid().buffers()[1]


@cache
def _zero(kind: pa.DataType) -> pa.Scalar:
    """0, false or nothing."""
    return pa.Array.from_buffers(kind, 1, [None, *[_ZEROS] * (kind.num_buffers - 1)])[0]
