"""Simulated time: a heap of events, no ticks. Everything in a simulated world runs from here, in one order.

It knows nothing of logs or replicas, and never reads the real clock: the same calls give the same run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Scheduler:
    """Runs functions at simulated times; those of one instant in the order in which they were scheduled.

    Args:
        start_us: the first instant, in microseconds since 1970, so that stimes and wall clock share one scale.
    """

    __slots__ = ("_asked", "_heap", "now_us")

    def __init__(self, start_us: int = 0) -> None:
        self.now_us = start_us
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._asked = 0

    def at(self, time_us: int, fn: Callable[[], object]) -> None:
        """Run `fn` at `time_us`, or now (after what is due) if that has passed."""
        self._asked += 1
        now_us = self.now_us
        heapq.heappush(self._heap, (time_us if time_us > now_us else now_us, self._asked, fn))

    def after(self, delay_us: int, fn: Callable[[], object]) -> None:
        """Run `fn` in `delay_us` microseconds."""
        self.at(self.now_us + delay_us, fn)

    @property
    def next_us(self) -> int | None:
        """When the next event is due; None: there is none."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> bool:
        """Run the next event. False if there is none."""
        if not self._heap:
            return False
        self.now_us, _, fn = heapq.heappop(self._heap)
        fn()
        return True

    def run_until(self, time_us: int) -> None:
        """Run everything due up to and including `time_us`, and advance to it."""
        heap = self._heap
        while heap and heap[0][0] <= time_us:
            self.now_us, _, fn = heapq.heappop(heap)
            fn()
        self.now_us = max(self.now_us, time_us)


class Alarm:
    """Calls `ring` at the time set last, or before: a turn that finds nothing due does no harm."""

    def __init__(self, scheduler: Scheduler, ring: Callable[[], object]) -> None:
        self._scheduler = scheduler
        self._ring = ring
        self._at_us: int | None = None

    def set(self, at_us: int) -> None:
        """Ring at `at_us`."""
        if self._at_us is None or at_us < self._at_us or self._at_us <= self._scheduler.now_us:
            self._at_us = at_us
            self._scheduler.at(at_us, lambda: self._due(at_us))

    def _due(self, at_us: int) -> None:
        if self._at_us == at_us:
            self._at_us = None
        self._ring()
