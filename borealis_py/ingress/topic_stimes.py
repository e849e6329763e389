"""Times of a foreign topic's first and last records, for where an app that reads it begins. Blocking."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice

from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.log.base import Feed, LogError, Lookup, Record

READY_S, LOOK_S = 10.0, 0.02
"""How long to wait for what the records need to be decoded, and how often to look."""
LOOK_RECORDS = 1_000
"""How many records of each partition are looked at: they may not be in the order of their times."""


class TimesMisread(ValueError):
    """The first times of a topic are none of our days, but would be in another unit."""


def first_stime(lookup: Lookup, topic: str, partitions: int, decoder: TopicDecoder) -> int | None:
    """Microseconds since 1970; None: no row is there. Single rows whose times seem to be in another unit do not count.

    Raises:
        LogError: also if the records cannot be decoded yet.
        TimesMisread: all times seem to be in another unit.
    """
    found: list[int] = []
    refused = ""
    for feed in (Feed(topic, p) for p in range(partitions)):
        first, end = lookup.bounds(feed)
        records = list(islice(lookup.read(feed, first, end), LOOK_RECORDS))
        wait_ready(decoder, records, topic)
        if not records:
            continue
        decoded = decoder.decode(records)
        found += decoded.stimes.tolist()
        refused = refused or decoded.misread
    if refused and not found:
        raise TimesMisread(f"topic {topic}: its first times seem to be read wrong: {refused}")
    misread = [(decoder.misread(stime, 0), stime) for stime in found]
    if misread and all(why for why, _ in misread):
        raise TimesMisread(f"topic {topic}: its first times seem to be read wrong: {misread[0][0]}")
    return min((stime for why, stime in misread if not why), default=None)


def last_stime(
    lookup: Lookup, topic: str, ends: Sequence[tuple[int, int]], decoder: TopicDecoder, most_us: int
) -> int | None:
    """The largest time among the last records of each partition, in microseconds since 1970; None: no row is there.

    Args:
        ends: of each partition, the first offset that it has and the one to look before.
        most_us: later rows do not count: they are refused.

    Raises:
        LogError: also if the records cannot be decoded yet.
    """
    found: list[int] = []
    for p, (first, end) in enumerate(ends):
        records = list(lookup.read(Feed(topic, p), max(first, end - LOOK_RECORDS), end))
        wait_ready(decoder, records, topic)
        if records:
            found += decoder.decode(records).stimes.tolist()
    return max((stime for stime in found if stime <= most_us), default=None)


def wait_ready(decoder: TopicDecoder, records: Sequence[Record], topic: str) -> None:
    """Wait for what these records need to be decoded (schemas). Raises LogError: it does not come."""
    until = time.monotonic() + READY_S
    while decoder.ready(records) < len(records):
        if time.monotonic() > until:
            raise LogError(f"topic {topic}: its records cannot be decoded now: {decoder.waits_for()}")
        time.sleep(LOOK_S)
