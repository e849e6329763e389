"""How Avro's values become columns: which branch of a field's type fits which column type, and what it means there.

Values are what fastavro decodes without logical types: numbers stay numbers, decimals bytes. They become times and
decimals here, a whole column at once where its field has one type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from borealis_py.ingress.formats.avro_json import why_unwritable
from borealis_py.ingress.formats.avro_schema import AvroType
from borealis_py.ingress.formats.connect_schema import LOCAL_TIMES, SCALE_MAX, UNSCALED_BYTES_MAX, local_time
from borealis_py.ingress.formats.fits import INT64_MAX, Fit, by_rules, named, number, raw, text, truth, whole
from borealis_py.types.arrow import TIMESTAMP, arrow_of, check_range
from borealis_py.types.spelling import PRECISION_MAX, parse_type
from borealis_py.types.values import Misfit, rules

UNIT_US = {"timestamp-millis": (1_000, 1), "timestamp-micros": (1, 1), "timestamp-nanos": (1, 1_000)}
"""What a number of a logical type counts: microseconds are it times the first, over the second."""
INTEGERS = ("int", "long")
UUID_BYTES = 16
LOCAL = {"local-timestamp-millis": "ms", "local-timestamp-micros": "us", "local-timestamp-nanos": "ns", **LOCAL_TIMES}
"""Times without a zone, and what their numbers count."""
_EXACT = Context(prec=1_000)
_EPOCH = datetime(1970, 1, 1)
_PLAIN: dict[str, tuple[tuple[str, ...], Callable[[object], object]]] = {
    "string": (("string", "enum"), text), "int64": (INTEGERS, whole), "bool": (("boolean",), truth),
    "double": ((*INTEGERS, "float", "double"), number), "binary": (("bytes", "fixed"), raw),
}  # fmt: skip
"""Of the types that need no rule: Avro's types whose values make a column as they are, and the rule of one value."""


def avro_fit(kind: str, branches: Sequence[AvroType]) -> Fit:
    """The rule of a column of type `kind` for a field that may be any of these."""
    arrow, word = arrow_of(kind), parse_type(kind).kind
    if word == "string" and any(branch.kind == "fixed" and branch.logical == "uuid" for branch in branches):
        return Fit(kind, _uuid)
    if word in _PLAIN:
        kinds, one = _PLAIN[word]
        fits = all(branch.kind in kinds for branch in branches)
        together = _doubles if word == "double" else lambda values: pa.array(values, arrow)
        return Fit(kind, one, together if fits else None)
    only = branches[0] if len(branches) == 1 else None
    if word == "decimal":
        scale = _only(branch.scale for branch in branches if branch.logical == "decimal")
        if len([branch for branch in branches if branch.kind in ("bytes", "fixed")]) > 1 and not _alike(branches):
            scale = None
        variable = any(branch.logical == "variable-decimal" for branch in branches)
        vector = (
            _decimals(scale, arrow) if only is not None and scale is not None and 0 <= scale <= PRECISION_MAX else None
        )
        return Fit(kind, _decimal(kind, scale, variable), vector)
    numbers = [branch for branch in branches if branch.kind in INTEGERS]
    logical = _only(branch.logical for branch in numbers)
    if word == "timestamp":
        unit = None if logical is None else UNIT_US.get(logical)
        local = next((branch.logical for branch in numbers if branch.logical in LOCAL), "")
        return Fit(
            kind, _timestamp(kind, unit, local), _timestamps(*unit) if only is not None and unit is not None else None
        )
    if word == "date":
        return Fit(kind, _date(kind, logical == "date"), _dates if only is not None and logical == "date" else None)
    return Fit(kind, _json(kind))


def _json(kind: str) -> Callable[[object], object]:
    rule = rules(parse_type(kind))
    assert rule is not None

    def one(value: object) -> object:
        try:
            return by_rules(rule, value)
        except Misfit as exc:
            raise Misfit(why_unwritable(value) or str(exc)) from None

    return one


def _uuid(value: object) -> str:
    if isinstance(value, bytes) and len(value) == UUID_BYTES:
        return str(UUID(bytes=value))
    return text(value)


