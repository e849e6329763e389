"""What moves a publisher's boundary, and how late its rows arrive (A2.5). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate

import structlog

from borealis_py.client.target import PublisherError, Target
from borealis_py.log.records import LATENESS_MAX_US
from borealis_py.query.times import before_1970
from borealis_py.query.units import format_duration, looks_like
from sunion.lateness import Lateness

log = structlog.get_logger(__package__)

WARN_US = 60_000_000
"""Minimum interval between warnings of late rows."""
REFUSED_KEPT = 3
"""How many rejected rows are remembered with their reasons: enough to see what is wrong with an input."""


class Boundaries(Enum):
    """What moves a publisher's boundary."""

    CLOCK = "the clock less the lateness, at each bucket's end, also when idle"
    PACED = "likewise, but never past the row that comes next (`hold`): what a resume has to catch up is not late"
    DATA = "the largest stime so far less the lateness: it stands while nobody sends, so silence is a missing input"


@dataclass(slots=True)
class PublishCounts:
    """Rows so far. `sent`: in the log, or on the way. `skipped`: already in the log (a resume that starts at the
    beginning of its input). `rejected`: dead letters. `late`: those that arrived too late. `early`: those of the late
    ones that lie before the app's origin: no lateness would have helped. `lateness`: of all other rows sent with their
    own times. `refused`: sequence number and reason of the first few rejected.
    """

    sent: int = 0
    rejected: int = 0
    skipped: int = 0
    late: int = 0
    early: int = 0
    lateness: Lateness = field(default_factory=Lateness)
    refused: list[tuple[int, str]] = field(default_factory=list)


def count_refused(counts: PublishCounts, seq: int, reason: str) -> None:
    """Count a rejected row."""
    counts.rejected += 1
    if len(counts.refused) < REFUSED_KEPT:
        counts.refused.append((seq, reason))


class LateRows:
    """Logs a warning about rows that arrived too late, once a minute: no result contains them."""

    def __init__(self, target: Target, lateness_us: int) -> None:
        self._target = target
        self._lateness_us = lateness_us
        self._warned_us: int | None = None
        self._late_us = 0
        self._rows = 0

    def add(self, late_us: int, now_us: int) -> None:
        """Count a row that was `late_us` late."""
        self._rows, self._late_us = self._rows + 1, max(self._late_us, late_us)
        if self._warned_us is not None and now_us - self._warned_us < WARN_US:
            return
        log.warning(
            f"{self._target.name}: rows came too late and are dead letters; a lateness of {_duration(self._late_us)} "
            f"would have sufficed, it is {_duration(self._lateness_us)}",
            rows=self._rows,
        )
        self._warned_us = now_us
        self._late_us = self._rows = 0


def check_lateness(target: Target, boundaries: Boundaries, lateness_us: int | None) -> None:
    """Raises PublisherError for an invalid lateness. None: rows carry no times of their own."""
    if lateness_us is None:
        return
    if boundaries is Boundaries.PACED:
        raise PublisherError(f"{target.name}: a replay knows its next row and has no lateness: leave it out")
    if not 0 <= lateness_us <= LATENESS_MAX_US:
        raise PublisherError(
            f"{target.name}: a lateness of {_duration(lateness_us)} is out of range; choose between 0s and "
            f"{format_duration(LATENESS_MAX_US)}"
        )


def unsaid(target: Target) -> str:
    """The error for `send(stime=...)` on a publisher without a lateness."""
    return (
        f"{target.name}: send(stime=...) gives a row a time of its own, so say how late rows may come: "
        f'lateness="2s" promises it by the clock ("0s": never late), boundary="data" goes by the times of the rows '
        "themselves, so that silence counts as a missing input"
    )


def unfit(stime: object, low: int, base: int, ahead_us: int, early: bool = False) -> str:
    """Why a row of this time cannot be sent.

    Args:
        low: the boundary. base: an stime `ahead_us` or more beyond it is in the future. early: it lies before the app's
            origin.
    """
    if stime is None:
        return "stime missing"
    if type(stime) is not int:
        return f"stime {stime!r} is not a whole number of microseconds"
    if why := before_1970(stime):
        return why
    if stime < low:
        what = "the app's origin" if early else f"the boundary {low}"
        unit = looks_like(stime, "us")
        return f"late: stime {stime} is before {what}" + (f"; {unit}" if unit else "")
    return f"future: stime {stime} is more than {ahead_us} us ahead of {base}"


def leading(stimes: Sequence[int], low: int, high: int) -> Sequence[int]:
    """The leading stimes that lie in [low, high)."""
    for n, stime in enumerate(stimes):
        if not low <= stime < high:
            return stimes[:n]
    return stimes


def behind(stimes: Sequence[int], largest: int) -> list[int]:
    """How far each stime lies behind the largest before it; 0 or negative: it does not. `largest`:
    before all of them.
    """
    if stimes[0] >= largest and list(stimes) == sorted(stimes):
        return [0] * len(stimes)
    return [before - stime for before, stime in zip(accumulate(stimes, max, initial=largest), stimes, strict=False)]


def _duration(us: int) -> str:
    """In whole milliseconds, rounded up: a lateness of that much would have sufficed."""
    return format_duration(-(-us // 1_000) * 1_000)
