"""Where a start may read that finds what its checkpoint needs deleted, and may lose what it cannot have (R18.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from borealis_py.log.base import Feed, Lookup
from borealis_py.log.description import Life
from borealis_py.log.records import BatchHeader, ClaimHeader
from borealis_py.log.source_tail import TailEntry, entry_of, first_certain
from borealis_py.log.stream import StreamDecoder
from borealis_py.log.stream_topics import StreamTopics
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import StartPoint
from sunion.bucket import Buckets
from sunion.model import FOREVER
from sunion.source import SourceFold
from sunion.union import Mark
from sunion.units import Bucket

FIRST_RECORDS = 50
"""Records to read first of a log that has lost its beginning: a publisher repeats everything in each."""
FURTHER = 8
"""How many times more, if they do not show whose they are."""


def read_from_what_is_kept(spec: ReplicaSpec, lookup: Lookup, start: StartPoint) -> StartPoint | None:
    """A start that reads what the inputs still hold, and runs no bucket of which they may have lost rows.

    A row may lie before its time, by the lateness of its source and `ahead_max_us`: so much later than where the log
    begins now is the first bucket of which all is there.

    Args:
        start: what the log no longer covers.

    Returns:
        None: what is kept of a source does not show who owns it, or how late its rows may come.

    Raises:
        LogError: the log cannot be read.
    """
    buckets, places, first = Buckets(spec.bucket_us), list[Mark](), int(start.bucket)
    sources = [i for i, of in enumerate(spec.inputs) if not of.replicas]
    known = start.marks or [Mark(0, SourceFold(buckets.start(spec.origin)))] * len(sources)
    for index, mark in zip(sources, known, strict=True):
        (feed,) = spec.feeds(index)
        begins, end = lookup.bounds(feed)
        if begins <= mark.offset:
            places.append(mark)
            continue
        found = _first_sure(lookup, feed, begins, end, Life(spec.app_uid), mark.fold)
        if found is None:
            return None
        fold = found.place.fold
        whole_us = fold.boundary + found.lateness_us + spec.timing.ahead_max_us
        places.append(found.place)
        first = max(first, buckets.last if fold.ended else buckets.closed_by(whole_us + spec.bucket_us - 1))
    for index, of in enumerate(spec.inputs):
        if of.replicas:
            topics = StreamTopics(lookup, spec.feeds(index), buckets, partial(StreamDecoder, Life(spec.app_uid)))
            first = max(first, topics.first_kept(first))
    said = start.bucket if start.own is None else start.own
    return replace(start, bucket=Bucket(first), marks=tuple(places), own=said)


@dataclass(frozen=True, slots=True)
class _Sure:
    """A place in a source at which its fold is known, and the largest lateness of those known to have owned it so far:
    what is deleted may be theirs."""

    place: Mark
    lateness_us: int


def _first_sure(lookup: Lookup, feed: Feed, begins: int, end: int, life: Life, before: SourceFold) -> _Sure | None:
    """The first place in what is kept of a source at which its fold is known."""
    many = FIRST_RECORDS
    while True:
        records = lookup.read(feed, begins, min(end, begins + many))
        entries = [entry for record in records if (entry := entry_of(record, life)) is not None]
        at = first_certain(entries, begins)
        if at is not None:
            return _after(entries, at, before)
        if begins + many >= end:
            return None
        many *= FURTHER


def _after(entries: Sequence[TailEntry], at: int, before: SourceFold) -> _Sure | None:
    """The place behind the entry `at`, which is its owner's; the entry does not say how late its rows may come, so that
    is known of the owner `before`, or by its claim."""
    header = entries[at].header
    assert isinstance(header, BatchHeader)
    assert header.boundary is not None
    owner = header.epoch, header.uid
    claims = [claim for entry in entries[:at] if isinstance(claim := entry.header, ClaimHeader)]
    latenesses = [claim.lateness_us for claim in claims if (claim.epoch, claim.uid) == owner]
    if (before.epoch, before.owner) == owner:
        latenesses.append(before.lateness_us)
    if not latenesses:
        return None
    last_seq, boundary = header.first_seq + header.positions - 1, min(header.boundary, FOREVER)
    fold = SourceFold(boundary, header.epoch, header.uid, last_seq, latenesses[0])
    place = Mark(entries[at].record.offset + 1, fold)
    return _Sure(place, max(fold.lateness_us, before.lateness_us, *(claim.lateness_us for claim in claims)))
