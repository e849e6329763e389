"""Rows by which functions are tried when there are none of the user's: always the same ones, of every column type."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START
from borealis_py.types.arrow import type_of

ROWS = 48
FIRST_US = 1_767_225_600_000_000
"""2026-01-01, in microseconds since 1970."""
_SPAN_US = 100_000

_Make = Callable[[random.Random], Any]
_PLAIN: dict[str, _Make] = {
    "string": lambda r: r.choice(["a", "b", "tea", "rum", "12", "3.5", "2026-01-02", "x-1", "user@example.org"]),
    "int64": lambda r: r.randrange(1, 100),
    "double": lambda r: r.choice([0.1, 0.5, 1.0, 3.3, 12.25, 99.9]) * r.randrange(1, 7),
    "bool": lambda r: r.random() < 0.5,
    "timestamp": lambda r: datetime(2026, 1, 1) + timedelta(microseconds=r.randrange(10**13)),
    "date": lambda r: date(2026, 1, 1) + timedelta(days=r.randrange(300)),
    "binary": lambda r: bytes(r.randrange(256) for _ in range(r.randrange(1, 5))),
    "json": lambda r: f'{{"a":{r.randrange(9)}}}',
}
_ODD: dict[str, list[Any]] = {
    "string": ["", "\u00e9", "A\n", " ", "null", "-1", "\U0001fae8", "0" * 40],
    "int64": [0, -1, 2**31, -(2**53) - 1, 2**63 - 1, -(2**63)],
    "double": [0.0, -0.0, -1.5, 1e16, 1e-300, 1e300, float("nan"), float("inf")],
    "bool": [True],
    "timestamp": [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(9999, 12, 31)],
    "date": [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)],
    "binary": [b"", b"\0", b"\xff\xfe"],
    "json": ["[]", "1.10", '"\u00e9"'],
}


def rows(schema: pa.Schema, odd: bool) -> pa.RecordBatch:
    """Rows of one bucket, in order. `odd`: with nulls and values at the ends of each type; else ordinary ones."""
    chance = random.Random(7)
    columns = [_column(field, odd, chance) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(field: pa.Field, odd: bool, chance: random.Random) -> pa.Array:
    if field.name == STIME:
        return pa.array(FIRST_US + np.sort([chance.randrange(_SPAN_US) for _ in range(ROWS)]))
    if field.name in (WINDOW_START, WINDOW_END):
        return pa.array([FIRST_US + (_SPAN_US if field.name == WINDOW_END else 0)] * ROWS)
    values = [_value(field.type, odd, chance) for _ in range(ROWS)]
    if field.type == pa.json_():
        return pa.ExtensionArray.from_storage(field.type, pa.array(values, pa.string()))
    return pa.array(values, field.type)


def _value(arrow: pa.DataType, odd: bool, chance: random.Random) -> Any:
    kind = type_of(arrow)
    if odd and chance.random() < 0.2:
        return None
    if kind is None:
        return [_value(arrow.value_type, odd, chance) for _ in range(chance.randrange(4))]
    if kind.kind == "decimal":
        digits = kind.precision if odd else min(kind.precision, kind.scale + 2)
        return Decimal(chance.randrange(10**digits) * (-1 if odd and chance.random() < 0.5 else 1)).scaleb(-kind.scale)
    if odd and chance.random() < 0.4:
        return chance.choice(_ODD[kind.kind])
    return _PLAIN[kind.kind](chance)
