"""Columns that other code made, in a file or as a function's result, as columns of our types with the same values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from borealis_py.types.arrow import json_column, misfits, stored
from borealis_py.types.values import Misfit


def cast(name: str, column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """A column of this type with the same values. `name`: for messages. Raises Misfit."""
    column = stored(column)
    if not _of_one_kind(column.type, arrow):
        raise Misfit(f"column {name!r} is {column.type}, which is no {arrow}: another value could come of it")
    try:
        made = json_column(column.cast(pa.string()).to_pylist()) if arrow == pa.json_() else column.cast(arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, Misfit) as exc:
        raise Misfit(f"column {name!r}: {exc}") from exc
    for number, reason in sorted(misfits(made).items()):
        raise Misfit(f"row {number + 1}, column {name!r}: {reason}")
    if pa.types.is_decimal(column.type) and not made.cast(column.type, safe=False).equals(column):
        raise Misfit(f"column {name!r}: a value has more digits than {arrow} holds")  # Arrow's cast does not notice it
    return made


_KINDS: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]]] = (
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_floating, lambda kind: pa.types.is_floating(kind) or pa.types.is_integer(kind)),
    (pa.types.is_decimal, lambda kind: pa.types.is_decimal(kind) or pa.types.is_integer(kind)),
    (pa.types.is_boolean, pa.types.is_boolean),
    (pa.types.is_timestamp, pa.types.is_timestamp),
    (pa.types.is_date, pa.types.is_date),
    (pa.types.is_binary, lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind)),
)
"""Of a column's type, and of the types in a file that hold the same values."""


def _of_one_kind(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_dictionary(found):
        return _of_one_kind(found.value_type, wanted)
    text = pa.types.is_string(found) or pa.types.is_large_string(found)
    return (
        pa.types.is_null(found)
        or any(of(wanted) and same(found) for of, same in _KINDS)
        or (text and (pa.types.is_string(wanted) or wanted == pa.json_()))
    )
