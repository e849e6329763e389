"""The values of column types: what a publisher may send, and how they look in JSON. Knows no Arrow and no engine.

Each type has one normal form in JSON, in which its values lie in source topics, corrected streams and dead letters:

    decimal(12,2)   "-1234.50"                       all its digits after the point; no sign before zero
    timestamp       "2026-11-21T15:25:26.978485Z"    UTC, all six digits of the microsecond; years 1 to 9999
    date            "2026-11-21"
    binary          "AP8="                           base64 with padding
    json            {"a":1.10}                       the value, as it was written but for white space between its parts

`sent` makes it of Python's values and of what other programs write; `read` accepts nothing else.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import accumulate
from typing import Annotated, Any

import msgspec

from borealis_py.types.repeated import repeated_within
from borealis_py.types.spelling import ColumnType, parse_type
from borealis_py.types.times import NoTime, moment

INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
JSON_LEVELS_MAX = 99
"""How deeply a json value may be nested: with the row around it, as deeply as any row (A2.7)."""
WIRE: dict[str, Any] = {
    "string": str, "int64": INT64, "double": float, "bool": bool,
    "decimal": str, "timestamp": str, "date": str, "binary": str, "json": msgspec.Raw,
}  # fmt: skip
"""What a type's normal form is to a JSON decoder."""
PLAIN = ("string", "int64", "double", "bool")
"""Types whose values a JSON decoder checks by itself; the others have `Rules`."""
TEXT_MAX = 500
"""A text longer than this is no decimal, timestamp or date."""

