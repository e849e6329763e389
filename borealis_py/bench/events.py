"""The events of the benchmarks: five fields, about 90 bytes of JSON, and the results they give. Pure.

Amounts are multiples of a quarter, so that every order of addition gives the same sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from borealis_py import App
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.records import BatchHeader, ClaimHeader, pack, pack_stimes
from borealis_py.query.spec import PolicyName
from sunion.bucket import Buckets

SCHEMA = {"at": "int64", "customer": "string", "amount": "double", "shop": "string", "kind": "string"}
QUERY = "totals"
BUCKET_US = 100_000
WINDOW_US = 1_000_000
CUSTOMERS = 100
PERIOD = 50_000
START_US = 1_750_000_000_000_000
"""Stime of a backlog's first event: some whole second of 2025."""


@dataclass(frozen=True, slots=True)
class KeptTopics:
    """What is kept of an app's topics: `app`, of its replicas' streams; `source`, of each source."""

    app: str
    source: str


KEPT = {
    "all": KeptTopics("all", "all"),
    "default": KeptTopics("1h", "all"),
    "needed": KeptTopics("needed", "needed"),
}
Totals = dict[tuple[int, str], tuple[int, float]]
"""(window start, customer) -> count and sum."""


def app(
    name: str,
    sources: int,
    replicas: int,
    threshold: str = "3s",
    policy: PolicyName = "process",
    kept: str = "default",
) -> App:
    """Count and sum per customer and second over the union of `sources` streams s0, s1 ...

    Args:
        threshold: X. policy: for failures, and corrections. kept: see `KEPT`.
    """
    built = App(name, bucket="100ms", retain=KEPT[kept].app)
    streams = [built.source(f"s{i}", schema=SCHEMA, retain=KEPT[kept].source) for i in range(sources)]
    totals = built.union(*streams).window("1s").group_by("customer").agg(n="count(*)", total="sum(amount)")
    built.query(QUERY, totals, threshold, policy, policy, replicas)
    return built


def network(name: str, sources: int, replicas: int) -> App:
    """Two nodes in two partitions each, and one more query: count and sum per customer and second behind a filter, and
    per shop beside it.
    """
    built = App(name, bucket="100ms")
    union = built.union(*(built.source(f"s{i}", schema=SCHEMA) for i in range(sources)))
    cleaned = union.filter("amount >= 0").node("cleaned", partitions=2, by="customer")
    totals = cleaned.window("1s").group_by("customer").agg(n="count(*)", total="sum(amount)")
    built.query(QUERY, totals, replicas=replicas, partitions=2, by="customer")
    shops = union.window("1s").group_by("shop").agg(n="count(*)", total="sum(amount)")
    built.query("shops", shops, replicas=replicas)
    return built


def values(i: int) -> tuple[str, float, str, str]:
    """Event `i` but for its time."""
    return f"c-{i * 7 % CUSTOMERS:04d}", (i % 1000) * 0.25, f"shop-{i % 977:04d}", "sale" if i % 9 else "refund"


def row(i: int, at_us: int) -> dict[str, object]:
    """Event `i` at a time, as a publisher takes it."""
    return dict(zip(SCHEMA, (at_us, *values(i)), strict=True))


@cache
def _bodies() -> list[bytes]:
    return [b',"customer":"%b","amount":%b,"shop":"%b","kind":"%b"}' % _encoded(values(i)) for i in range(PERIOD)]


def _encoded(of: tuple[str, float, str, str]) -> tuple[bytes, ...]:
    return tuple(str(value).encode() for value in of)


def event_json(i: int, at_us: int) -> bytes:
    """Event `i` as JSON; but for their times, events repeat after `PERIOD`."""
    return b'{"at":%d%b' % (at_us, _bodies()[i % PERIOD])


@dataclass(frozen=True, slots=True)
class Backlog:
    """`events` events in turn of `sources` sources, `per_bucket` of all together to a bucket of 100 ms, evenly.

    Raises:
        ValueError: the events do not fill whole windows, or the sources no bucket alike.
    """

    events: int
    per_bucket: int
    sources: int = 1

    def __post_init__(self) -> None:
        window = self.per_bucket * (WINDOW_US // BUCKET_US)
        if not 1 <= self.per_bucket <= BUCKET_US or self.events < 1:
            raise ValueError(
                f"{self.events} events, {self.per_bucket} a bucket: at least 1, and at most {BUCKET_US} a bucket"
            )
        if self.events % window or self.per_bucket % self.sources:
            raise ValueError(
                f"{self.events} events of {self.sources} sources, {self.per_bucket} a bucket: ten times the last must "
                "divide the first, and be divided by the second"
            )

    @property
    def buckets(self) -> int:
        return self.events // self.per_bucket

    @property
    def per_record(self) -> int:
        """Rows of one source in a bucket."""
        return self.per_bucket // self.sources

    @property
    def origin(self) -> int:
        """The first bucket."""
        return Buckets(BUCKET_US).of(START_US)

    @property
    def end(self) -> int:
        """The bucket after the last one."""
        return self.origin + self.buckets

    def at_us(self, i: int) -> int:
        bucket, n = divmod(i, self.per_bucket)
        return START_US + bucket * BUCKET_US + n * (BUCKET_US // self.per_bucket)

    def plain(self, source: int = 0, since: int = 0) -> Iterator[bytes]:
        """One JSON object per event of a source, as any program would write them, from bucket number `since` on."""
        first = since * self.per_bucket + source
        return (event_json(i, self.at_us(i)) for i in range(first, self.events, self.sources))

    def arrays(self, source: int = 0, since: int = 0) -> Iterator[bytes]:
        """The same, those of a bucket as one JSON array."""
        for bucket in range(since, self.buckets):
            yield self._array(self._numbers(source, bucket))

    def records(self, feed: Feed, app_uid: str, source: int = 0) -> Iterator[NewRecord]:
        """The same in a source's log: one record a bucket, each closing its bucket, after the publisher's claim."""
        uid = "bench"
        yield NewRecord(feed, pack(ClaimHeader(app_uid, 1, uid)), timestamp_ms=START_US // 1000)
        buckets = Buckets(BUCKET_US)
        for n in range(self.buckets):
            bucket, numbers = self.origin + n, self._numbers(source, n)
            stimes = pack_stimes([self.at_us(i) for i in numbers])
            header = BatchHeader(app_uid, 1, uid, n * self.per_record, stimes, buckets.end(bucket), "json")
            yield NewRecord(feed, pack(header, self._array(numbers)), timestamp_ms=buckets.timestamp_ms(bucket))

    def _numbers(self, source: int, bucket: int) -> range:
        return range(bucket * self.per_bucket + source, (bucket + 1) * self.per_bucket, self.sources)

    def _array(self, numbers: range) -> bytes:
        return b"[" + b",".join([event_json(i, self.at_us(i)) for i in numbers]) + b"]"
