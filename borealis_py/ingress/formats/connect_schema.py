"""Kafka Connect's schema beside a record in JSON: what its fields are, where their text alone does not tell.

Connect writes bytes as base64, and a decimal as the bytes of its digits. "1234" may be that, or a number: only the
schema in the record tells. Knows no Arrow.
"""

from __future__ import annotations

import base64
import binascii
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Context, Decimal
from typing import Any

import msgspec

from borealis_py.types.repeated import Names, repeated_within
from borealis_py.types.values import Misfit, short

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
"""An object: the digits after the point (`scale`), and the bytes (`value`)."""
DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
"""Numbers of days since 1970."""
LOCAL_TIMES: Mapping[str, str] = {
    "io.debezium.time.Timestamp": "ms", "io.debezium.time.MicroTimestamp": "us", "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms", "io.debezium.time.IsoTimestamp": "",
}  # fmt: skip
"""What Debezium makes of a time without a zone, and what its number counts; one with a zone becomes text."""
UNSCALED_BYTES_MAX = 64
"""Longer decimals are none: the digits of a column fit 16 bytes."""
SCALE_MAX = 1_000
"""Digits after the point of a decimal: far more than any column has, and few enough to compute with exactly."""
LEVELS_MAX = 20
"""How deeply a schema is looked into; of what is deeper it says nothing."""
_EXACT = Context(prec=1_000)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NULL = b"null"
_ONCE = Names(["scale", "value"])
_text = msgspec.json.Decoder(str).decode
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

Reading = Callable[[msgspec.Raw], msgspec.Raw]
"""Makes a value that a column's type reads of one that Connect wrote. Raises Misfit."""


@dataclass(frozen=True, slots=True)
class ConnectType:
    """The type of a field.

    Attributes:
        kind: "int32", "bytes", "struct", ...
        name: what it means; "": nothing more.
        scale, precision: of a decimal, digits after the point and in all; None: the schema does not say it.
        fields: of a struct. items: of an array's items, or a map's values.
    """

    kind: str
    name: str = ""
    scale: int | None = None
    precision: int | None = None
    fields: Mapping[str, ConnectType] = field(default_factory=dict)
    items: ConnectType | None = None

    @property
    def is_decimal(self) -> bool:
        """Whether its values are bytes, or an object with bytes, of a number's digits."""
        return self.name in (DECIMAL, VARIABLE_DECIMAL)

    @property
    def has_decimals(self) -> bool:
        """Whether a decimal is somewhere in it."""
        inner = [*self.fields.values(), *([self.items] if self.items is not None else [])]
        return self.is_decimal or any(one.has_decimals for one in inner)


def schema_of(record: bytes) -> bytes | None:
    """The schema that a record brings; None: it brings none."""
    try:
        found = bytes(_parts(record.removeprefix(BOM_UTF8)).get("schema", b""))
    except _BAD:
        return None
    return found if found[:1] == b"{" else None


def row_types(schema: bytes, where: str) -> Mapping[str, ConnectType]:
    """What the fields of the struct `where` of a record are; nothing, where the schema does not tell it."""
    try:
        told = _any(schema)
    except _BAD:
        return {}
    found = _type(told, 0)
    row = None if found is None else found.fields.get(where)
    return {} if row is None else row.fields


def _type(told: Any, level: int) -> ConnectType | None:
    if not isinstance(told, dict) or not isinstance(told.get("type"), str) or level > LEVELS_MAX:
        return None
    name, more = told.get("name"), told.get("parameters")
    more = more if isinstance(more, dict) else {}
    fields = {}
    listed = told.get("fields")
    for one in listed if isinstance(listed, list) else ():
        inner = _type(one, level + 1)
        if inner is not None and isinstance(one.get("field"), str):
            fields[one["field"]] = inner
    return ConnectType(
        told["type"],
        name if isinstance(name, str) else "",
        _number(more.get("scale")),
        _number(more.get("connect.decimal.precision")),
        fields,
        _type(told.get("items", told.get("values")), level + 1),
    )


def _number(told: object) -> int | None:
    text = str(told)
    return int(text) if re.fullmatch(r"-?[0-9]{1,4}", text) and abs(int(text)) <= SCALE_MAX else None


def reading(kind: str, told: ConnectType | None, scale: int | None) -> Reading | None:
    """How values of a field are read into a column; None: as they are.

    Args:
        kind: of the column: "decimal", "timestamp", ...
        told: what the field is by the schema in the record; None: it does not say.
        scale: of decimals that no schema tells, of which the user says that they are base64.
    """
    if told is None:
        return _untold_decimal(scale) if kind == "decimal" else None
    if kind in ("decimal", "string") and told.is_decimal:
        return lambda raw: _as_text(_decimal(raw, told))
    if kind == "decimal" and told.kind == "bytes":
        return lambda raw: _refuse(f"{_shown(raw)} is bytes, which the schema does not call a decimal: make it binary")
    if kind == "binary" and told.kind == "string":
        return _hexadecimal
    if kind == "date" and told.name in DAYS:
        return _date
    if kind == "timestamp" and told.name in LOCAL_TIMES:
        return _local(told)
    if kind == "json" and told.has_decimals:
        return lambda raw: _json(raw, told)
    return None


