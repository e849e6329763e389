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


class TimesMisread(ValueError):
    """The first times of a topic are none of our days, but would be in another unit."""


def first_stime(lookup: Lookup, topic: str, partitions: int, decoder: TopicDecoder) -> int | None:
    """Microseconds since 1970; None: no row is there. Single rows whose times seem to be in another unit do not count.

    Raises:
        LogError: also if the records cannot be decoded yet.
        TimesMisread: all times seem to be in another unit.
    """
    found: list[int] = []
    for feed in (Feed(topic, p) for p in range(partitions)):
        first, end = lookup.bounds(feed)
        records = list(islice(lookup.read(feed, first, end), LOOK_RECORDS))
        _wait(decoder, records, topic)
        found += decoder.decode(records).stimes.tolist() if records else []
    misread = [(decoder.misread(stime, 0), stime) for stime in found]
    if misread and all(why for why, _ in misread):
        raise TimesMisread(f"topic {topic}: its first times seem to be read wrong: {misread[0][0]}")
    return min((stime for why, stime in misread if not why), default=None)


def _wait(decoder: TopicDecoder, records: Sequence[Record], topic: str) -> None:
    until = time.monotonic() + READY_S
    while decoder.ready(records) < len(records):
        if time.monotonic() > until:
            raise LogError(f"topic {topic}: its first records cannot be decoded now: {decoder.waits_for()}")
        time.sleep(LOOK_S)
