"""Time as a dependency, so that the simulator can supply its own."""

from __future__ import annotations

import time
from typing import Protocol

from sunion.units import MonotonicUs, WallUs

APART_US = 1_000_000
"""Clocks that differ by less are not reported."""


def least_ahead(sent_us: int, heard_us: int, appended_ms: int) -> int:
    """By how much a clock is ahead of another at least, in microseconds; negative: behind.

    Args:
        sent_us, heard_us: when a record was sent and its answer came, by the one clock.
        appended_ms: when it arrived in between, by the other one.
    """
    if sent_us > (appended_ms + 1) * 1_000:
        return sent_us - (appended_ms + 1) * 1_000
    return min(0, heard_us - appended_ms * 1_000)


class ClockWatch:
    """What is to be reported of a clock's difference to the log's: when it begins, ends, or changes by a second."""

    def __init__(self) -> None:
        self._reported_us = 0

    def changed(self, ahead_us: int | None) -> str | None:
        """The report, in words; None: there is none now."""
        now = noticed(ahead_us)
        if ahead_us is None or (bool(now) == bool(self._reported_us) and abs(now - self._reported_us) < APART_US):
            return None
        self._reported_us = now
        return apart(now) or "this machine's clock agrees with the broker's again"


def noticed(ahead_us: int | None) -> int:
    """A difference of a clock to the broker's, in microseconds; 0: it is too small, or not known."""
    return 0 if ahead_us is None or abs(ahead_us) < APART_US else ahead_us


def apart(ahead_us: int | None, whose: str = "this machine's clock") -> str:
    """A difference of a clock to the broker's, in words; empty: it is too small, or not known."""
    us = noticed(ahead_us)
    return f"{whose} is {abs(us) / 1e6:.1f} s {'ahead of' if us > 0 else 'behind'} the broker's" if us else ""


class Clock(Protocol):
    """Local monotonic time for the protocol, wall time for display and stimes; both int microseconds."""

    def now_us(self) -> MonotonicUs: ...

    def wall_us(self) -> WallUs: ...


class SystemClock:
    """This machine's clocks."""

    def now_us(self) -> MonotonicUs:
        return MonotonicUs(time.monotonic_ns() // 1000)

    def wall_us(self) -> WallUs:
        return WallUs(time.time_ns() // 1000)
