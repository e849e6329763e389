"""The one wake-up that a simulated process waits for."""

from __future__ import annotations

from collections.abc import Callable

from borealis_py.simulation.cluster.clock import Scheduler


class Alarm:
    """Calls `ring` at the time set last, or before: a turn that finds nothing due does no harm."""

    def __init__(self, scheduler: Scheduler, ring: Callable[[], object]) -> None:
        self._scheduler, self._ring = scheduler, ring
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
