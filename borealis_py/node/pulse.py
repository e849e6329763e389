"""Heartbeats during a long turn, so that peers do not take a busy replica for a dead one (R7)."""

from __future__ import annotations

import threading

from borealis_py.log.base import Appender, NewRecord
from borealis_py.protocol.settings import Timing


class Pulse:
    """Repeats the last heartbeat in the middle of a turn. Thread-safe.

    It stops `pulse_max_us` after the turn began: a hung replica must fall silent.
    """

    def __init__(self, appender: Appender, timing: Timing) -> None:
        self._appender = appender
        self._timing = timing
        self._lock = threading.Lock()  # otherwise an older heartbeat could follow a newer one
        self._last: NewRecord | None = None
        self._said_us = self._began_us = 0

    def turn(self, now: int) -> None:
        """A turn begins at `now`, in microseconds of the monotonic clock."""
        self._began_us = now

    def send(self, beat: NewRecord, now: int) -> None:
        """Send a heartbeat of the turn itself."""
        with self._lock:
            self._appender.append(beat)
            self._last, self._said_us = beat, now

    def repeat(self, now: int) -> None:
        """Send the last heartbeat again if it is due. Call it every `heartbeat_us` from another thread."""
        late = now - self._said_us >= 1.5 * self._timing.heartbeat_us
        if not late or now - self._began_us > self._timing.pulse_max_us:
            return
        with self._lock:
            if self._last is not None:
                self._appender.append(self._last)
                self._said_us = now
