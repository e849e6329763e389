"""Waits until a client has called its wake."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from borealis_py.log.base import Appender, Delivery, Reader, Record
from tests.harness.waiting import PATIENCE_S

T = TypeVar("T")


class Waiter:
    """Waits until something holds; its `wake` is what readers and writers call."""

    def __init__(self) -> None:
        self.woken = threading.Event()

    def wake(self) -> None:
        self.woken.set()

    def until(self, condition: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            assert time.monotonic() < deadline, "the condition did not come to hold"
            self.woken.wait(0.02)
            self.woken.clear()
        return found

    def read(self, reader: Reader, count: int) -> list[Record]:
        """Poll until at least `count` records came."""
        records: list[Record] = []

        def enough() -> bool:
            records.extend(reader.poll())
            return len(records) >= count

        self.until(enough)
        return records

    def deliver(self, appender: Appender, count: int) -> list[Delivery]:
        """Poll until at least `count` deliveries came."""
        done: list[Delivery] = []

        def enough() -> bool:
            done.extend(appender.deliveries())
            return len(done) >= count

        self.until(enough)
        return done
