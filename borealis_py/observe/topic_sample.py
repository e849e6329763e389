"""Reads a sample of a topic: the newest records of each partition, at most so many in all. Blocking."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from borealis_py.log.base import Feed, Log, LogError, Record
from borealis_py.query.errors import WrongWord, nearest

if TYPE_CHECKING:
    from borealis_py.ingress.absent_columns import AbsentColumn
    from borealis_py.ingress.decoder import TopicDecoder

PARTITIONS_READ = 64
"""Of a topic with more partitions, the first ones stand for the others."""


class UnknownTopic(LogError, WrongWord):
    """There is no topic of the name that was given."""


def sample(log: Log, topic: str, most: int) -> tuple[int, list[Record]]:
    """The number of partitions, and records, each partition's in order.

    Args:
        most: records in all.

    Raises:
        UnknownTopic: there is none of that name; the message names those nearest to it.
        LogError: it may not be seen, or not be read.
        LogUnreachable: no broker.
    """
    with closing(log.admin()) as admin:
        partitions = admin.partitions(topic)
        if not partitions:
            raise UnknownTopic(f"there is no topic {topic!r}{nearest(topic, admin.topics(), 'topics there')}")
    read = min(partitions, PARTITIONS_READ)
    found: list[Record] = []
    with closing(log.lookup()) as lookup:
        for feed in (Feed(topic, p) for p in range(read)):
            first, end = lookup.bounds(feed)
            found += lookup.read(feed, max(first, end - max(1, most // read)), end)
    return partitions, found


def absent_in(log: Log, topic: str, decoder: TopicDecoder, most: int) -> tuple[AbsentColumn, ...]:
    """The columns that none of the newest records of a topic has, as an ingress would report them (`AbsentColumns`).

    Args:
        decoder: of the topic, new: it has seen no record. most: as for `sample`.

    Raises:
        UnknownTopic, LogError: as `sample` does; also if the records cannot be decoded now.
    """
    from borealis_py.ingress.topic_stimes import wait_ready  # with the engine

    _, records = sample(log, topic, most)
    wait_ready(decoder, records, topic)
    decoder.decode(records)
    return decoder.absent.found()
