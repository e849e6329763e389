"""Stalls of the machine and its broker, as a client sees them that does nothing else.

A result that came late because nothing moved is no sign of who was killed meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import TopicSpec
from tests.harness.waiting import PATIENCE_S

LOOK_S = 0.02
STALL_US = 300_000
"""A pause that is a stall: beside a take-over it may use up what a result may be late."""


def _wall_us() -> int:
    return time.time_ns() // 1000


class Stalls:
    """When nothing moved, by the wall clock in microseconds."""

    def __init__(self, clock: Callable[[], int] = _wall_us) -> None:
        self.seen: list[tuple[int, int]] = []
        self._clock = clock
        self._since = clock()

    def look(self) -> None:
        """Called again and again, and as often as all goes well."""
        now = self._clock()
        if now - self._since > STALL_US:
            self.seen.append((self._since, now))
        self._since = now

    def between(self, from_us: int, until_us: int) -> list[tuple[int, int]]:
        """Those that reach into this time, with the one that has not ended yet."""
        now = self._clock()
        going_on = [(self._since, now)] if now - self._since > STALL_US else []
        return [stall for stall in [*self.seen, *going_on] if stall[0] < until_us and stall[1] > from_us]

    def unexcused(self, buckets: Iterable[int], bucket_us: int, late_us: int) -> list[int]:
        """The buckets for which nothing stalled from their begin until results of them may come at the latest."""
        return [b for b in buckets if not self.between(b * bucket_us, (b + 1) * bucket_us + late_us)]


@contextmanager
def watched_stalls(bootstrap: str, topic: str) -> Iterator[Stalls]:
    """A thread writes to this topic, which it makes, and waits until that has arrived, again and again."""
    KafkaLog(bootstrap).admin().create([TopicSpec(topic)])
    stalls, over = Stalls(), threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        while not over.wait(LOOK_S):
            producer.produce(topic, b"", partition=0)
            producer.flush(PATIENCE_S)
            stalls.look()

    thread = threading.Thread(target=write, name="stalls")
    thread.start()
    try:
        yield stalls
    finally:
        over.set()
        thread.join()
