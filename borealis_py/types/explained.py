"""Why a value of other programs is none of its column's type, for people: the column, the value, and what to do."""

from __future__ import annotations

import json
import math
import re

from borealis_py.types.spelling import PRECISION_MAX, ColumnType
from borealis_py.types.values import NUMBER, short

_INSTRUCTIVE = ("make the column", "let the ", "make it ", "say Debezium(", "say CSV(")
"""A reason with one of these says itself what to do."""


def explained(name: str, type_: ColumnType, value: object, why: str) -> str:
    """The whole reason.

    Args:
        value: that does not fit, as its format has it; text of JSON is decoded.
        why: what is wrong with it.
    """
    shown = shown_value(value)
    named = re.search(rf"(?<!\w){re.escape(shown)}(?!\w)", why) is not None
    said = why if named else f"{why} ({shown})"
    advice = "" if any(word in why for word in _INSTRUCTIVE) else _by_reason(why) or what_to_do(type_, value)
    return f"column {name!r}: {said}{f'; {advice}' if advice else ''}"


def _by_reason(why: str) -> str:
    if "digits " in why:
        return f"make the column a decimal of more digits, up to {PRECISION_MAX}"
    if "not finite" in why or "out of range" in why:
        return "let the producer write null where there is no such number"
    return ""


def not_json(value: bytes, why: str) -> str:
    """The whole reason why a record is no JSON, and what to do."""
    text, undecodable = value.lstrip(), undecoded(value)
    if not text:
        advice = "it is empty: let the producer write null, or no record"
    elif undecodable or b"\0" in value:
        advice = (
            "it may be a record of a schema registry (format='avro', 'protobuf' or 'json-schema'); `borealis inspect` "
            "tells"
            if value[:1] == b"\0" and len(value) > 5
            else "let the producer write JSON in UTF-8"
        )
    elif text[:1] in b"{[":
        advice = "let the producer write one whole JSON object in each record, and null where there is no such number"
    else:
        advice = "let the producer write a JSON object; of a topic, format='csv' or 'text' reads lines"
    return f"not JSON: {undecodable or why}; {advice}"


def not_utf8(why: str) -> str:
    """The whole reason why a record is no text, and what to do."""
    return f"not UTF-8: {why}; let the producer write UTF-8"


def undecoded(value: bytes) -> str:
    """Why bytes are no UTF-8, in Python's words, since those of msgspec change with its version; "": they are."""
    try:
        value.decode()
    except UnicodeDecodeError as exc:
        return str(exc)
    return ""


def shown_value(value: object) -> str:
    """A value, shortened."""
    if isinstance(value, bytes | bytearray | memoryview):
        return short(f"bytes {bytes(value[:20]).hex()}")
    if isinstance(value, str):
        return repr(short(value))
    try:
        return short(json.dumps(value, ensure_ascii=False, default=str))
    except (TypeError, ValueError, RecursionError):
        return short(repr(value))


def what_to_do(type_: ColumnType, value: object) -> str:
    """How a value of this kind can be had: another type of the column, or another form that its producer writes."""
    fits = _type_for(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, float) and not math.isfinite(value):
        return "let the producer write null where there is no such number"
    match type_.kind:
        case "double" if isinstance(value, str) and _is_number(value):
            return "make the column decimal or string"
        case "int64" if isinstance(value, int) and not isinstance(value, bool):
            return f"make the column decimal({PRECISION_MAX},0)"
        case "int64" if isinstance(value, str) and _is_number(value):
            return "make the column decimal or string"
        case "timestamp" if isinstance(value, str):
            return "make the column string, or let the producer write ISO 8601 (2026-11-21T15:25:26Z)"
        case "date" if isinstance(value, str):
            return "make the column string, or let the producer write dates such as 2026-11-21"
        case "timestamp" | "date" if number:
            return f"make the column {fits}"
        case "json":
            return "make the column string" if isinstance(value, str) else "let the producer write JSON"
    return f"make the column {fits}" if fits != type_.kind else ""


def _type_for(value: object) -> str:
    kinds: dict[type, str] = {
        bool: "bool", int: "int64", float: "double", str: "string", bytes: "binary", list: "json", dict: "json",
    }  # fmt: skip
    return kinds.get(type(value), "json")


def _is_number(text: str) -> bool:
    return NUMBER.fullmatch(text) is not None
