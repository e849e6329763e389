"""The texts that are times, as programs of all kinds write them. Pure; the one place that reads them.

Taken is what can mean one instant only: ISO 8601 and RFC 3339, also with small letters, slashes between year, month and
day, a space before the zone, UTC or GMT, a zone of the IANA database in brackets (Java); and dates of RFC 1123 (HTTP,
mail). Refused is what may be read in two ways: days before months, zones by other letters (CST), a clock time that a
zone had twice or never.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo

TEXT_MAX = 500
"""A longer text is no time."""
_SHOWN = 60
_ISO = re.compile(
    r"(?P<date>[0-9]{4}(?P<mark>[-/])[0-9]{2}(?P=mark)[0-9]{2})"
    r"(?:[Tt ](?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?))?"
    r" ?(?P<offset>[+-][0-9]{2}(?::?[0-9]{2})?)?(?: ?(?P<utc>[Zz]|UTC|GMT))?(?P<zone>\[[A-Za-z0-9_+/-]{1,64}\])?"
)
_MAIL = re.compile(
    r"(?:(?P<weekday>Mon|Tue|Wed|Thu|Fri|Sat|Sun), )?[0-9]{1,2} [A-Za-z]{3} [0-9]{4} [0-9]{2}:[0-9]{2}(?::[0-9]{2})? "
    r"(?:GMT|UTC|UT|[+-][0-9]{4})"
)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class NoTime(ValueError):
    """A value is no time that can be read; the message says why, and what would be."""


class UnreadableTime(NoTime):
    """A text looks like no time at all."""


def moment(text: str) -> datetime:
    """The instant of a text, with a time zone; UTC where it names none. What follows the microseconds is cut off.

    Raises:
        NoTime: it is none.
    """
    text = text.strip()
    if len(text) <= TEXT_MAX:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        if match := _ISO.fullmatch(text):
            return _iso(text, match)
        if match := _MAIL.fullmatch(text):
            return _mail(text, match)
    raise UnreadableTime(f"{shown(text)} is no ISO 8601 date-time")


def shown(text: str) -> str:
    """A text for a message, cut where it is long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _iso(text: str, match: re.Match[str]) -> datetime:
    date, time, offset, zone = match["date"].replace("/", "-"), match["time"] or "00:00", match["offset"], match["zone"]
    if match["utc"] and offset and set(offset) & set("123456789"):
        raise NoTime(f"{shown(text)} names two zones, {offset} and {match['utc']}")
    try:
        found = datetime.fromisoformat(f"{date}T{time}{offset or ''}")
    except ValueError:
        raise UnreadableTime(f"{shown(text)} is no ISO 8601 date-time") from None
    if found.tzinfo is not None:
        return found
    return found.replace(tzinfo=UTC) if match["utc"] or zone is None else _of_zone(text, found, zone[1:-1])


def _of_zone(text: str, found: datetime, name: str) -> datetime:
    try:
        zone = ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise NoTime(f"{shown(text)}: this machine knows no time zone {name!r}") from None
    first, last = (found.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() != last.utcoffset():
        back = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None)
        how = "twice, as clocks were put back" if back == found else "never, as clocks were put forward"
        raise NoTime(f"{shown(text)}: {name} had this time {how}: write it with its offset")
    return first


def _mail(text: str, match: re.Match[str]) -> datetime:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        raise NoTime(f"{shown(text)} is no date of RFC 1123") from None
    if match["weekday"] and _WEEKDAYS[found.weekday()] != match["weekday"]:
        raise NoTime(f"{shown(text)}: that day was a {_WEEKDAYS[found.weekday()]}")
    return found if found.tzinfo else found.replace(tzinfo=UTC)
