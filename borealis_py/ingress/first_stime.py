"""The earliest time among the first records of a foreign topic: where an app that reads all of it begins. Blocking."""

from __future__ import annotations

from itertools import islice

from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.log.base import Feed, Lookup

LOOK_RECORDS = 1_000
"""How many records of each partition are looked at: the first ones may not be in the order of their times."""


def first_stime(lookup: Lookup, topic: str, partitions: int, decoder: TopicDecoder) -> int | None:
    """Microseconds since 1970; None: no row is there. Raises LogError."""
    found: list[int] = []
    for feed in (Feed(topic, p) for p in range(partitions)):
        first, end = lookup.bounds(feed)
        records = list(islice(lookup.read(feed, first, end), LOOK_RECORDS))
        found += decoder.decode(records).stimes.tolist() if records else []
    return min(found, default=None)
