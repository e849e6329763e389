"""Durations as people write them, in microseconds."""

from __future__ import annotations

import re
from fractions import Fraction

from borealis_py.query.errors import QueryError

UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_DURATION = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-zµ]*)\s*")


def parse_duration(text: str, what: str = "duration", zero: bool = False) -> int:
    """Microseconds of "100ms", "3s", "1.5s", "1m", "2h", "1d".

    Args:
        what: names the setting in the error. zero: "0s" is one.

    Raises:
        QueryError: not a duration, without a unit, not positive, or finer than a microsecond.
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise QueryError(f'{what}: {text!r} is not a duration; write a number and a unit, like "100ms", "3s" or "1m"')
    number, unit = match.groups()
    if unit not in UNITS_US:
        units = ", ".join(UNITS_US)
        raise QueryError(f"{what}: {text!r} has {'an unknown unit' if unit else 'no unit'}; units: {units}")
    value = Fraction(number) * UNITS_US[unit]
    if value < 0 or (value == 0 and not zero):
        raise QueryError(f"{what}: {text!r} must {'not be negative' if zero else 'be more than zero'}")
    if value.denominator != 1:
        raise QueryError(f"{what}: {text!r} is finer than a microsecond")
    return int(value)


def format_duration(duration_us: int) -> str:
    """The shortest spelling that `parse_duration` reads back: 100000 -> "100ms"."""
    for unit in ("d", "h", "m", "s", "ms"):
        if duration_us and duration_us % UNITS_US[unit] == 0:
            return f"{duration_us // UNITS_US[unit]}{unit}"
    return f"{duration_us}us"
