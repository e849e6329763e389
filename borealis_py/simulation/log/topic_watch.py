"""Asks the simulated log about a topic that other programs write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from borealis_py.log.base import Feed, Wake
from borealis_py.log.foreign import Told, TopicFound
from borealis_py.simulation.log.broker import Partition
from borealis_py.simulation.log.connection import Connection

A = TypeVar("A")


class MemoryQuery(Generic[A]):
    """Implements the queries of `log.foreign`."""

    def __init__(self) -> None:
        self.answer: A | None = None

    def poll(self) -> A | None:
        return self.answer


class MemoryTopicWatch:
    """Implements `log.foreign.TopicWatch`."""

    def __init__(self, client: Connection, topic: str, wake: Wake) -> None:
        self._client = client
        self._topic = topic
        self._wake = wake
        self._count: MemoryQuery[TopicFound] | None = None
        self._ends: MemoryQuery[Mapping[int, Told]] | None = None
        self._ahead = False

    def ask_partitions(self, ahead: bool = False) -> MemoryQuery[TopicFound]:
        """See there. It is metadata, which any broker answers: a topic without a leader has partitions, too."""
        link, broker = self._client.link, self._client.log.broker
        self._ahead = ahead
        self._count = self._asked(lambda: broker.found(self._topic) if link.reaches(self._topic) else TopicFound(-1))
        return self._count

    def _answered(self) -> None:
        pending = any(query is not None and query.answer is None for query in (self._count, self._ends))
        if not self._ahead and not pending:
            self._wake()

    def ask_ends(self, partitions: Sequence[int]) -> MemoryQuery[Mapping[int, Told]]:
        asked, self._ahead = tuple(partitions), False
        self._ends = self._asked(lambda: {p: _told(self._there(p)) for p in asked})
        return self._ends

    def ask_starts(self, partitions: Sequence[int]) -> MemoryQuery[Mapping[int, int | None]]:
        asked = tuple(partitions)
        return self._asked(lambda: {p: None if (at := self._there(p)) is None else at.start for p in asked})

    def close(self) -> None:
        pass

    def _there(self, partition: int) -> Partition | None:
        feed = Feed(self._topic, partition)
        return (
            self._client.log.broker.existing(feed)
            if self._client.reaches(feed.topic) and self._client.led(feed)
            else None
        )

    def _asked(self, look: Callable[[], A]) -> MemoryQuery[A]:
        query, client = MemoryQuery[A](), self._client

        def answer() -> None:
            query.answer = look()
            self._answered()

        reachable = client.reaches(self._topic)
        client.after(client.link.delays.ends if reachable else client.link.delays.unreachable, answer)
        return query


def _told(partition: Partition | None) -> Told:
    return Told(None, None) if partition is None else Told(partition.stable_end, partition.high_watermark)
