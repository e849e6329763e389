"""What the tests of the log on Kafka share."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Appender, Delivery, Feed, NewRecord, Reader, Record, TopicSpec

T = TypeVar("T")
_numbers = itertools.count(1)


class Waiter:
    """Waits until something holds; its `wake` is what readers and writers call."""

    def __init__(self) -> None:
        self.woken = threading.Event()

    def wake(self) -> None:
        self.woken.set()

    def until(self, condition: Callable[[], T], timeout_s: float = 60.0) -> T:
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


@pytest.fixture
def waiter() -> Waiter:
    return Waiter()


@pytest.fixture
def log(bootstrap: str) -> KafkaLog:
    return KafkaLog(bootstrap)


@pytest.fixture
def new_feed(log: KafkaLog) -> Callable[..., Feed]:
    """Makes a topic that no test has used, and gives its first partition."""

    def make(*config: tuple[str, str]) -> Feed:
        name = f"kafka.t{next(_numbers)}"
        log.admin().create([TopicSpec(name, config=topics.EVENT_TIME + config)])
        return Feed(name)

    return make


@pytest.fixture
def fill(log: KafkaLog) -> Callable[[Feed, list[bytes]], None]:
    """Appends values, stamped 1000, 1001, ..."""

    def run(feed: Feed, values: list[bytes]) -> None:
        appender = log.appender(lambda: None)
        for i, value in enumerate(values):
            appender.append(NewRecord(feed, value, timestamp_ms=1000 + i))
        assert appender.flush(60.0)
        appender.close()

    return run
