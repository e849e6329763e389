"""What clocks in a time zone show, by the engine's own zone data: `timezone(zone, ...)` in a query's SQL and windows by
local days agree, and every process with the same engine agrees.

A zone is its transitions: instants at which the distance of its clocks from UTC changes.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache, lru_cache

import numpy as np

from borealis_py.engine.sql.duck_connection import connect

DAY_US = 86_400_000_000
SECOND_US = 1_000_000
_CHUNK_DAYS = 93_504
"""Transitions are looked for in so many days at once, 256 years, and only where there are windows."""
_FIRST_DAY = -46_751
"""1842-01-01: the usual years are in one chunk, from before the first zone of law to when rules repeat."""
_LAST_CHUNK = 280
"""Beyond it, some 70 000 years away, no row is, and clocks stay as they are at its end."""
_FARTHEST_US = 30 * 3_600 * SECOND_US
"""More than clocks of any zone were ever from UTC."""

_AMBIGUOUS = {
    "ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT", "IET", "IST", "JST",
    "MIT", "NET", "NST", "PLT", "PNT", "PRT", "PST", "SST", "VST",
}  # fmt: skip
"""Letters that the engine takes for one of several zones that go by them."""


class NoZone(ValueError):
    """Windows cannot go by this zone, as its name or its days are; the message says what to write."""


@cache
def _names() -> tuple[str, ...]:
    with connect() as connection:
        return tuple(name for (name,) in connection.execute("SELECT name FROM pg_timezone_names()").fetchall())


def check_zone(name: str) -> None:
    """Raises NoZone."""
    if name in _AMBIGUOUS or name.startswith("SystemV/"):
        raise NoZone(f'zone={name!r} may be of several places: name one, like "Europe/Berlin"')
    if name in _names():
        return
    known = [one for one in _names() if one not in _AMBIGUOUS]
    low = {one.lower(): one for one in known} | {one.rpartition("/")[2].lower(): one for one in known}
    near = [low[one] for one in get_close_matches(name.lower(), low, 3, 0.7)]
    hint = (
        f"did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else 'name a place, like "Europe/Berlin"'
    )
    raise NoZone(f"zone={name!r} is not in the engine's time zone database; {hint}")


@lru_cache(maxsize=256)
def _transitions(zone: str, chunk: int) -> tuple[np.ndarray, np.ndarray]:
    """The instants in a chunk from which on clocks are another time ahead of UTC, and that time, both in microseconds.
    The first is the chunk's begin."""
    first = _FIRST_DAY + chunk * _CHUNK_DAYS
    with connect() as connection:
        # No two transitions of a zone are within a day, so none hides another.
        sampled = (
            "SELECT epoch_us(timezone(?, make_timestamptz(us))) - us AS ahead FROM (SELECT unnest(?::BIGINT[]) AS us)"
        )

        def asked(at: np.ndarray) -> np.ndarray:
            found = connection.execute(sampled, [zone, at.tolist()]).fetchnumpy()
            return np.asarray(found["ahead"], dtype=np.int64)

        ats = np.arange(first, first + _CHUNK_DAYS + 1, dtype=np.int64) * DAY_US
        ahead = asked(ats)
        changed = np.flatnonzero(ahead[1:] != ahead[:-1])
        low, high, before = ats[changed], ats[changed + 1], ahead[changed]
        while len(low) and int((high - low).max()) > SECOND_US:
            middle = low + (high - low) // (2 * SECOND_US) * SECOND_US
            same = asked(middle) == before
            low, high = np.where(same, middle, low), np.where(same, high, middle)
    return np.concatenate([ats[:1], high]), np.concatenate([ahead[:1], ahead[changed + 1]])


def _between(zone: str, low_us: int, high_us: int) -> tuple[np.ndarray, np.ndarray]:
    """The same between two instants, and some before."""
    one, other = (
        max(-_LAST_CHUNK, min(_LAST_CHUNK, (at // DAY_US - _FIRST_DAY) // _CHUNK_DAYS)) for at in (low_us, high_us)
    )
    parts = [_transitions(zone, chunk) for chunk in range(one, other + 1)]
    return np.concatenate([begins for begins, _ in parts]), np.concatenate([ahead for _, ahead in parts])


def first_instants(zone: str, shown: np.ndarray) -> np.ndarray:
    """The first instant at which clocks in a zone show each of these times, or a later one.

    So a day begins at its first instant, whether clocks show midnight then, skip it or show it twice; one that a zone
    left out begins where the next one does.

    Args:
        zone: a name that `check_zone` takes.
        shown: what clocks show, in ascending order, as microseconds since they would show 1970-01-01T00:00.

    Returns:
        Microseconds since 1970, in UTC.
    """
    low, high = int(shown[0]) - _FARTHEST_US, int(shown[-1]) + _FARTHEST_US
    begins, ahead = _between(zone, low, high)
    begins[0] = min(int(begins[0]), low)
    latest = np.maximum.accumulate(begins[1:] + ahead[:-1])
    at = np.searchsorted(latest, shown, side="right")
    found: np.ndarray = np.maximum(begins[at], shown - ahead[at])
    return found


@lru_cache(maxsize=256)
def longest_us(zone: str, size_us: int, offset_us: int) -> int:
    """The longest time between what clocks show on any day at `offset_us` after midnight, and `size_us` later."""
    shown = np.arange(_FIRST_DAY - 1, _FIRST_DAY + _CHUNK_DAYS + 1, dtype=np.int64) * DAY_US + offset_us
    took = first_instants(zone, shown + size_us) - first_instants(zone, shown)
    return int(took.max())
