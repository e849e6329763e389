"""Keeps instants and clock times apart: the engine has one type for both, and a column of type timestamp is an instant.

The engine's TIMESTAMP has no zone. Columns of ours are instants, written in UTC; `timezone('Europe/Berlin', instant)`
(AT TIME ZONE) makes what a clock in Berlin showed, and the engine would take it for an instant again wherever it
stands. So each part of an expression is judged:

    instant     columns, TIMESTAMP WITH TIME ZONE, numbers since 1970, text with its zone
    clock time  timezone(zone, instant), and what is computed from it
    written     made of text or numbers without a zone (strptime, make_timestamp(y, m, ...), literals, dates): UTC where
                it stands as an instant, as such text is in columns, and a clock time within timezone(zone, ...)

A clock time may be compared with, or taken from, another one, cut to its hour or day, and written as text; whatever
would take it for an instant is refused. What it costs is asked of the engine only where timezone() is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

Tree = dict[str, Any]
Kind = Callable[[Tree], str]

TIMESTAMP = "TIMESTAMP"
ZONED = "TIMESTAMP WITH TIME ZONE"
DATE = "DATE"
TIME = "TIME"
_DROPS_OFFSETS = {TIMESTAMP, "TIMESTAMP_S", "TIMESTAMP_MS", DATE}
"""Of the engine's types: those whose CAST from text leaves the offset out."""
_OFFSET = re.compile(r"\s*[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}[T ]\s*[0-9]{1,2}:[0-9:.]*\s*([+-][0-9].*)", re.DOTALL)
ZONED_TIME = r":[0-9.]+\s*[-+A-Za-z]"
"""In a text: a time of day, and what the engine leaves out behind it."""
_OF_NUMBERS = {"make_timestamp": 1, "make_timestamp_ms": 1, "make_timestamp_ns": 1, "epoch_ms": 1}
"""These take a number of units since 1970, if they have so many arguments."""
_SINCE_1970 = {"epoch", "epoch_ms", "epoch_us", "epoch_ns", "julian"}
_PARTS = {"date_part", "datepart"}
_ZONE_PARTS = {*_SINCE_1970, "timezone", "timezone_hour", "timezone_minute"}
_AS_TEXT = "strftime(..., '%Y-%m-%d %H:%M')"


class TimeKind(Enum):
    """What the TIMESTAMPs in a value are; NONE: there are none."""

    NONE = "no time"
    INSTANT = "an instant"
    CLOCK_TIME = "a clock time"
    WRITTEN = "a time without a zone"


class WrongClock(ValueError):
    """An expression takes a clock time for an instant, or the reverse; the message says what to write instead."""


def reads_text(cast_type: Tree) -> bool:
    """Whether text that is cast to this type loses its offset in the engine, so that it must be read as `ZONED`."""
    return cast_type["id"] in _DROPS_OFFSETS


def time_in(cast_type: Tree) -> str | None:
    """The type with which text would be read as a time, in this type or a component of it; None: with none."""
    spelled = str(cast_type)
    signs = (ZONED, TIMESTAMP, f"'{DATE}'", f"'{TIME}'")
    return next((sign.strip("'") for sign in signs if sign in spelled), None)


def has_offset(tree: Tree) -> bool:
    """Whether an expression is a literal text with a time and its offset from UTC."""
    value = _text(tree)
    return value is not None and _OFFSET.fullmatch(value) is not None


def shows_zone(text: str) -> bool:
    """Whether a text is a time of day with an offset or a zone."""
    return re.search(ZONED_TIME, text) is not None


def offset_reason(text: str) -> str:
    """Why a text is no time of day."""
    return (
        f"'{text}' has an offset or a zone, which a TIME has not: take the time of the instant, "
        "CAST(CAST(... AS TIMESTAMP) AS TIME), or leave the offset out, CAST(left(..., 8) AS TIME)"
    )


def check(tree: Tree, kind: Kind) -> None:
    """Check an expression as the user wrote it.

    Args:
        kind: the engine's type of a subexpression.

    Raises:
        WrongClock: a clock time where an instant is meant, or the reverse, or text beside a time whose offset the
            engine would leave out.
    """
    kind = _unnamed(kind)
    _check_texts(tree, kind)
    if any(_is_zone_call(one) for one in _all(tree)) and _clock(tree, kind) is TimeKind.CLOCK_TIME:
        raise WrongClock(
            "this is what a clock in a zone shows, and a column of type timestamp is an instant, written in UTC: write "
            f"it as text, {_AS_TEXT}, take its day, CAST(... AS DATE), or make it an instant again, "
            "timezone('the/zone', ...)"
        )


def _unnamed(kind: Kind) -> Kind:
    """The same of parts that have a name where they stand, like {'a': x}, which is none of their own."""
    return lambda tree: kind({**tree, "alias": ""})