def _decimal(raw: msgspec.Raw, told: ConnectType) -> Decimal:
    data = bytes(raw)
    if told.name == VARIABLE_DECIMAL or data[:1] == b"{":
        return _variable(raw)
    if data[:1] != b'"':  # JsonConverter's decimal.format=NUMERIC
        try:
            return Decimal(data.decode())
        except (ArithmeticError, UnicodeDecodeError):
            raise Misfit(f"{_shown(raw)} is no decimal") from None
    if told.scale is None:
        raise Misfit(f"{_shown(raw)} is a decimal whose digits after the point the schema does not say")
    return _scaled(_bytes(_text(data)), told.scale)


def _variable(raw: msgspec.Raw) -> Decimal:
    if (why := _ONCE.repeated(bytes(raw))) is not None:
        raise Misfit(why)
    try:
        parts = _parts(raw)
        scale, value = _number(bytes(parts["scale"]).decode()), _text(parts["value"])
    except (*_BAD, KeyError):
        scale, value = None, ""
    if scale is None:
        raise Misfit(f"{_shown(raw)} is no decimal with its scale and its bytes")
    return _scaled(_bytes(value), scale)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit(f"{short(text)!r} is not base64, as the schema says") from None


def _scaled(value: bytes, scale: int) -> Decimal:
    if not value or len(value) > UNSCALED_BYTES_MAX:
        raise Misfit(f"a decimal of {len(value)} bytes; it has 1 to {UNSCALED_BYTES_MAX}")
    return Decimal(int.from_bytes(value, signed=True)).scaleb(-scale, _EXACT)


def _untold_decimal(scale: int | None) -> Reading:
    """Of a decimal of which no schema tells whether its text is a number or base64."""

    def read(raw: msgspec.Raw) -> msgspec.Raw:
        data = bytes(raw)
        if data[:1] == b"{":
            return _as_text(_variable(raw))
        if data[:1] != b'"':
            return raw
        if scale is not None:
            return _as_text(_scaled(_bytes(_text(data)), scale))
        text = _text(data)
        if text and _BASE64.fullmatch(text):
            may_be = "may be a number or base64 of one's bytes" if text.isascii() and _is_number(text) else "is base64"
            raise Misfit(
                f"{short(text)!r} {may_be}, and no schema in the record tells: let the converter write schemas "
                "(schemas.enable=true), or the connector text (decimal.handling.mode=string) and say "
                'Debezium(decimals="text")'
            )
        return raw

    return read


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False


def _hexadecimal(raw: msgspec.Raw) -> msgspec.Raw:
    """Of text that the connector made of bytes: hexadecimal, or base64."""
    text = _text_or_none(raw)
    if text and re.fullmatch(r"(?:[0-9a-fA-F]{4})+", text):
        raise Misfit(
            f"{short(text)!r} may be hexadecimal or base64, since the schema calls it a string: let the connector "
            "write bytes (binary.handling.mode=bytes), or make the column string, and use unhex or from_base64 on it"
        )
    return raw


def _text_or_none(raw: msgspec.Raw) -> str | None:
    try:
        return _text(raw)
    except _BAD:
        return None


def _date(raw: msgspec.Raw) -> msgspec.Raw:
    try:
        days = int(bytes(raw))
        return msgspec.Raw(_encode((date(1970, 1, 1) + timedelta(days=days)).isoformat()))
    except ValueError:
        raise Misfit(f"{_shown(raw)} is no number of days since 1970") from None
    except OverflowError:
        raise Misfit(f"{_shown(raw)} days since 1970 are before the year 1 or after 9999") from None


def _local(told: ConnectType) -> Reading:
    unit = LOCAL_TIMES[told.name]
    return lambda raw: _refuse(f"{_shown(raw)} is {local_time(told.name, unit)}")


def local_time(name: str, unit: str) -> str:
    """Why a time without a zone is no timestamp, and what to write instead. `unit`: of its number; "": it is text."""
    if not unit:
        return f"a time without a zone ({name}), so no instant: make the column string"
    micros = {"ms": "c * 1000", "us": "c", "ns": "c // 1000"}[unit]
    return (
        f"a time without a zone ({name}), so no instant: make the column c int64, and say in the query of which place "
        f"it is: timezone('Europe/Berlin', TIMESTAMP '1970-01-01' + to_microseconds({micros}))"
    )


def _json(raw: msgspec.Raw, told: ConnectType) -> msgspec.Raw:
    """A json value with the decimals in it as text. Raises Misfit."""
    data = bytes(raw)
    try:
        why = repeated_within(data, _any(data))
    except (*_BAD, ValueError):
        return raw  # the decoder says what is wrong with it
    if why is not None:
        raise Misfit(f"not one JSON value: {why}")
    return msgspec.Raw(_encode(_inside(raw, told)))


def _inside(raw: msgspec.Raw | bytes, told: ConnectType | None) -> Any:
    """A value with the decimals in it as text."""
    data = bytes(raw)
    if data == _NULL or told is None or not told.has_decimals:
        return msgspec.Raw(data)
    if told.is_decimal:
        return f"{_decimal(msgspec.Raw(data), told):f}"
    try:
        if told.kind == "array":
            return [_inside(one, told.items) for one in msgspec.json.decode(data, type=list[msgspec.Raw])]
        parts = _parts(data)
    except _BAD:
        raise Misfit(f"{_shown(data)} is no {told.kind}, as the schema says") from None
    return {name: _inside(one, told.fields.get(name, told.items)) for name, one in parts.items()}


def _as_text(value: Decimal) -> msgspec.Raw:
    return msgspec.Raw(f'"{value:f}"'.encode())


def _refuse(why: str) -> msgspec.Raw:
    raise Misfit(why)


def _shown(raw: msgspec.Raw | bytes) -> str:
    return short(bytes(raw).decode(errors="replace"))
