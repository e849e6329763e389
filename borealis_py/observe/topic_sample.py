"""Reads a sample of a topic: the newest records of each partition, at most so many in all. Blocking."""

from __future__ import annotations

from contextlib import closing

from borealis_py.log.base import Feed, Log, LogError, Record
from borealis_py.query.errors import nearest

PARTITIONS_READ = 64
"""Of a topic with more partitions, the first ones stand for the others."""


def sample(log: Log, topic: str, most: int) -> tuple[int, list[Record]]:
    """The number of partitions, and records, each partition's in order.

    Args:
        most: records in all.

    Raises:
        LogError: there is no such topic (the message names those nearest to it), or it may not be read.
        LogUnreachable: no broker.
    """
    with closing(log.admin()) as admin:
        partitions = admin.partitions(topic)
        if not partitions:
            raise LogError(f"there is no topic {topic!r}{nearest(topic, admin.topics(), 'topics there')}")
    read = min(partitions, PARTITIONS_READ)
    found: list[Record] = []
    with closing(log.lookup()) as lookup:
        for feed in (Feed(topic, p) for p in range(read)):
            first, end = lookup.bounds(feed)
            found += lookup.read(feed, max(first, end - max(1, most // read)), end)
    return partitions, found