def _doubles(values: Sequence[Any]) -> pa.Array:
    made = pa.array(values, pa.float64())
    if not np.isfinite(np.asarray(made.fill_null(0.0))).all():
        raise Misfit("not finite")
    return made


def _alike(branches: Sequence[AvroType]) -> bool:
    return len({(b.logical, b.scale) for b in branches if b.kind in ("bytes", "fixed")}) == 1


def _only(found: Any) -> Any:
    """The one thing that all say; None: they say nothing, or different things."""
    different = set(found)
    return different.pop() if len(different) == 1 else None


def _decimal(kind: str, scale: int | None, variable: bool) -> Callable[[object], object]:
    rule = rules(parse_type(kind))
    assert rule is not None

    def one(value: object) -> object:
        own = scale
        if variable and isinstance(value, dict):
            own, value = value.get("scale"), value.get("value")
            if not isinstance(own, int) or abs(own) > SCALE_MAX:
                raise Misfit(f"a decimal with {own} digits after the point")
        if not isinstance(value, bytes):
            return by_rules(rule, value)
        if own is None:
            raise Misfit("bytes that the schema does not call a decimal")
        if len(value) > UNSCALED_BYTES_MAX:
            raise Misfit(f"a decimal of {len(value)} bytes")
        return by_rules(rule, Decimal(int.from_bytes(value, signed=True)).scaleb(-own, _EXACT))

    return one


def _decimals(scale: int, arrow: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    told = pa.decimal128(PRECISION_MAX, scale)
    # Arrow's cast to more digits after the point does not notice all numbers that it makes too large for 128 bits.
    limit = 10 ** min(PRECISION_MAX, arrow.precision - arrow.scale + scale)

    def column(values: Sequence[Any]) -> pa.Array:
        numbers = [0 if value is None else int.from_bytes(value, signed=True) for value in values]
        if numbers and not -limit < min(numbers) <= max(numbers) < limit:
            raise Misfit("too many digits")
        data = pa.py_buffer(b"".join(number.to_bytes(16, "little", signed=True) for number in numbers))
        valid = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
        return pa.Array.from_buffers(told, len(numbers), [valid, data]).cast(arrow)

    return column


def _timestamp(kind: str, unit: tuple[int, int] | None, local: str = "") -> Callable[[object], object]:
    rule = rules(parse_type(kind))
    assert rule is not None

    def one(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int):
            if not isinstance(value, str):
                raise Misfit(f"{named(value)} is no timestamp")
            return by_rules(rule, value)
        if unit is None and local:
            raise Misfit(f"{value} is {local_time(local, LOCAL[local])}")
        if unit is None:
            raise Misfit(f"{value} is a number, whose unit the schema does not say: make the column int64")
        try:
            return _EPOCH + timedelta(microseconds=value * unit[0] // unit[1])
        except OverflowError:
            raise Misfit(f"{value} is before the year 1 or after 9999") from None

    return one


def _timestamps(times: int, over: int) -> Callable[[Sequence[Any]], pa.Array]:
    def column(values: Sequence[Any]) -> pa.Array:
        found = pa.array(values, pa.int64())
        told = np.asarray(found.fill_null(0))
        if len(told) and max(abs(int(told.min())), abs(int(told.max()))) > INT64_MAX // times:
            raise Misfit("beyond an int64")
        made = pa.array(told * times // over, mask=~np.asarray(found.is_valid())).cast(TIMESTAMP)
        check_range(made, TIMESTAMP)
        return made

    return column


def _date(kind: str, days: bool) -> Callable[[object], object]:
    rule = rules(parse_type(kind))
    assert rule is not None

    def one(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int):
            if not isinstance(value, str):
                raise Misfit(f"{named(value)} is no date")
            return by_rules(rule, value)
        if not days:
            raise Misfit(f"{value} is a number, which the schema does not call a date")
        try:
            return date(1970, 1, 1) + timedelta(days=value)
        except OverflowError:
            raise Misfit(f"{value} days since 1970 are before the year 1 or after 9999") from None

    return one


def _dates(values: Sequence[Any]) -> pa.Array:
    made = pa.array(values, pa.int32()).cast(pa.date32())
    check_range(made, pa.date32())
    return made
