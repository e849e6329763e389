"""What moves a publisher's boundary, and how late its rows come (PROTOCOL 1.2). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate

import structlog

from borealis_py.client.target import PublisherError, Target
from borealis_py.log.records import LATENESS_MAX_US
from borealis_py.query.units import format_duration
from sunion.lateness import Lateness

log = structlog.get_logger("borealis.publisher")

WARN_US = 60_000_000
"""How often late rows are warned of."""


class Boundaries(Enum):
    """What moves a publisher's boundary."""

    CLOCK = "the clock less the lateness, at each bucket's end, also when idle"
    PACED = "likewise, but never past the row that comes next (`hold`): what a resume has to catch up is not late"
    DATA = "the largest stime so far less the lateness: it stands while nobody sends, so silence is a missing input"


@dataclass(slots=True)
class PublishCounts:
    """Rows so far. `skipped`: already in the log (a resume that starts from the beginning of its input). `late`: those
    of the rejected that came too late. `lateness`: how late all rows came that were sent with a time of their own.
    """

    sent: int = 0
    rejected: int = 0
    skipped: int = 0
    late: int = 0
    lateness: Lateness = field(default_factory=Lateness)


class LateRows:
    """Warns of rows that came too late, once a minute: they are lost to every result."""

    def __init__(self, target: Target, lateness_us: int) -> None:
        self._target = target
        self._lateness_us = lateness_us
        self._warned_us: int | None = None
        self._late_us = self._rows = 0

    def add(self, late_us: int, now_us: int) -> None:
        """One came so late."""
        self._rows, self._late_us = self._rows + 1, max(self._late_us, late_us)
        if self._warned_us is not None and now_us - self._warned_us < WARN_US:
            return
        log.warning(
            f"{self._target.name}: rows came too late and are dead letters; a lateness of {_duration(self._late_us)} "
            f"would have done, it is {_duration(self._lateness_us)}",
            rows=self._rows,
        )
        self._warned_us = now_us
        self._late_us = self._rows = 0


def check_lateness(target: Target, boundaries: Boundaries, lateness_us: int | None) -> None:
    """Raises PublisherError: a lateness that cannot be. None: rows bear no times of their own."""
    if lateness_us is None:
        return
    if boundaries is Boundaries.PACED:
        raise PublisherError(f"{target.name}: a replay knows which row comes next, and has no lateness")
    if not 0 <= lateness_us <= LATENESS_MAX_US:
        raise PublisherError(
            f"{target.name}: a lateness of {_duration(lateness_us)} cannot be; it is between 0s and 1 day"
        )


def unsaid(target: Target) -> str:
    """The error of a time of its own where nothing was said about how late rows may come."""
    return (
        f"{target.name}: send(stime=...) gives a row a time of its own, so say how late rows may come: "
        f'lateness="2s" promises it by the clock ("0s": never late), boundary="data" goes by the times of the rows '
        "themselves, so that silence counts as a missing input"
    )


def unfit(stime: object, low: int, base: int, ahead_us: int) -> str:
    """Why a row of this time cannot be sent.

    Args:
        low: the boundary. base: what lies `ahead_us` ahead of it is in the future.
    """
    if stime is None:
        return "stime missing"
    if type(stime) is not int:
        return f"stime {stime!r} is not a whole number of microseconds"
    if stime < low:
        return f"late: stime {stime} is before the boundary {low}"
    return f"future: stime {stime} is more than {ahead_us} us ahead of {base}"


def leading(stimes: Sequence[int], low: int, high: int) -> Sequence[int]:
    """The first stimes that lie in low .. high - 1, until one does not."""
    for n, stime in enumerate(stimes):
        if not low <= stime < high:
            return stimes[:n]
    return stimes


def behind(stimes: Sequence[int], largest: int) -> list[int]:
    """How far each lies behind the largest before it. Negative or 0: it does not. `largest`: before all of them."""
    if stimes[0] >= largest and list(stimes) == sorted(stimes):
        return [0] * len(stimes)
    return [before - stime for before, stime in zip(accumulate(stimes, max, initial=largest), stimes, strict=False)]


def _duration(us: int) -> str:
    """In whole milliseconds, rounded up: with what it says a row would have been in time."""
    return format_duration(-(-us // 1_000) * 1_000)
