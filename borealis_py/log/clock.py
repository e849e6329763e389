"""Time, as something that is passed in. The simulator passes its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Local monotonic time for the protocol, wall time for people and stimes; both int microseconds."""

    def now_us(self) -> int: ...

    def wall_us(self) -> int: ...


class SystemClock:
    """This machine's clocks."""

    def now_us(self) -> int:
        return time.monotonic_ns() // 1000

    def wall_us(self) -> int:
        return time.time_ns() // 1000
