"""Column types in memory and in the engine: Arrow's type, DuckDB's, sizes, hashes, and what a result may hold.

A timestamp is microseconds in UTC without a time zone's name: of the engine's two kinds only this one has functions
that depend on nothing but the value. A json value is its text, marked as JSON (`arrow.json`), which the engine reads
but does not write: `finished` marks it again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.types.spelling import PRECISION_MAX, ColumnType, parse_type
from borealis_py.types.values import Misfit, Rules, normal_json, rules

JSON = pa.json_()
TIMESTAMP = pa.timestamp("us")
_OF_KIND: dict[str, pa.DataType] = {
    "string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_(),
    "timestamp": TIMESTAMP, "date": pa.date32(), "binary": pa.binary(), "json": JSON,
}  # fmt: skip
_KIND_OF = {arrow: kind for kind, arrow in _OF_KIND.items()}
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = datetime.resolution
_RANGES: dict[pa.DataType, tuple[int, int]] = {
    TIMESTAMP: ((datetime.min - _EPOCH) // _MICROSECOND, (datetime.max - _EPOCH) // _MICROSECOND),
    pa.date32(): ((date.min - _EPOCH.date()).days, (date.max - _EPOCH.date()).days),
}
"""What ISO 8601 can write with four digits for the year; the engine's infinities lie outside."""
_PLAIN_VALUES: dict[str, object] = {
    "string": "1", "int64": 1, "double": 1.0, "bool": True, "decimal": Decimal(0), "timestamp": 1, "date": 1,
    "binary": b"1", "json": "1",
}  # fmt: skip

_INTEGERS = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT",
)  # fmt: skip
_SQL: dict[str, tuple[str, pa.DataType]] = {
    '"NULL"': ("BIGINT", pa.int64()),
    "DOUBLE": ("DOUBLE", pa.float64()),
    "FLOAT": ("DOUBLE", pa.float64()),
    "VARCHAR": ("VARCHAR", pa.string()),
    "BOOLEAN": ("BOOLEAN", pa.bool_()),
    "DATE": ("DATE", pa.date32()),
    "BLOB": ("BLOB", pa.binary()),
    "JSON": ("JSON", JSON),
    **dict.fromkeys(
        ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"),
        ("TIMESTAMP", TIMESTAMP),
    ),
}
_DECIMAL = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")
SUM_DIGITS_MAX = PRECISION_MAX - 10
"""A sum of ten thousand million decimals of so many digits fits a decimal."""


def arrow_type(type_: ColumnType) -> pa.DataType:
    return pa.decimal128(type_.precision, type_.scale) if type_.kind == "decimal" else _OF_KIND[type_.kind]


def arrow_of(spelling: str) -> pa.DataType:
    """Arrow's type of a column type in any spelling. Raises UnknownType."""
    return arrow_type(parse_type(spelling))


def type_of(arrow: pa.DataType) -> ColumnType | None:
    """The column type that lies in Arrow as this; None for a list, which no column type is."""
    if pa.types.is_decimal128(arrow):
        return ColumnType("decimal", arrow.precision, arrow.scale)
    kind = _KIND_OF.get(arrow)
    return None if kind is None else ColumnType(kind)


def spelled(arrow: pa.DataType) -> str:
    """The name of a column's type, for people: "decimal(12,2)", "list of timestamp"."""
    if pa.types.is_list(arrow):
        return f"list of {spelled(arrow.value_type)}"
    type_ = type_of(arrow)
    return str(arrow) if type_ is None else str(type_)


def is_integer(duck_type: str) -> bool:
    return duck_type in _INTEGERS


def column_type(duck_type: str) -> tuple[str, pa.DataType] | None:
    """The column type for an expression of this DuckDB type: (SQL type, Arrow type); None if there is none.

    Integers become BIGINT (a value that does not fit is an error of its row), floats DOUBLE, times of all kinds
    microseconds in UTC. Decimals keep their digits.
    """
    if duck_type.endswith("[]"):
        inner = column_type(duck_type[:-2])
        return (f"{inner[0]}[]", pa.list_(inner[1])) if inner and not _holds_json(inner[1]) else None
    if is_integer(duck_type):
        return "BIGINT", pa.int64()
    if found := _DECIMAL.fullmatch(duck_type):
        return duck_type, pa.decimal128(int(found[1]), int(found[2]))
    return _SQL.get(duck_type)


def decimal_digits(duck_type: str) -> int:
    """The precision of a DuckDB type that is a decimal; 0 for any other."""
    found = _DECIMAL.fullmatch(duck_type)
    return 0 if found is None else int(found[1])


def plain_value(arrow: pa.DataType) -> object:
    """Some value of a column, by which expressions are tried."""
    type_ = type_of(arrow)
    return [] if type_ is None else _PLAIN_VALUES[type_.kind]


def stored(column: pa.Array) -> pa.Array:
    """The column as Arrow's functions take it: a json value as its text."""
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def array(values: Sequence[object], arrow: pa.DataType) -> pa.Array:
    """A column of Python values."""
    return pa.array(values, arrow)


