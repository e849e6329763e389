"""Checks the arguments of `window`: windows by time, of so many rows, or of rows without a long silence in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from borealis_py.query.errors import QueryError
from borealis_py.query.plan import WINDOW_ROWS_MAX, WITHIN_MAX_US
from borealis_py.query.units import CENTURY_US, UNITS_US, format_duration, parse_duration

_QUARTER_US = 15 * UNITS_US["m"]
"""Today's zones are multiples of it from UTC."""


def window_kind(
    size: str | None,
    every: str | None,
    rows: object,
    gap: str | None,
    most: str | None,
    offset: str | None,
    zone: str | None,
    bucket_us: int,
) -> dict[str, Any]:
    """The fields of the operator that these arguments of `window` mean, `op` among them. Raises QueryError."""
    if rows is not None:
        others: dict[str, object] = {
            "a size": size,
            "every": every,
            "gap": gap,
            "most": most,
            "offset": offset,
            "zone": zone,
        }
        _check_alone("rows", rows, others, "a window ends after so many rows, or by time")
        return {"op": "count_window", "rows": _checked_rows(rows)}
    if gap is not None or most is not None:
        name, value = ("gap", gap) if gap is not None else ("most", most)
        why = "a window has a size, or ends when no row came for a time"
        _check_alone(name, value, {"a size": size, "every": every, "offset": offset, "zone": zone}, why)
        return {"op": "session_window", **_session(gap, most)}
    if size is None:
        raise QueryError(
            'window() needs a size, window("1s"), or a number of rows, window(rows=100), or a time without rows that '
            'ends it, window(gap="30s", most="1h")'
        )
    times = _by_time(size, every, offset, bucket_us)
    if zone is not None:
        _check_zone(zone, times, bucket_us)
    return {"op": "window", **times, "zone": zone}


def _check_alone(name: str, value: object, others: Mapping[str, object], why: str) -> None:
    given = [other for other, told in others.items() if told is not None]
    if given:
        raise QueryError(f"window(): {name}={value!r} and {' and '.join(given)} do not go together: {why}")


def _checked_rows(rows: object) -> int:
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= WINDOW_ROWS_MAX:
        raise QueryError(f"window(rows={rows!r}): choose 1 to {WINDOW_ROWS_MAX} rows")
    return rows


def _session(gap: str | None, most: str | None) -> dict[str, int]:
    if gap is None or most is None:
        raise QueryError(
            'window(): gap and most go together, window(gap="30s", most="1h"): a session ends when no row of its key '
            "came for the gap, and at most so long after its first row. Without a bound one that never pauses would be "
            "kept for ever"
        )
    gap_us, most_us = (
        parse_duration(text, f"{what} of window()", most_us=CENTURY_US) for what, text in (("gap", gap), ("most", most))
    )
    if most_us < gap_us:
        raise QueryError(
            f"window(): most={most!r} is shorter than gap={gap!r}, so every session would end {most} after its first "
            "row: make most at least as long, or the gap shorter"
        )
    if most_us > WITHIN_MAX_US:
        raise QueryError(f"window(): most={most!r} is more than a year; all rows of a session are kept in memory")
    return {"gap_us": gap_us, "most_us": most_us}


def _by_time(size: str, every: str | None, offset: str | None, bucket_us: int) -> dict[str, int]:
    size_us = parse_duration(size, "window size", most_us=CENTURY_US)
    every_us = size_us if every is None else parse_duration(every, "window every", most_us=CENTURY_US)
    offset_us = 0 if offset is None else parse_duration(offset, "window offset", zero=True, most_us=CENTURY_US)
    for what, value_us in (("size", size_us), ("every", every_us), ("offset", offset_us)):
        if value_us % bucket_us:
            raise QueryError(
                f"window {what} {format_duration(value_us)} is not a multiple of the app's bucket, "
                f"{format_duration(bucket_us)}"
            )
    if every_us > size_us:
        raise QueryError(
            f"window every {format_duration(every_us)} is longer than its size {format_duration(size_us)}: "
            "tuples between two windows would be in none; make the size at least as long"
        )
    if offset_us >= every_us:
        raise QueryError(
            f"window offset {format_duration(offset_us)} is not shorter than the time from one window to the next, "
            f"{format_duration(every_us)}: write {format_duration(offset_us % every_us)}, which means the same"
        )
    return {"size_us": size_us, "every_us": every_us, "offset_us": offset_us}


def _check_zone(zone: object, times: Mapping[str, int], bucket_us: int) -> None:
    """Whether windows by time may go by a zone's clocks. Which zones there are, the engine knows. Raises QueryError."""
    if not isinstance(zone, str) or not zone:
        raise QueryError(f'window(): zone={zone!r}; give the name of a time zone, like "Europe/Berlin"')
    for what in ("size", "every"):
        us = times[f"{what}_us"]
        if us % UNITS_US["d"]:
            raise QueryError(
                f"window {what} {format_duration(us)} and zone={zone!r} do not go together: a zone decides when days "
                'begin, so it takes whole days, "1d" or "7d"; leave it out, or choose whole days'
            )
    if _QUARTER_US % bucket_us:
        raise QueryError(
            f"window(zone={zone!r}) in an app with a bucket of {format_duration(bucket_us)}: days of a zone begin at "
            'quarters of an hour, and must begin with a bucket; write App(bucket="15m"), or a bucket that divides it'
        )
