"""A task's way out: what ends it when its driver cannot tell it to. For the main thread of a Python worker.

Spark tells its workers of its end by SIGHUP, whose default kills at once; a worker that outlives its daemon gets
another parent. Either is taken as "stop in order", and a task that does not is ended: no zombie stays behind.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOOK_S = 0.25
LEAVE_S = 8.0
"""A task that was told to end has not by then: its process ends, whatever hangs."""


@contextmanager
def ended_with_host(stop: threading.Event) -> Iterator[None]:
    """While it lasts, the end of the worker's host sets `stop`; then it is also the end of this process, since nobody
    is left to give a result to. Otherwise signals are as before afterwards.
    """
    over, orphaned = threading.Event(), threading.Event()
    numbers: list[int] = []

    def told(number: int, frame: object) -> None:
        numbers.append(number)  # takes no lock: see host/signals.py

    def watch() -> None:
        parent = os.getppid()
        while not over.wait(LOOK_S):
            if numbers or os.getppid() != parent:
                orphaned.set()
                stop.set()
                if not over.wait(LEAVE_S):
                    os._exit(1)
                return

    before = {number: signal.signal(number, told) for number in (signal.SIGHUP, signal.SIGTERM)}
    threading.Thread(target=watch, name="host watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        if numbers or orphaned.is_set():
            sys.stderr.flush()
            os._exit(0)
        for number, handler in before.items():
            signal.signal(number, handler)
