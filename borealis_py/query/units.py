"""Parse and format durations (microseconds) and sizes (bytes); tell which unit the number of a time is in."""

from __future__ import annotations

import re
from fractions import Fraction

from borealis_py.query.errors import WrongValue

UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_DURATION = re.compile(r"\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]*)\s*")
DURATION_MAX_US = 366 * UNITS_US["d"]
"""A year: the longest that most settings may be. What waits for so long waits in memory, or nobody waits for it."""
CENTURY_US = 36_525 * UNITS_US["d"]
"""The longest of what costs no more the longer it is: windows of history, and how much of a stream is kept."""
_DIGITS_MAX = 40
"""Longer numbers are out of any range, and Python would refuse to read the longest."""


def parse_duration(text: str, what: str = "duration", zero: bool = False, most_us: int = DURATION_MAX_US) -> int:
    """Microseconds of "100ms", "3s", "1.5s", "1m", "2h", "1d".

    Args:
        what: names the setting in the error. zero: accept "0s". most_us: refuse what is longer.

    Raises:
        WrongValue: not a duration, without a unit, not positive, finer than a microsecond, or longer than `most_us`.
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise WrongValue(f'{what}: {text!r} is not a duration; write a number and a unit, like "100ms", "3s" or "1m"')
    number, unit = match.groups()
    if unit not in UNITS_US:
        units = ", ".join(UNITS_US)
        raise WrongValue(f"{what}: {text!r} has {'an unknown unit' if unit else 'no unit'}; units: {units}")
    over = f"is more than {format_duration(most_us)}, the most that it can be; write {format_duration(most_us)} or less"
    if len(number) > _DIGITS_MAX:
        raise WrongValue(f"{what}: a number of {len(number)} digits {over}")
    value = Fraction(number) * UNITS_US[unit]
    if value < 0 or (value == 0 and not zero):
        raise WrongValue(f"{what}: {text!r} must {'not be negative' if zero else 'be more than zero'}")
    if value > most_us:
        raise WrongValue(f"{what}: {text!r} {over}")
    if value.denominator != 1:
        raise WrongValue(f"{what}: {text!r} is finer than a microsecond")
    return int(value)


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB|kB|MB|GB)\s*")
UNITS_BYTES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse_bytes(text: str, what: str = "size") -> int:
    """Bytes of "512MiB", "1.5GiB", "2GB". Raises WrongValue, in which `what` names the setting."""
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise WrongValue(f'{what}: {text!r} is not a size; write a number and a unit, like "512MiB" or "2GiB"')
    return int(Fraction(match[1]) * UNITS_BYTES[match[2]])


def format_duration(duration_us: int) -> str:
    """The shortest spelling that `parse_duration` parses back: 100000 -> "100ms"."""
    for unit in ("d", "h", "m", "s", "ms"):
        if duration_us and duration_us % UNITS_US[unit] == 0:
            return f"{duration_us // UNITS_US[unit]}{unit}"
    return f"{duration_us}us"


TIME_UNITS = {
    "s": ("seconds", 1),
    "ms": ("milliseconds", 10**3),
    "us": ("microseconds", 10**6),
    "ns": ("nanoseconds", 10**9),
}
"""What the number of a time may count since 1970: its name, and how many make a second."""
_OUR_DAYS_S = range(946_684_800, 4_102_444_800)
"""The years 2000 to 2099."""
OUR_DAYS_US = range(_OUR_DAYS_S.start * 1_000_000, _OUR_DAYS_S.stop * 1_000_000)
_YEAR_S = 31_556_952
WRONG_UNIT_US = 10 * _YEAR_S * 1_000_000
"""Rows that come so long after their time were hardly meant to: their times are read wrong."""


def unit_of(number: int) -> str | None:
    """The unit in which this number is a time of our days, like "ms"; None: in none. Seconds of our days, taken as
    microseconds, are times of 1970, so it is one unit at most."""
    return next((unit for unit, (_, in_a_second) in TIME_UNITS.items() if number // in_a_second in _OUR_DAYS_S), None)


def looks_like(number: int, unit: str) -> str:
    """That the number of a time looks like one in another unit than it is read in, for people; "": it does not."""
    other = unit_of(number)
    if other in (None, unit):
        return ""
    return f'{number} looks like {TIME_UNITS[other][0]} and is read as {TIME_UNITS[unit][0]}: set stime_unit="{other}"'


def of_year(stime: int) -> str:
    """The year of an stime (microseconds since 1970), for people, as good as is needed to see that it is wrong."""
    return f"the year {1970 + stime // 1_000_000 // _YEAR_S}"
