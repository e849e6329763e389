"""Simulated time, and the links between two nodes."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from benchmarks.recovery.setting import PaperSetting


class EventClock:
    """Runs calls in the order of their times, and of equal times in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now_us = 0
        self._asked = 0
        self._events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, at_us: int, call: Callable[..., None], *args: Any) -> None:
        """Call it then."""
        heappush(self._events, (at_us, self._asked, call, args))
        self._asked += 1

    def run(self, until_us: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Run everything before `until_us`, or until `stop` holds after a call."""
        events = self._events
        while events and events[0][0] < until_us and not stop():
            self.now_us, _, call, args = heappop(events)
            call(*args)


class PaperLink:
    """One direction between two nodes, which has the full bandwidth for itself. In order, nothing is lost (H 27)."""

    def __init__(self, clock: EventClock, setting: PaperSetting) -> None:
        self._clock = clock
        self._setting = setting
        self._free_us = 0
        self._cut_us: int | None = None

    def send(self, size_bytes: int, arrives: Callable[..., None], *args: Any) -> int:
        """Send a message, whose arrival is a call. Returns when its first bit is sent."""
        begins_us = max(self._clock.now_us, self._free_us)
        self._free_us = begins_us + self._setting.sending_us(size_bytes)
        self._clock.at(self._free_us + self._setting.delay_us, self._arrive, self._free_us, arrives, args)
        return begins_us

    def cut(self) -> None:
        """The sender has failed: what it had not sent entirely does not arrive."""
        self._cut_us = self._clock.now_us

    def _arrive(self, sent_us: int, arrives: Callable[..., None], args: tuple[Any, ...]) -> None:
        if self._cut_us is None or sent_us <= self._cut_us:
            arrives(*args)
