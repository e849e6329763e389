"""The topics by which tasks and drivers talk, whose messages can be kept back and lost, and a clock set by hand."""

from __future__ import annotations

from threading import Event

from borealis_py.log.base import Appender, Delivery, Feed, Lookup, NewRecord, Reader, Wake
from tests.harness.waiting import PATIENCE_S
from tests.support.instant_log import InstantLog


class HandClock:
    """Time as a test says."""

    def __init__(self) -> None:
        self.us = 1_000_000

    def now_us(self) -> int:
        return self.us

    def wall_us(self) -> int:
        return self.us


class RpcLog(InstantLog):
    """Many clients may have it. `answers`: while it is clear, who wants to look something up waits.

    Args:
        feeds: of the topics that exist, each with a partition for requests and one for replies.
    """

    def __init__(self, *feeds: Feed) -> None:
        super().__init__()
        self.create({feed.topic: None for feed in feeds}, partitions=2)
        self.answers = Event()
        self.answers.set()
        self._appenders: list[Appender] = []
        self.seldom: list[bool] = []
        """Of each reader that was opened, whether it reads seldom."""

    def reader(self, wake: Wake, seldom: bool = False) -> Reader:
        self.seldom.append(seldom)
        return super().reader(wake, seldom)

    def lookup(self) -> Lookup:
        assert self.answers.wait(PATIENCE_S)
        return super().lookup()

    def appender(self, wake: Wake) -> Appender:
        self._appenders.append(super().appender(wake))
        return self._appenders[-1]

    def values(self, feed: Feed) -> list[bytes]:
        return [r.value or b"" for r in self.committed(feed)]

    def repeat(self, feed: Feed) -> None:
        """Append all its records once more."""
        self.put(*(NewRecord(feed, value) for value in self.values(feed)))

    def hold(self, feed: Feed) -> None:
        """Nobody leads its topic: what is appended waits for `release`."""
        with self.broker.settled() as memory:
            memory.depose([feed.topic])

    def release(self, feed: Feed) -> None:
        """What was kept back arrives."""
        with self.broker.settled() as memory:
            memory.elect([feed.topic])

    def lose(self, feed: Feed) -> None:
        """Retention deletes all its records."""
        self.delete_before(feed, len(self.committed(feed)))

    def untaken(self) -> list[Delivery]:
        """Deliveries that those who appended have asked for and not taken: their memory would grow."""
        return [delivery for appender in self._appenders for delivery in appender.deliveries()]
