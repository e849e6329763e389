"""Signals that set an event, by way of a thread.

A handler runs in the main thread between any two of its steps, and an event's lock is not reentrant: a handler that
sets an event for which the main thread is just waiting, or which another signal's handler is just setting, would
deadlock. `SimpleQueue.put` is safe there.
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
    """Make these signals set an event.

    Args:
        first: called in the handler, before the event is set. It must not take a lock.

    Returns:
        A function that restores the previous handlers.
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
    """Make these signals set an event for the duration of the context. `first`: as for `set_by`."""
    undo = set_by(numbers, event, first)
    try:
        yield
    finally:
        undo()
