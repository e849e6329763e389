"""How fast the streams of an app grow, by their newest records. Blocking; for commands. Works on any log."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from borealis_py.app.topics import topics_of
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, LogUnreachable, Lookup, Record, TopicSpec
from borealis_py.query.partitions import physical
from borealis_py.query.spec import AppSpec

DAY_S = 86_400
_NEWEST = (200, 1_600, 12_800)
"""How many records of a partition are looked at; more where these have all one time, as a bucket's rows have."""
_BYTES_MAX = 16_000_000
"""No more is read of a partition: large records tell soon how fast they come."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How fast one topic grows, all its partitions together.

    Attributes:
        bytes_a_day: keys, values and headers, in a day of the data's time, as measured: before Kafka compresses and
            copies them. None: not known.
        records: how many were looked at. seconds: the time from the first of them to the last, by their timestamps; of
            several partitions the longest.
        unknown: why it is not known, in words; empty: it is.
    """

    bytes_a_day: float | None
    records: int = 0
    seconds: float = 0.0
    unknown: str = ""


def growth(log: Log, app: AppSpec) -> dict[str, Growth]:
    """The growth of each source, corrected stream and stream of a replica, by topic.

    Raises:
        LogUnreachable: no broker answers.
    """
    with closing(log.admin()) as admin:
        there = set(admin.topics())
    with closing(log.lookup()) as lookup:
        return {
            topic.name: _measured(lookup, topic) if topic.name in there else Growth(None, unknown="not running")
            for topic in _streams(app)
        }


def _streams(app: AppSpec) -> list[TopicSpec]:
    written = {topics.stream(app.name, name) for name in (*app.sources, *app.queries)}
    nodes = physical(app).all_nodes.items()
    of_replicas = {topics.replica(app.name, name, k) for name, node in nodes for k in range(node.replicas)}
    return [topic for topic in topics_of(app) if topic.name in written | of_replicas]


def _measured(lookup: Lookup, topic: TopicSpec) -> Growth:
    try:
        parts = [newest(lookup, Feed(topic.name, partition)) for partition in range(topic.partitions)]
    except LogUnreachable:
        raise
    except LogError as exc:
        return Growth(None, unknown=str(exc))
    seconds = [_seconds(records) for records in parts]
    count, longest = sum(map(len, parts)), max(seconds)
    if not longest:
        return Growth(None, count, unknown="no records yet" if not count else "no two records with a time between yet")
    a_day = sum(_bytes_after_the_first(records) / s for records, s in zip(parts, seconds, strict=True) if s) * DAY_S
    return Growth(a_day, count, longest)


def newest(lookup: Lookup, feed: Feed) -> list[Record]:
    """The newest records of a partition: 200, or more if these have all one time. Raises LogError."""
    first, end = lookup.bounds(feed)
    found: list[Record] = []
    for count in _NEWEST:
        begin, size = max(first, end - count), 0
        found = []
        for record in lookup.read(feed, begin, end):
            found.append(record)
            size += _size(record)
            if size > _BYTES_MAX:
                break
        if begin == first or size > _BYTES_MAX or _seconds(found):
            break
    return found


def _seconds(records: list[Record]) -> float:
    """Of corrections, later records may be of earlier times."""
    stamps = [record.timestamp_ms for record in records]
    return (max(stamps) - min(stamps)) / 1_000 if stamps else 0.0


def _bytes_after_the_first(records: list[Record]) -> int:
    """The bytes that came in the time between: those of the first time were there when it began."""
    since = min(record.timestamp_ms for record in records)
    return sum(_size(record) for record in records if record.timestamp_ms > since)


def _size(record: Record) -> int:
    headers = sum(len(name.encode()) + len(value) for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
