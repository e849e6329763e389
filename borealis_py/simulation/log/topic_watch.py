"""Asks the simulated log about a topic that other programs write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from borealis_py.log.base import Feed
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

    def __init__(self, client: Connection, topic: str) -> None:
        self._client, self._topic = client, topic

    def ask_partitions(self) -> MemoryQuery[TopicFound]:
        """See there. It is metadata, which any broker answers: a topic without a leader has partitions, too."""
        link, broker = self._client.link, self._client.log.broker
        return self._asked(lambda: broker.found(self._topic) if link.reaches(self._topic) else TopicFound(-1))

    def ask_ends(self, partitions: Sequence[int]) -> MemoryQuery[Mapping[int, Told]]:
        asked = tuple(partitions)
        return self._asked(lambda: {p: _told(self._there(p)) for p in asked})

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

        reachable = client.reaches(self._topic)
        client.after(client.link.delays.ends if reachable else client.link.delays.unreachable, answer)
        return query


def _told(partition: Partition | None) -> Told:
    return Told(None, None) if partition is None else Told(partition.stable_end, len(partition.records))
