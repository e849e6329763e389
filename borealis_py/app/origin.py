"""The app's first bucket: written once, by `up` (B20). Earlier tuples are late."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, Lookup
from borealis_py.log.records import BatchHeader, EnvelopeError, unpack_source, unpack_stimes
from borealis_py.query.errors import QueryError
from borealis_py.query.partitions import physical
from borealis_py.query.spec import AppSpec
from borealis_py.query.times import NoTime, TimeForm
from sunion.bucket import Buckets

WORDS = ("earliest", "now")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOOK_RECORDS = 1_000
"""How many records of a source are searched for its first tuple; claims and boundaries precede it."""


def choose(log: Log, spec: AppSpec, origin: str, now_us: int, foreign_us: int | None = None) -> int:
    """The first bucket.

    Args:
        origin: "earliest": that of the first tuple in any source, or now if there is none, less the lateness of foreign
            topics, whose rows of then are still on their way; "now"; or a time in the syntax of `parse`.
        foreign_us: the time of the first row in foreign topics that are read from their beginning.

    Raises:
        QueryError: not a time.
    """
    buckets = Buckets(spec.bucket_us)
    if origin == "now":
        return buckets.of(now_us)
    if origin != "earliest":
        return buckets.of(parse(origin))
    lookup = log.lookup()
    try:
        firsts = [_first_stime(lookup, topics.source(spec.name, source)) for source in physical(spec).sources]
    finally:
        lookup.close()
    known = [stime for stime in (*firsts, foreign_us) if stime is not None]
    return buckets.of(min(known, default=now_us - max((i.lateness_us for i in spec.ingresses.values()), default=0)))


def parse(text: str, what: str = "origin") -> int:
    """Microseconds since 1970 of an ISO 8601 time (UTC if it has no zone), or of such a number itself.

    Raises:
        QueryError: neither, or not after 1970.
    """
    try:
        stime = TimeForm().us(text)
    except NoTime as exc:
        raise QueryError(
            f"{what}: {text!r} is not a time; write it like 2013-01-01T00:00:00, or as microseconds since 1970: {exc}"
        ) from exc
    if stime is None:
        raise QueryError(f"{what}: {text!r} is not a time; write it like 2013-01-01T00:00:00")
    if not 0 < stime < 2**53:
        raise QueryError(f"{what}: {text!r} must be after 1970 and before 2255")
    return stime


def show(stime: int) -> str:
    """ISO 8601, UTC."""
    return (EPOCH + timedelta(microseconds=stime)).isoformat().replace("+00:00", "Z")


def _first_stime(lookup: Lookup, feed: Feed) -> int | None:
    first, end = lookup.bounds(feed)
    for header in _headers(lookup, feed, first, min(end, first + _LOOK_RECORDS)):
        stimes = unpack_stimes(header.stimes)
        if stimes:
            return min(stimes)
    return None


def _headers(lookup: Lookup, feed: Feed, first: int, end: int) -> Iterator[BatchHeader]:
    for record in lookup.read(feed, first, end):
        try:
            header, _ = unpack_source(record.value)
        except EnvelopeError:
            continue
        if isinstance(header, BatchHeader):
            yield header
