"""Says in the log which function does not return. It cannot end the call: nothing interrupts Python from outside."""

from __future__ import annotations

import itertools
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__package__)

LONG_S = 5.0
"""How long a call may take until the log says so, in seconds; again after twice as long, and so on."""
LOOK_S = 1.0


@dataclass
class _Call:
    name: str
    rows: int
    thread: int
    started: float
    said_after_s: float


class Watchdog:
    """Watches the calls of one process. Its thread starts with the first call.

    Args:
        long_s: see `LONG_S`. look_s: how often it looks.
    """

    def __init__(self, long_s: float = LONG_S, look_s: float = LOOK_S) -> None:
        self._long_s = long_s
        self._look_s = look_s
        self._numbers = itertools.count()
        self._calls: dict[int, _Call] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, name: str, rows: int) -> Iterator[None]:
        """A call of this function with so many rows."""
        if self._thread is None:
            self._start()
        number = next(self._numbers)
        self._calls[number] = _Call(name, rows, threading.get_ident(), time.monotonic(), self._long_s)
        try:
            yield
        finally:
            call = self._calls.pop(number)
            if call.said_after_s > self._long_s:
                log.warning("function returned", function=name, after_s=round(time.monotonic() - call.started, 1))

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="functions", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        while True:
            time.sleep(self._look_s)
            now = time.monotonic()
            for call in list(self._calls.values()):
                if now - call.started >= call.said_after_s:
                    call.said_after_s *= 2
                    self._say(call, now)

    def _say(self, call: _Call, now: float) -> None:
        frame = sys._current_frames().get(call.thread)
        at = "" if frame is None else _place(traceback.extract_stack(frame)[-1])
        log.warning(
            "function does not return: its query waits, and nothing can end the call but the process's end",
            function=call.name,
            rows=call.rows,
            for_s=round(now - call.started, 1),
            at=at,
        )


def _place(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}, line {frame.lineno}, in {frame.name}"


WATCHDOG = Watchdog()
