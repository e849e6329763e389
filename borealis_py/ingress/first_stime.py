"""The earliest time among the first records of a foreign topic: where an app that reads all of it begins. Blocking."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice

from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.log.base import Feed, LogError, Lookup, Record

READY_S, LOOK_S = 10.0, 0.02
"""How long to wait for what the records need to be decoded, and how often to look."""
LOOK_RECORDS = 1_000
"""How many records of each partition are looked at: the first ones may not be in the order of their times."""


def first_stime(lookup: Lookup, topic: str, partitions: int, decoder: TopicDecoder) -> int | None:
    """Microseconds since 1970; None: no row is there. Raises LogError, also if the records cannot be decoded yet."""
    found: list[int] = []
    for feed in (Feed(topic, p) for p in range(partitions)):
        first, end = lookup.bounds(feed)
        records = list(islice(lookup.read(feed, first, end), LOOK_RECORDS))
        _wait(decoder, records, topic)
        found += decoder.decode(records).stimes.tolist() if records else []
    return min(found, default=None)


def _wait(decoder: TopicDecoder, records: Sequence[Record], topic: str) -> None:
    until = time.monotonic() + READY_S
    while decoder.ready(records) < len(records):
        if time.monotonic() > until:
            raise LogError(f"topic {topic}: its first records cannot be decoded now: {decoder.waits_for()}")
        time.sleep(LOOK_S)