_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
WHOLE = re.compile(r"[+-]?[0-9]+")
_MANTISSA = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
NUMBER = re.compile(rf"{_MANTISSA}(?:[eE][+-]?[0-9]{{1,4}})?")
"""Texts of numbers, not as in Python source (1_000). No number of ours has a longer exponent."""
FLOAT = re.compile(rf"{_MANTISSA}(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
"""What Python reads as a float, too; not all of them are finite."""
_NULL = b"null"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\2\2\0\0")
_any = msgspec.json.Decoder().decode
_text = msgspec.json.Decoder(str).decode


class Misfit(ValueError):
    """A value that its column's type does not have; the message says why, without naming the column."""


class Rules(ABC):
    """How values of one column type that JSON has no notation for are sent and read.

    Values in Python: Decimal, naive datetime in UTC, date, bytes, and for json its text.
    """

    def __init__(self, type_: ColumnType) -> None:
        self.type = type_

    @abstractmethod
    def sent(self, value: object) -> str | msgspec.Raw:
        """The normal form of a value that a publisher was given; msgspec.Raw is JSON text. Raises Misfit."""

    @abstractmethod
    def read(self, form: Any) -> object:
        """The value of its normal form; None for the json `null`. Raises Misfit."""

    @abstractmethod
    def said(self, value: Any) -> str | msgspec.Raw:
        """The normal form of a value that lies in a column."""

    def from_csv(self, text: str) -> object:
        """A field of a CSV file, as `sent` takes it. Raises Misfit."""
        return self.sent(text)

    def key(self, value: Any) -> bytes:
        """What the partition of a key is computed from: equal for equal values of one kind, forever."""
        said = self.said(value)
        return said.encode() if isinstance(said, str) else bytes(said)


class _DecimalRules(Rules):
    def __init__(self, type_: ColumnType) -> None:
        super().__init__(type_)
        whole, scale = type_.precision - type_.scale, type_.scale
        before = f"(?:0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
        self._form = re.compile(f"-?{before}" + (f"\\.[0-9]{{{scale}}}" if scale else ""))
        self._usual = re.compile(f"({before})(?:\\.([0-9]{{1,{scale}}}))?" if scale else f"({before})()")

    def sent(self, value: object) -> str:
        if isinstance(value, msgspec.Raw):
            value = _text_of(value) if bytes(value)[:1] == b'"' else bytes(value).decode(errors="replace")
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            exact = "; a float holds no decimal fraction exactly" if isinstance(value, float) else ""
            raise Misfit(f"{_named(value)} is no decimal: give a Decimal, an int, or the number as text{exact}")
        if isinstance(value, str):
            if usual := self._usual.fullmatch(value):  # most are written so, and this is several times as fast
                return f"{usual[1]}.{(usual[2] or '').ljust(self.type.scale, '0')}" if self.type.scale else usual[1]
            value = _decimal(value)
        elif isinstance(value, int):
            if abs(value) >= 10**self.type.precision:
                raise self._too_large()
            value = Decimal(value)
        return self._fitted(value)

    def _fitted(self, value: Decimal) -> str:
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise Misfit(f"{value} is no number")
        if not any(digits):
            return f"0.{'0' * self.type.scale}" if self.type.scale else "0"
        if value.adjusted() >= self.type.precision - self.type.scale:
            raise self._too_large()
        more = exponent + self.type.scale
        if more < 0 and any(digits[more:]):
            raise Misfit(f"it has more than {self.type.scale} digits after the point, and none is cut off")
        kept = "".join(map(str, digits[:more] if more < 0 else digits)) + "0" * max(0, more)
        kept = kept.lstrip("0").rjust(self.type.scale + 1, "0")
        at = len(kept) - self.type.scale
        return f"{'-' if sign else ''}{kept[:at]}{'.' if self.type.scale else ''}{kept[at:]}"

    def _too_large(self) -> Misfit:
        return Misfit(f"it has more than {self.type.precision - self.type.scale} digits before the point")

    def read(self, form: str) -> Decimal:
        if self._form.fullmatch(form) is None or (form[0] == "-" and not form.strip("-0.")):
            raise _abnormal(form, f"a decimal with {self.type.scale} digits after the point")
        return Decimal(form)

    def said(self, value: Decimal) -> str:
        return f"{value:f}"

    def key(self, value: Decimal) -> bytes:
        text = f"{value:f}"
        return (text.rstrip("0").rstrip(".") if "." in text else text).encode()


class _TimestampRules(Rules):
    def sent(self, value: object) -> str:
        if isinstance(value, msgspec.Raw):
            value = _text_of(value, unit=True)
        if isinstance(value, str):
            value = _moment(value)
        if not isinstance(value, datetime):
            raise Misfit(f"{_named(value)} is no timestamp: give a datetime with a time zone, or ISO 8601 as text")
        if value.tzinfo is None or value.utcoffset() is None:
            raise Misfit(
                "a datetime without a time zone may be of any place: give datetime.now(UTC), or .replace(tzinfo=UTC)"
            )
        try:
            form = self.said(value.astimezone(UTC).replace(tzinfo=None))
        except OverflowError:
            raise Misfit("it is before the year 1 or after 9999 in UTC") from None
        if _TIMESTAMP.fullmatch(form) is None:
            raise Misfit(f"{form} is no time")
        return form

    def read(self, form: str) -> datetime:
        if _TIMESTAMP.fullmatch(form):
            try:
                return datetime.fromisoformat(form[:-1])
            except ValueError:
                pass
        raise _abnormal(form, "a time such as 2026-11-21T15:25:26.978485Z")

    def said(self, value: datetime) -> str:
        return value.isoformat(timespec="microseconds") + "Z"


class _DateRules(Rules):
    def sent(self, value: object) -> str:
        if isinstance(value, msgspec.Raw):
            value = _text_of(value)
        if isinstance(value, datetime):
            raise Misfit("a datetime is no date: give .date() of it")
        if isinstance(value, str):
            value = self.read(value.strip())
        if not isinstance(value, date):
            raise Misfit(f"{_named(value)} is no date: give a date, or text such as 2026-11-21")
        return value.isoformat()

    def read(self, form: str) -> date:
        if _DATE.fullmatch(form):
            try:
                return date.fromisoformat(form)
            except ValueError:
                pass
        raise _abnormal(form, "a date such as 2026-11-21")

    def said(self, value: date) -> str:
        return value.isoformat()


class _BinaryRules(Rules):
    def sent(self, value: object) -> str:
        if isinstance(value, msgspec.Raw):
            return self.said(self.read(_text_of(value)))
        if not isinstance(value, bytes | bytearray | memoryview):
            encode = "; encode() text" if isinstance(value, str) else ""
            raise Misfit(f"{_named(value)} is no binary value: give bytes{encode}")
        return self.said(value)

    def read(self, form: str) -> bytes:
        try:
            found = base64.b64decode(form, validate=True)
        except (binascii.Error, ValueError):
            found = b""
        if self.said(found) != form:
            raise _abnormal(form, "base64")
        return found

    def said(self, value: bytes | bytearray | memoryview) -> str:
        return base64.b64encode(value).decode()

    def from_csv(self, text: str) -> bytes:
        return self.read(text)

    def key(self, value: bytes) -> bytes:
        return value


class _JsonRules(Rules):
    def sent(self, value: object) -> msgspec.Raw:
        if isinstance(value, msgspec.Raw):
            return msgspec.Raw(normal_json(bytes(value)))
        try:
            text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, OverflowError, RecursionError) as exc:
            why = "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc)
            raise Misfit(f"{_named(value)} cannot be written as JSON: {why}") from None
        return msgspec.Raw(normal_json(text))

    def read(self, form: msgspec.Raw) -> str | None:
        text = bytes(form)
        return None if text == _NULL else normal_json(text).decode()

    def said(self, value: str) -> msgspec.Raw:
        return msgspec.Raw(value.encode())

    def from_csv(self, text: str) -> msgspec.Raw:
        return self.sent(msgspec.Raw(text.encode()))


