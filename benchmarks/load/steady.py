"""Backlogs of several sources at steady rates, as their publishers write them to the sources' logs: one record per
bucket. Pure; `events.Backlog` is that of one source with large records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from borealis_py.bench.events import BUCKET_US, START_US, WINDOW_US, Totals, event_json, values
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.records import BatchHeader, ClaimHeader, pack, pack_stimes
from sunion.bucket import Buckets

UID = "bench"
"""Of the one publisher that each source has had."""
BUCKETS = Buckets(BUCKET_US)
ORIGIN = BUCKETS.of(START_US)
"""The first bucket."""


@dataclass(frozen=True, slots=True)
class Steady:
    """`per_bucket` rows of each source, evenly spaced, in each of `buckets` buckets from `ORIGIN` on.

    Row n of source s is event n * sources + s, and no two sources' rows are one event.

    Raises:
        ValueError: nothing is in it.
    """

    per_bucket: tuple[int, ...]
    buckets: int

    def __post_init__(self) -> None:
        if self.buckets < 1 or not self.per_bucket or min(self.per_bucket) < 1:
            raise ValueError(f"{self.buckets} buckets with {self.per_bucket} rows of each source: at least one of each")

    @property
    def end(self) -> int:
        """The bucket after the last one."""
        return ORIGIN + self.buckets

    @property
    def rows(self) -> int:
        """Of all sources."""
        return self.buckets * sum(self.per_bucket)

    def stimes(self, source: int, bucket: int) -> list[int]:
        """Of a source's rows in a bucket, ascending. Microseconds."""
        start, per = BUCKETS.start(bucket), self.per_bucket[source]
        return [start + n * BUCKET_US // per for n in range(per)]

    def events(self, source: int, bucket: int) -> range:
        """The events that a source has in a bucket."""
        sources, per = len(self.per_bucket), self.per_bucket[source]
        first = (bucket - ORIGIN) * per * sources + source
        return range(first, first + per * sources, sources)

    def records(self, feed: Feed, app_uid: str, source: int) -> Iterator[NewRecord]:
        """A source's log: the publisher's claim, then a record a bucket, each closing its bucket."""
        yield NewRecord(feed, pack(ClaimHeader(app_uid, 1, UID)), timestamp_ms=START_US // 1000)
        per = self.per_bucket[source]
        for number, bucket in enumerate(range(ORIGIN, self.end)):
            stimes = self.stimes(source, bucket)
            header = BatchHeader(app_uid, 1, UID, number * per, pack_stimes(stimes), BUCKETS.end(bucket), "json")
            numbered = zip(self.events(source, bucket), stimes, strict=True)
            rows = b"[" + b",".join([event_json(i, at) for i, at in numbered]) + b"]"
            yield NewRecord(feed, pack(header, rows), timestamp_ms=BUCKETS.timestamp_ms(bucket))

    def truth(self) -> Totals:
        """Count and sum per customer and second, by plain arithmetic."""
        counts: Counter[tuple[int, str]] = Counter()
        sums: defaultdict[tuple[int, str], float] = defaultdict(float)
        for source in range(len(self.per_bucket)):
            for bucket in range(ORIGIN, self.end):
                window = BUCKETS.start(bucket) // WINDOW_US * WINDOW_US
                for i in self.events(source, bucket):
                    customer, amount, _, _ = values(i)
                    counts[window, customer] += 1
                    sums[window, customer] += amount
        return {key: (n, sums[key]) for key, n in counts.items()}
