"""Times as tests spell them. Pure."""

from __future__ import annotations

from datetime import datetime

from borealis_py.client.times import parse_stime
from borealis_py.query.errors import QueryError
from borealis_py.query.times import NoTime
from borealis_py.query.units import CENTURY_US, parse_duration

START_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z in microseconds since 1970. Times like "1.5s" count from here, and a world begins here."""
Time = int | str | datetime
"""A time: microseconds since 1970, "2026-01-01T00:00:01.5", a `datetime`, or "1.5s": so long after `START_US`. Without
a zone it is UTC."""


def to_stime(time: Time) -> int:
    """Microseconds since 1970, as in `stime`, `window_start` and `window_end`.

    Args:
        time: "2026-01-01T00:00:01.5" or a `datetime` (UTC if it has no zone), microseconds since 1970, or "1.5s": so
            long after 2026-01-01T00:00:00Z, where worlds begin.

    Raises:
        ValueError: not a time.
    """
    found, why = _after_start(time), ""
    if found is None:
        try:
            found = parse_stime(time)
        except NoTime as exc:
            why = f": {exc}"
    if found is None:
        raise ValueError(
            f'{time!r} is no time; write microseconds since 1970, "2026-01-01T00:00:01.5", a datetime, or "1.5s" '
            f"(so long after 2026-01-01){why}"
        )
    return found


def _after_start(time: object) -> int | None:
    if not isinstance(time, str):
        return None
    try:
        return START_US + parse_duration(time, zero=True, most_us=CENTURY_US)
    except QueryError:
        return None