def finished(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """What the engine returned as columns of this schema, json marked and in its normal form.

    Raises:
        Misfit: a value that its column type does not have: a time that ISO 8601 cannot write, infinity among them, or
            text marked as JSON that is none.
    """
    columns = [_finished(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _finished(column: pa.Array, field: pa.Field) -> pa.Array:
    if field.type == JSON:
        return json_column(stored(column).to_pylist())
    check_range(column, field.type)
    return column


def json_column(texts: Sequence[str | None]) -> pa.Array:
    """A json column of these texts, in their normal form; the json null is null. Raises Misfit."""
    forms = (None if text is None else normal_json(text.encode()).decode() for text in texts)
    made = [None if form == "null" else form for form in forms]
    return pa.ExtensionArray.from_storage(JSON, pa.array(made, pa.string()))


def check_range(column: pa.Array, arrow: pa.DataType) -> None:
    """Check that ISO 8601 can write the times of a column, or of its lists. Raises Misfit."""
    if pa.types.is_list(arrow):
        check_range(column.flatten(), arrow.value_type)
    elif (bounds := _RANGES.get(arrow)) is not None and (outside := _outside(column, *bounds)) is not None:
        what = "timestamp" if arrow == TIMESTAMP else "date"
        raise Misfit(f"a {what} before the year 1 or after 9999, or infinity ({outside} since 1970)")


def _outside(column: pa.Array, low: int, high: int) -> int | None:
    numbers = column.view(pa.int64() if column.type == TIMESTAMP else pa.int32())
    ends = pc.min_max(numbers).as_py()
    return next((end for end in (ends["min"], ends["max"]) if end is not None and not low <= end <= high), None)


def misfits(column: pa.Array) -> dict[int, str]:
    """Index and reason of the values that its column type does not have, in a column that another process wrote."""
    found: dict[int, str] = {}
    if column.type == JSON:
        for at, text in enumerate(stored(column).to_pylist()):
            try:
                if text == "null" or (text is not None and normal_json(text.encode()) != text.encode()):
                    found[at] = "a json value that is not in its normal form"
            except Misfit as exc:
                found[at] = str(exc)
        return found
    try:
        check_range(column, column.type)
    except Misfit:
        for at in range(len(column)):
            try:
                check_range(column.slice(at, 1), column.type)
            except Misfit as exc:
                found[at] = str(exc)
    return found


def said(column: pa.Array) -> list[Any]:
    """The column's values in their normal form in JSON, for a JSON encoder."""
    values = stored(column).to_pylist()
    say = _sayer(column.type)
    return values if say is None else [None if value is None else say(value) for value in values]


def _sayer(arrow: pa.DataType) -> Callable[[Any], Any] | None:
    if pa.types.is_list(arrow):
        inner = _sayer(arrow.value_type)
        return None if inner is None else lambda values: [None if v is None else inner(v) for v in values]
    rule = rules_of(arrow)
    return None if rule is None else rule.said


def shown(column: pa.Array) -> list[Any]:
    """The column's values as a reader of their JSON gets them; NaN and infinities stay."""
    return [msgspec.json.decode(form) if isinstance(form, msgspec.Raw) else form for form in said(column)]


def rules_of(arrow: pa.DataType) -> Rules | None:
    type_ = type_of(arrow)
    return None if type_ is None else rules(type_)


def sizes(column: pa.Array) -> np.ndarray:
    """Size of each value in bytes: that of its text or bytes, 16 for a decimal, else 8. A list has 8, and the size of
    each element, where texts and bytes have 8 more than their content: a list of empty texts grows with its length.
    """
    column = stored(column)
    if _has_content(column.type):
        lengths = pc.fill_null(pc.binary_length(column), 0)
        return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    if pa.types.is_list(column.type):
        inner = column.flatten()  # nothing of what may lie under a null
        each = sizes(inner) + (8 if _has_content(inner.type) else 0)
        ends = np.concatenate([[0], np.cumsum(each)])
        last = np.cumsum(np.asarray(column.value_lengths().fill_null(0), dtype=np.int64))
        within: np.ndarray = np.diff(ends[last], prepend=0)
        return within + 8
    return np.full(len(column), 16 if pa.types.is_decimal(column.type) else 8, dtype=np.int64)


def _has_content(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow))


def holds_bool(arrow: pa.DataType) -> bool:
    """Whether it is a bool, or a list of such at any depth."""
    return arrow == pa.bool_() or (pa.types.is_list(arrow) and holds_bool(arrow.value_type))


def hash_column(digest: hashlib.blake2b, column: pa.Array) -> None:
    """Add a column's values to a digest, whatever their memory layout."""
    column = stored(column)
    valid = np.asarray(column.is_valid())
    digest.update(np.packbits(valid).tobytes())
    if pa.types.is_list(column.type):
        lengths = np.asarray(column.value_lengths().fill_null(0), dtype=np.int64)
        digest.update(lengths.tobytes())
        hash_column(digest, column.flatten())
    elif pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        values = [v.encode() if isinstance(v, str) else v for v in column.to_pylist() if v is not None]
        digest.update(np.array([len(v) for v in values], dtype=np.int64).tobytes())
        digest.update(b"".join(values))
    elif pa.types.is_decimal(column.type):
        digest.update(",".join(str(v) for v in column.to_pylist() if v is not None).encode())
    elif pa.types.is_boolean(column.type):
        digest.update(np.packbits(np.asarray(column.fill_null(False))).tobytes())
    elif pa.types.is_floating(column.type):
        doubles = np.asarray(column.fill_null(0.0), dtype=np.float64)
        digest.update(np.where(np.isnan(doubles), np.nan, doubles).tobytes())
    else:
        numbers = column.view(pa.int64()) if column.type == TIMESTAMP else column
        numbers = column.view(pa.int32()) if column.type == pa.date32() else numbers
        digest.update(np.asarray(numbers.fill_null(0), dtype=np.int64).tobytes())


def _holds_json(arrow: pa.DataType) -> bool:
    return arrow == JSON or (pa.types.is_list(arrow) and _holds_json(arrow.value_type))
