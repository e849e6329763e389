"""Avro's values as JSON has them, inside `json` columns: nothing is lost that the schema says of them.

Bytes are base64, decimals text with all their digits, times and dates ISO 8601 in their normal forms. fastavro calls
these readers for single values, so each branch of a union has its own. What JSON cannot have is an `Unwritable` there:
`why_unwritable` finds it, and where it is.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from borealis_py.ingress.formats.connect_schema import LOCAL_TIMES, UNSCALED_BYTES_MAX
from borealis_py.types.values import JSON_LEVELS_MAX

_MARK = "borealis-"
"""Before the name of a reader of ours, as a logical type: no other one is called so."""
_EPOCH = datetime(1970, 1, 1)
_DAY_US = 86_400_000_000
_EXACT = Context(prec=1_000)
_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_OF_UNIT = {"ms": "millis", "us": "micros", "ns": "nanos"}


class Unwritable:
    """A value that JSON cannot have, and why."""

    def __init__(self, why: str) -> None:
        self.why = why


def marked(plain: dict[str, Any], logical: str, scale: int = 0) -> dict[str, Any]:
    """A type whose values are to be such as JSON has.

    Args:
        plain: without what it means. logical, scale: what it means (`AvroType`).
    """
    reader = _reader_of(plain, LOGICAL_OF_CONNECT.get(logical, logical))
    if not reader:
        return plain
    _register()
    return {**plain, "logicalType": _MARK + reader, "scale": scale}


LOGICAL_OF_CONNECT = {name: f"local-timestamp-{_OF_UNIT[unit]}" for name, unit in LOCAL_TIMES.items() if unit}


def _reader_of(plain: Mapping[str, Any], logical: str) -> str:
    kind = plain["type"]
    if kind in ("bytes", "fixed"):
        if logical in ("decimal", "uuid", "duration") and (kind, logical) in _READERS:
            size = {"uuid": 16, "duration": 12}.get(logical)
            return logical if size in (None, plain.get("size")) else "base64"
        return "base64"
    return logical if (kind, logical) in _READERS else ""


def _base64(data: bytes, _: Mapping[str, Any]) -> str:
    return base64.b64encode(data).decode()


def _decimal(data: bytes, schema: Mapping[str, Any]) -> object:
    return _scaled(data, schema["scale"])


def _scaled(data: bytes, scale: int) -> object:
    if len(data) > UNSCALED_BYTES_MAX:
        return Unwritable(f"a decimal of {len(data)} bytes; it has {UNSCALED_BYTES_MAX} at most")
    return f"{Decimal(int.from_bytes(data, signed=True)).scaleb(-scale, _EXACT):f}"


def _variable_decimal(value: Mapping[str, Any], _: Mapping[str, Any]) -> object:
    scale, data = value.get("scale"), value.get("value")
    if not isinstance(scale, int) or not isinstance(data, str) or abs(scale) > 1_000:
        return dict(value)
    return _scaled(base64.b64decode(data), scale)


def _uuid(data: bytes, _: Mapping[str, Any]) -> str:
    return str(UUID(bytes=bytes(data)))


def _duration(data: bytes, _: Mapping[str, Any]) -> dict[str, int]:
    return {
        name: int.from_bytes(data[4 * i : 4 * i + 4], "little") for i, name in enumerate(("months", "days", "millis"))
    }


def _date(days: int, _: Mapping[str, Any]) -> object:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return Unwritable(f"{days} days since 1970 are before the year 1 or after 9999")


def _moment(unit: str, end: str) -> Callable[[int, Mapping[str, Any]], object]:
    per_second = _PER_SECOND[unit]

    def read(number: int, _: Mapping[str, Any]) -> object:
        seconds, rest = divmod(number, per_second)
        try:
            whole = _EPOCH + timedelta(seconds=seconds)
        except OverflowError:
            return Unwritable(f"{number} {unit} since 1970 are before the year 1 or after 9999")
        return f"{whole.isoformat()}.{_fraction(rest, per_second)}{end}"

    return read


def _time(unit: str) -> Callable[[int, Mapping[str, Any]], object]:
    per_second = _PER_SECOND[unit]

    def read(number: int, _: Mapping[str, Any]) -> object:
        if not 0 <= number < 86_400 * per_second:
            return Unwritable(f"{number} {unit} are no time of a day")
        seconds, rest = divmod(number, per_second)
        minutes, second = divmod(seconds, 60)
        return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}.{_fraction(rest, per_second)}"

    return read


def _fraction(rest: int, per_second: int) -> str:
    """Six digits, of nanoseconds nine: none is cut off."""
    digits = len(str(per_second)) - 1
    return f"{rest:0{digits}}".ljust(6, "0")


_READERS: dict[tuple[str, str], Callable[[Any, Mapping[str, Any]], object]] = {
    ("bytes", "base64"): _base64,
    ("fixed", "base64"): _base64,
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("record", "variable-decimal"): _variable_decimal,
    ("fixed", "uuid"): _uuid,
    ("fixed", "duration"): _duration,
    ("int", "date"): _date,
    ("int", "time-millis"): _time("millis"),
    ("long", "time-micros"): _time("micros"),
    **{("long", f"timestamp-{unit}"): _moment(unit, "Z") for unit in _PER_SECOND},
    **{("long", f"local-timestamp-{unit}"): _moment(unit, "") for unit in _PER_SECOND},
}
"""By Avro's type and what it means."""


def _register() -> None:
    """Let fastavro know our readers."""
    from fastavro.read import LOGICAL_READERS  # an extra: loaded by those who need it

    for (kind, logical), read in _READERS.items():
        LOGICAL_READERS.setdefault(f"{kind}-{_MARK}{logical}", _called(read))


def _called(read: Callable[[Any, Mapping[str, Any]], object]) -> Callable[..., object]:
    return lambda data, writer_schema=None, reader_schema=None: read(data, writer_schema)


def why_unwritable(value: object, path: str = "", level: int = 0) -> str:
    """Where in a value JSON cannot have it, and why; "": it can, so far as this looks."""
    where = f"at {path}: " if path else ""
    if isinstance(value, Unwritable):
        return f"{where}{value.why}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where}{value} is not finite, and JSON has no such number"
    if level > JSON_LEVELS_MAX or not isinstance(value, dict | list):
        return ""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner:
        step = f"[{key}]" if isinstance(value, list) else f".{key}" if path else str(key)
        if found := why_unwritable(one, f"{path}{step}", level + 1):
            return found
    return ""
