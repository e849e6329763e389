"""The simulated log for tests that no scheduler drives: whatever a call causes has happened when it returns.

Offsets, transactions, retention and cuts are those of `borealis_py.simulation.log`; `tests/contract` runs on it as on
Kafka. Its clock is the machine's, so that only timeouts take time. It cannot be pickled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from borealis_py.log.base import (
    Admin,
    Appender,
    Deleter,
    Feed,
    Lookup,
    Mending,
    NewRecord,
    Reader,
    Record,
    Resume,
    TopicSpec,
    Transactor,
    Unended,
    Wake,
)
from borealis_py.log.foreign import TopicWatch
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.latency import Latencies
from borealis_py.simulation.log.client import MemoryLog


def _none(_rng: object) -> int:
    return 0


AT_ONCE = Latencies(_none, _none, _none, _none, _none, _none, _none)


class InstantBroker:
    """The log that several clients share. Safe for threads.

    Args:
        memory: None: a new, empty one.
    """

    def __init__(self, memory: MemoryLog | None = None) -> None:
        self.memory = memory or MemoryLog(Scheduler(time.time_ns() // 1000))
        self._lock = threading.RLock()

    def log(self, client: str = "a") -> InstantLog:
        """The log as one process sees it; another name is another process."""
        return InstantLog(self, client)

    @contextmanager
    def settled(self) -> Iterator[MemoryLog]:
        """The simulated log for one thread; all that is due by now happens before and after."""
        with self._lock:
            self._settle()
            try:
                yield self.memory
            finally:
                self._settle()

    def _settle(self) -> None:
        scheduler = self.memory.scheduler
        scheduler.run_until(max(scheduler.now_us, time.time_ns() // 1000))


class InstantLog:
    """Implements `log.base.Log` for one client, with what a test does to the log.

    Args:
        broker: None: one of its own.
    """

    def __init__(self, broker: InstantBroker | None = None, client: str = "a") -> None:
        self.broker = broker or InstantBroker()
        self._name = client
        self._unclosed: set[_SettledPart] = set()
        with self.broker.settled() as memory:
            memory.set_delays(client, AT_ONCE)
            self._client = memory.client(client)

    def reader(self, wake: Wake, seldom: bool = False) -> Reader:
        return self._settled(lambda: self._client.reader(wake, seldom))

    def appender(self, wake: Wake) -> Appender:
        return self._settled(lambda: self._client.appender(wake))

    def lookup(self) -> Lookup:
        return self._settled(self._client.lookup)

    def topic_watch(self, topic: str, wake: Wake) -> TopicWatch:
        """See `log.foreign.ForeignLog`."""
        return self._settled(lambda: self._client.topic_watch(topic, wake))

    def transactor(
        self,
        transactional_id: str,
        progress: Feed,
        wake: Wake,
        resume: Resume,
        mending: Mending | None = None,
        unended: Unended | None = None,
    ) -> Transactor:
        return self._settled(
            lambda: self._client.transactor(transactional_id, progress, wake, resume, mending, unended)
        )

    def admin(self) -> Admin:
        return self._settled(self._client.admin)

    def deleter(self) -> Deleter:
        return self._settled(self._client.deleter)

    @property
    def unclosed(self) -> int:
        """How many of the readers, lookups and so on that were opened here are not closed."""
        return len(self._unclosed)

    def create(self, topics: Iterable[str], partitions: int = 1) -> None:
        """Make empty topics. One that is there is deleted before, with all its records."""
        with self.broker.settled() as memory:
            for topic in topics:
                memory.broker.delete(topic)
                memory.broker.create(TopicSpec(topic, partitions))
            memory.healed()

    def delete_topics(self) -> None:
        """Delete every topic there is."""
        with self.broker.settled() as memory:
            for topic in memory.broker.topics():
                memory.broker.delete(topic)

    def put(self, *records: NewRecord) -> None:
        """Append, as a client that no cut concerns. Raises LogError: there is no such topic."""
        with self.broker.settled() as memory:
            for record in records:
                memory.broker.append(record)

    def committed(self, feed: Feed) -> list[Record]:
        """Every record a reader of the whole feed would have seen, including those that retention has deleted."""
        with self.broker.settled() as memory:
            return memory.committed(feed)

    def delete_before(self, feed: Feed, offset: int) -> None:
        """Retention: `feed` starts at `offset` from now on."""
        with self.broker.settled() as memory:
            memory.delete_before(feed, offset)

    def cut(self) -> None:
        """No broker answers this client any more, until `heal`."""
        with self.broker.settled() as memory:
            memory.cut(self._name)

    def heal(self) -> None:
        with self.broker.settled() as memory:
            memory.heal(self._name)

    def _settled(self, make: Callable[[], Any]) -> Any:
        with self.broker.settled():
            part = _SettledPart(self.broker, make(), self._unclosed)
        self._unclosed.add(part)
        return part


class _SettledPart:
    """A reader, lookup and so on, whose every call lets happen what is due."""

    def __init__(self, broker: InstantBroker, inner: Any, unclosed: set[_SettledPart]) -> None:
        self._broker = broker
        self._inner = inner
        self._unclosed = unclosed

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if not callable(method):
            return method

        def call(*args: Any, **options: Any) -> Any:
            with self._broker.settled():
                return method(*args, **options)

        return call

    def close(self) -> None:
        with self._broker.settled():
            self._inner.close()
        self._unclosed.discard(self)