_RULES: dict[str, type[Rules]] = {
    "decimal": _DecimalRules,
    "timestamp": _TimestampRules,
    "date": _DateRules,
    "binary": _BinaryRules,
    "json": _JsonRules,
}


@cache
def rules(type_: ColumnType) -> Rules | None:
    """The rules of a type; None for one of `PLAIN`."""
    made = _RULES.get(type_.kind)
    return None if made is None else made(type_)


def ruled(schema: Mapping[str, str]) -> list[tuple[int, str, Rules]]:
    """(index, name, rules) of the columns of a schema that have rules."""
    found = ((i, name, rules(parse_type(kind))) for i, (name, kind) in enumerate(schema.items()))
    return [(i, name, rule) for i, name, rule in found if rule is not None]


def normal_json(text: bytes) -> bytes:
    """A json value without white space between its parts; its numbers, strings and the order of its keys stay.

    Raises:
        Misfit: it is not JSON, a string in it is not Unicode, a number is beyond what a double holds, an object in it
            has a field twice, or it is nested more than 99 levels deep.
    """
    if text.count(b"[") + text.count(b"{") > JSON_LEVELS_MAX and nesting(text) > JSON_LEVELS_MAX:
        raise Misfit(f"nested more than {JSON_LEVELS_MAX} levels deep")
    try:
        value = _any(text)
        formed = msgspec.json.format(text, indent=-1)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as exc:
        raise Misfit(f"not JSON: {exc}") from None
    if (why := repeated_within(text, value)) is not None:
        raise Misfit(f"not one JSON value: {why}")
    return formed


def nesting(text: bytes) -> int:
    """How deeply [ and { are nested, ignoring those between double quotes."""
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(one - 1 for one in brackets), default=0)


def _decimal(text: str) -> Decimal:
    text = text.strip()
    if len(text) > TEXT_MAX or NUMBER.fullmatch(text) is None:
        raise Misfit(f"{short(text)!r} is no decimal number")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise Misfit(f"{text!r} is no decimal number") from None


def _moment(text: str) -> datetime:
    """What `times.moment` reads. Raises Misfit."""
    text = text.strip()
    if len(text) <= TEXT_MAX and WHOLE.fullmatch(text):
        raise Misfit(f"{short(text)!r} is a number, whose unit nobody knows: give ISO 8601, or make the column int64")
    try:
        return moment(text)
    except NoTime as exc:
        raise Misfit(str(exc)) from None


def sent(rule: Rules, value: object) -> str | msgspec.Raw | None:
    """The normal form of a value that may be null. Raises Misfit."""
    if value is None or (isinstance(value, msgspec.Raw) and bytes(value) == _NULL):
        return None
    return rule.sent(value)


def _text_of(raw: msgspec.Raw, unit: bool = False) -> str:
    """`unit`: a number would need one."""
    try:
        return _text(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        shown = short(bytes(raw).decode(errors="replace"))
        number = "; of a number nobody knows the unit" if unit and shown[:1] in "-0123456789" else ""
        raise Misfit(f"{shown} is no text{number}") from None


def _named(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def short(text: str) -> str:
    """A text as messages show it: its beginning, if it is long."""
    return text if len(text) <= 40 else text[:37] + "..."


def _abnormal(form: object, expected: str) -> Misfit:
    return Misfit(f"{short(str(form))!r} is not {expected}")
