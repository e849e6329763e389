"""Time as a dependency, so that the simulator can supply its own."""

from __future__ import annotations

import time
from typing import Protocol

from sunion.units import MonotonicUs, WallUs


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
