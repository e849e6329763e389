"""Starting processes that outlive who starts them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Handle Ctrl-C and its like only afterwards: a process that was started and not noted yet would be found by nobody
    who is to end it. Signals that are ignored, or end this process at once, are left alone."""
    if threading.current_thread() is not threading.main_thread():  # no handler is called here
        yield
        return
    came: list[int] = []
    before = {number: handler for number in INTERRUPTS if callable(handler := signal.getsignal(number))}
    for number in before:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in came:
            signal.raise_signal(one)