def _check_texts(tree: Tree, kind: Kind) -> None:
    for one in _all(tree):
        if one["class"] == "CAST":
            continue
        parts = _parts(one)
        for text in parts:
            if not has_offset(text):
                continue
            beside = [kind(part) for part in parts if part is not text]
            for type_, of in ((TIMESTAMP, "a timestamp"), (DATE, "a date")):
                if any(type_ in one and ZONED not in one for one in beside):
                    raise WrongClock(
                        f"the engine would leave out the offset of {text['value']['value']!r} beside {of}: write "
                        f"CAST({text['value']['value']!r} AS {type_})"
                    )


def _clock(tree: Tree, kind: Kind) -> TimeKind:
    """What the expression's times are. Raises WrongClock."""
    if tree["class"] == "COLUMN_REF":
        return TimeKind.INSTANT if TIMESTAMP in kind(tree) else TimeKind.NONE
    if tree["class"] == "CONSTANT":
        return TimeKind.NONE
    of = {_clock(part, kind) for part in _parts(tree)} - {TimeKind.NONE}
    if _is_zone_call(tree):
        return _in_zone(tree, of, kind)
    if TimeKind.CLOCK_TIME in of:
        _check_use(tree, of)
    if tree["class"] == "CAST":
        return _cast_clock(tree, of, kind)
    made = kind(tree)
    if TIMESTAMP not in made:
        return TimeKind.NONE
    name = _name(tree)
    if ZONED in made or (name in _OF_NUMBERS and len(tree["children"]) == _OF_NUMBERS[name]):
        return TimeKind.INSTANT
    return _joined(of)


def _joined(of: set[TimeKind]) -> TimeKind:
    return next((one for one in (TimeKind.CLOCK_TIME, TimeKind.INSTANT) if one in of), TimeKind.WRITTEN)


def _in_zone(tree: Tree, of: set[TimeKind], kind: Kind) -> TimeKind:
    zone = tree["children"][0]
    made = kind(tree)
    if TIMESTAMP not in made:
        return TimeKind.NONE  # of a TIME
    if ZONED not in made:
        return TimeKind.CLOCK_TIME
    if TimeKind.INSTANT in of:
        named = _text(zone) or "the/zone"
        raise WrongClock(
            f"timezone('{named}', ...) would take an instant for what a clock there shows. What the clock shows: "
            f"timezone('{named}', CAST(... AS TIMESTAMPTZ)). The instant of text without a zone: "
            f"timezone('{named}', strptime(text, '%Y-%m-%d %H:%M:%S'))"
        )
    return TimeKind.INSTANT


def _check_use(tree: Tree, of: set[TimeKind]) -> None:
    """Check what is done with a clock time."""
    if TimeKind.INSTANT in of:
        raise WrongClock(
            "a clock time, timezone(zone, ...), stands beside an instant: take both as instants, or put "
            "timezone(zone, CAST(... AS TIMESTAMPTZ)) around the other one, too"
        )
    name = _name(tree)
    if tree["class"] == "CAST" and ZONED in str(tree["cast_type"]):
        raise WrongClock(
            "a clock time is no instant, and would be taken for one in UTC: timezone('the/zone', ...) makes it one"
        )
    part = (_text(tree["children"][0]) or "").lower() if name in _PARTS else ""
    if name in _SINCE_1970 or part in _ZONE_PARTS:
        raise WrongClock(f"{part or name} of a clock time counts in no zone: take it of the instant")
    if name == "strftime" and any("%z" in (_text(one) or "").lower() for one in tree["children"]):
        raise WrongClock("strftime() of a clock time does not know its zone: leave out %z and %Z")


def _cast_clock(tree: Tree, of: set[TimeKind], kind: Kind) -> TimeKind:
    if TIMESTAMP not in str(tree["cast_type"]):
        return TimeKind.NONE
    if ZONED in str(tree["cast_type"]):
        return TimeKind.INSTANT
    if of:
        return _joined(of)
    child = tree["child"]
    if _text(child) is not None:
        return TimeKind.INSTANT if has_offset(child) else TimeKind.WRITTEN
    return TimeKind.WRITTEN if kind(child) in ("DATE", '"NULL"') else TimeKind.INSTANT


def _is_zone_call(tree: Tree) -> bool:
    return _name(tree) == "timezone" and len(tree["children"]) == 2


def _name(tree: Tree) -> str:
    return str(tree["function_name"]).lower() if tree["class"] == "FUNCTION" else ""


def _text(tree: Tree) -> str | None:
    """The text of a string literal; None: it is none."""
    value = tree.get("value", {}).get("value") if tree["class"] == "CONSTANT" else None
    return value if isinstance(value, str) else None


def _parts(tree: Tree) -> list[Tree]:
    """The direct subexpressions."""
    found: list[Tree] = []

    def look(value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                look(one)
        elif isinstance(value, dict):
            if "class" in value:
                found.append(value)
            else:
                look(list(value.values()))

    look(list(tree.values()))
    return found


def _all(tree: Tree) -> list[Tree]:
    """The expression and all its subexpressions."""
    return [tree, *(inner for part in _parts(tree) for inner in _all(part))]
