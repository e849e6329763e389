"""Signals that set an event, by way of a thread.

A handler runs in the main thread between any two of its steps, and an event has a lock that is not reentrant: a handler
that sets an event which the main thread is just waiting for, or which the handler of another signal is just setting,
waits for itself for ever. `SimpleQueue.put` may be called there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue


def set_by(
    numbers: Iterable[int], event: threading.Event, first: Callable[[], object] = lambda: None
) -> Callable[[], None]:
    """Have these signals set an event, from now on.

    Args:
        first: called in the handler, before the event is set. It must take no lock.

    Returns:
        What makes the signals do what they did before.
    """
    told: SimpleQueue[int | None] = SimpleQueue()

    def pass_on() -> None:
        while told.get() is not None:
            event.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()

    def handle(number: int, frame: object) -> None:
        first()
        told.put(number)

    before = {number: signal.signal(number, handle) for number in numbers}

    def undo() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        told.put(None)

    return undo


@contextmanager
def setting(event: threading.Event, *numbers: int, first: Callable[[], object] = lambda: None) -> Iterator[None]:
    """While it lasts, these signals set an event. `first`: as for `set_by`."""
    undo = set_by(numbers, event, first)
    try:
        yield
    finally:
        undo()
