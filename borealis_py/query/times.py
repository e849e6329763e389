"""How a value becomes a row's time (stime): the one rule for topics, tables, publishers, files and tests. Pure.

A number counts units since 1970. Which unit nobody can be sure of unless the user names it: a number that is of our
days in another unit than it would be read in, or looks like a date, is refused with what to write, since it would be a
time of 1970 or of the year 50000.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from borealis_py.query.errors import QueryError
from borealis_py.query.units import OUR_DAYS_US, TIME_UNITS, looks_like
from borealis_py.types.times import TEXT_MAX, NoTime, UnreadableTime, moment, shown
from borealis_py.types.values import NUMBER

__all__ = ["NoTime", "TimeForm", "WrongUnit", "before_1970", "check_format", "time_form"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SCALES = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
_PLAIN = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_DATES = re.compile(
    r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:(?:[01][0-9]|2[0-3])[0-5][0-9](?:[0-5][0-9])?)?"
)
"""Digits of a day, a minute or a second."""
_SAMPLE = datetime(2026, 11, 28, 21, 43, 5, 678_000)
"""No two of its parts are the same number, so that a format that leaves one out gives another time."""


class WrongUnit(NoTime):
    """A number seems to be in another unit than it would be read in; the message names it."""


@dataclass(frozen=True, slots=True)
class TimeForm:
    """How values are read as times.

    `unit`: what a number counts since 1970: "s", "ms", "us" or "ns". `named`: the user named the unit, so that numbers
    are taken as they are. `format`: of texts, as `datetime.strptime` takes it; None: digits in `unit`, or any text that
    `types.times.moment` reads. A time without a zone is UTC.
    """

    unit: str = "us"
    named: bool = False
    format: str | None = None

    def us(self, value: object) -> int | None:
        """Microseconds since 1970, rounded down (of a double to the nearest); null and empty text give None.

        Raises:
            NoTime: it is no time.
        """
        if value is None:
            return None
        if type(value) is int:
            return self._of_whole(value)
        if isinstance(value, str):
            text = value.strip()
            return self._of_text(text) if text else None
        if isinstance(value, float):
            return self._of_double(value)
        if isinstance(value, Decimal):
            return self._of_decimal(value)
        if isinstance(value, datetime):
            return (_aware(value) - _EPOCH) // _MICROSECOND
        if isinstance(value, date):
            return (value - _EPOCH.date()).days * 86_400_000_000
        raise NoTime(self._neither(value))

    def takes_as_they_are(self, numbers: Sequence[int | None]) -> bool:
        """Whether whole numbers are microseconds, all of them of our days or in a unit that is named."""
        if self.unit != "us":
            return False
        return self.named or all(number is None or number in OUR_DAYS_US for number in numbers)

    def check_number(self, number: int) -> None:
        """Raises WrongUnit: a number (a fraction rounded down) seems to be in another unit, or to be a date."""
        if self.named:
            return
        if why := looks_like(number, self.unit) or _looks_like_date(number, self.unit):
            raise WrongUnit(why)

    def _of_whole(self, number: int) -> int:
        self.check_number(number)
        times, over = _SCALES[self.unit]
        return number * times // over

    def _of_double(self, number: float) -> int:
        if not math.isfinite(number):
            raise NoTime(f"stime {number} is no time")
        self._check_fraction(number, math.floor(number))
        times, over = _SCALES[self.unit]
        scaled = number * times / over
        if not math.isfinite(scaled):
            raise NoTime(f"stime {number} is no time")
        return round(scaled)

    def _of_decimal(self, number: Decimal) -> int:
        if not number.is_finite() or number.adjusted() > 40:
            raise NoTime(f"stime {number} is no time")
        self._check_fraction(number, math.floor(number))
        times, over = _SCALES[self.unit]
        return math.floor(number * times / over)

    def _check_fraction(self, number: float | Decimal, whole: int) -> None:
        """The same of a number with a fraction, which microseconds have only where floats were computed with."""
        self.check_number(whole)
        if whole != number and self.unit == "us" and not self.named and whole not in OUR_DAYS_US:
            raise NoTime(self._neither(number if isinstance(number, float) else str(number)))

    def _neither(self, value: object) -> str:
        what = "integer microseconds" if self.unit == "us" else f"{TIME_UNITS[self.unit][0]} since 1970"
        told = shown(value) if isinstance(value, str) else repr(value)
        return f"stime {told} is neither {what} nor an ISO 8601 date-time"

    def _of_text(self, text: str) -> int:
        if self.format is not None:
            try:
                found = datetime.strptime(text, self.format)
            except ValueError:
                raise NoTime(f"stime {shown(text)} is not as the format {self.format!r} says") from None
            return (_aware(found) - _EPOCH) // _MICROSECOND
        if len(text) <= TEXT_MAX and (NUMBER if self.named else _PLAIN).fullmatch(text):
            return self._of_decimal(Decimal(text))
        try:
            return (moment(text) - _EPOCH) // _MICROSECOND
        except UnreadableTime:
            raise NoTime(self._neither(text)) from None
        except NoTime as exc:
            raise NoTime(f"stime {exc}") from None
        except OverflowError:
            raise NoTime(f"stime {shown(text)} is before the year 1 or after 9999 in UTC") from None


def time_form(unit: str | None, form: str | None, unit_name: str, format_name: str) -> TimeForm:
    """The form that these settings mean; None: not set.

    Raises:
        QueryError: an unknown unit, a format that is none, or both; the message names the settings as given.
    """
    if unit is not None and form is not None:
        raise QueryError(f"{unit_name} is about numbers and {format_name} about texts: leave one out")
    if unit is not None and unit not in TIME_UNITS:
        raise QueryError(f"{unit_name}={unit!r}; choose {', '.join(TIME_UNITS)}")
    return TimeForm(unit or "us", unit is not None, None if form is None else check_format(form, format_name))


def before_1970(stime: int, what: str = "the row's time") -> str:
    """Why a row of this time is refused, for people; "": it is not.

    Args:
        stime: microseconds since 1970. what: names it.
    """
    if stime > 0:
        return ""
    try:
        told = (_EPOCH + timedelta(microseconds=stime)).replace(tzinfo=None).isoformat() + "Z"
    except OverflowError:
        told = f"{stime} us"
    return (
        f"{what} is {told}, and times of rows begin after 1970-01-01T00:00:00Z: keep such a time as a column, and give "
        "rows another one, like that of their arrival"
    )


def check_format(form: object, what: str) -> str:
    """A format for texts with times; `what` names the setting. Raises QueryError: it is none, or has no whole date."""
    example = '"%d.%m.%Y %H:%M:%S" or "%Y%m%dT%H%M%S%z"'
    if not isinstance(form, str) or "%" not in form:
        raise QueryError(f"{what}={form!r} is no format of a time: write one as datetime.strptime takes it, {example}")
    try:
        found = datetime.strptime(_SAMPLE.replace(tzinfo=UTC).strftime(form), form)
    except (ValueError, re.error) as exc:
        raise QueryError(f"{what}={form!r} is no format of a time: {exc}; write one like {example}") from None
    if found.date() != _SAMPLE.date():
        raise QueryError(f"{what}={form!r} leaves year, month or day open: write one like {example}")
    if found.hour not in (0, _SAMPLE.hour):
        raise QueryError(f"{what}={form!r} has an hour of 12 and no %p: write %H, or %I with %p")
    return form


def _aware(found: datetime) -> datetime:
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _looks_like_date(number: int, unit: str) -> str:
    text = str(number) if 10**7 < number < 10**14 else ""
    if not _DATES.fullmatch(text):
        return ""
    return (
        f"{number} looks like the date {text[:4]}-{text[4:6]}-{text[6:8]} and is read as {TIME_UNITS[unit][0]}: take "
        'it as text with stime_format="%Y%m%d", or name the unit'
    )
