"""Ends a task whose driver cannot tell it to end. For the main thread of a Python worker.

Spark signals its end to workers by SIGHUP, which kills at once by default; a worker that outlives its daemon gets
another parent. Both are taken as "stop in order", and a task that does not stop is killed: no zombie remains.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOOK_S = 0.25
ENDS = frozenset({signal.SIGHUP, signal.SIGTERM})
LEAVE_S = 8.0
"""A task that has not ended this long after being told to is killed with its process, whatever hangs."""


@contextmanager
def ended_with_host(stop: threading.Event) -> Iterator[None]:
    """Within this context, the end of the worker's host sets `stop`. After it, the process ends if its host has ended,
    since no one is left to take a result; otherwise signals are restored.
    """
    over, orphaned = threading.Event(), threading.Event()
    numbers: list[int] = []
    woken, wake = os.pipe()  # written where the signal arrives: a main thread that hangs in native code runs no handler
    os.set_blocking(wake, False)

    def told(number: int, frame: object) -> None:
        numbers.append(number)  # takes no lock: see config/signals.py

    def watch() -> None:
        parent = os.getppid()
        while not over.is_set():
            ready = select.select([woken], [], [], LOOK_S)[0]
            signalled = bool(ready) and not ENDS.isdisjoint(os.read(woken, 64))  # other signals are written there too
            if not over.is_set() and (signalled or os.getppid() != parent):
                orphaned.set()
                stop.set()
                if not over.wait(LEAVE_S):
                    os._exit(1)
                return

    before = {number: signal.signal(number, told) for number in ENDS}
    wakes = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    watcher = threading.Thread(target=watch, name="host watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        if numbers or orphaned.is_set():
            sys.stderr.flush()
            os._exit(0)
        signal.set_wakeup_fd(wakes)
        os.write(wake, b"\0")
        for number, handler in before.items():
            signal.signal(number, handler)
        watcher.join()
        os.close(woken)
        os.close(wake)
