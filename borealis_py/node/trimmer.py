"""One replica's part in trimming: it reads what all replicas may still read, and decides how far its own topic, and the
sources that its node trims, may be deleted (R16).

Its calls block, so they run in a thread of their own (`node.trim_loop`). It deletes nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from borealis_py.log import topics
from borealis_py.log.acks import Forgotten, Word, read_ack, read_audit
from borealis_py.log.base import Feed, Lookup
from borealis_py.log.clock import Clock
from borealis_py.log.description import Life, check_life
from borealis_py.log.messages import TrimStatus
from borealis_py.log.source_tail import entry_of, resumable
from borealis_py.node.input_reader import OWN_TAIL
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.trimming import (
    AckFold,
    Need,
    ReplicaName,
    Retain,
    TrimLimit,
    Trimming,
    source_limit,
    stream_limit,
)
from sunion.bucket import Buckets
from sunion.units import Bucket, MonotonicUs, Offset

_WINDOWS = (8, 64, 512, 4_096)
"""How many of a source's last records are searched for one from which its publisher can resume."""


@dataclass(frozen=True, slots=True)
class Trim:
    """One topic or source that a replica trims: its `name`, its `feeds`, and how far it may be deleted (`limit`)."""

    name: str
    feeds: tuple[Feed, ...]
    limit: TrimLimit


@dataclass(frozen=True, slots=True)
class Trims:
    """What may be deleted now: `deletions`, of each feed all below this offset. `found`: how that was decided."""

    deletions: Mapping[Feed, Offset] = field(default_factory=dict)
    found: tuple[Trim, ...] = ()

    def statuses(
        self, refused: Mapping[Feed, str], before: Iterable[TrimStatus], wall_us: int
    ) -> tuple[TrimStatus, ...]:
        """For the replica's status.

        Args:
            refused: of which feeds the log has deleted nothing, and why.
            before: what the last one said. wall_us: the time, in microseconds since 1970.
        """
        since = {said.topic: said.waits_since_wall_us for said in before}
        return tuple(
            TrimStatus(
                of.name,
                of.limit.below,
                of.limit.held_by,
                next((refused[feed] for feed in of.feeds if feed in refused), ""),
                (since.get(of.name) or wall_us) if of.limit.waits else 0,
            )
            for of in self.found
        )


class Trimmer:
    """Used by one thread, but for `number_shared`."""

    def __init__(self, spec: ReplicaSpec, trimming: Trimming, clock: Clock) -> None:
        self._spec = spec
        self._trimming = trimming
        self._clock = clock
        self._buckets = Buckets(spec.bucket_us)
        self._me = ReplicaName(spec.node, spec.replica)
        self._life = Life(spec.app_uid)
        idle = range(spec.replicas) if spec.recovery.idles else (spec.replica,)  # a standby trims nothing itself
        self._topics = tuple(feed for k in idle for feed in spec.feeds_of(k))
        self._feed = Feed(topics.acks(spec.app))
        self._begin()

    def _begin(self) -> None:
        self._fold = AckFold(self._me, self._trimming.silence_us)
        self._read_to = 0

    @property
    def number_shared(self) -> str | None:
        """Why its replica must start again with a number of its own (B30); None: it need not."""
        return self._fold.number_shared

    def decide(
        self,
        lookup: Lookup,
        frontier: Bucket,
        sent: Iterable[tuple[Need, MonotonicUs]],
        retain: Callable[[str], Retain],
    ) -> Trims:
        """Read the acknowledgements, and decide.

        Args:
            frontier: F_s of the replica.
            sent: acknowledgements that it has appended since the last call, and when.
            retain: what is kept of a source or stream, by its name as it runs.

        Raises:
            OtherLife: the app was begun anew. LogError: the log cannot be read. Then nothing may be deleted.
        """
        if not self.trims_anything(retain):
            return Trims()
        for need, at in sent:
            self._fold.sent(need, at)
        self._read(lookup)
        own = self._own(retain(self._spec.node).bucket(frontier, self._buckets))
        deletions = {} if own.limit.below is None else dict(self._below(lookup, Bucket(own.limit.below)))
        sources = []
        for name in self._trimming.trimmed_by(self._spec.node):
            source = self._source(lookup, name, retain(name), frontier)
            sources.append(source)
            if source.limit.below is not None and source.limit.below > lookup.bounds(source.feeds[0])[0]:
                deletions[source.feeds[0]] = Offset(source.limit.below)
        # Last: topics that were made again have the same names, and offsets of the old ones mean nothing there.
        check_life(lookup, self._spec.app, self._spec.app_uid)
        return Trims(deletions, (own, *sources))

    def trims_anything(self, retain: Callable[[str], Retain]) -> bool:
        """Whether anything of what the replica trims is not to be kept whole."""
        names = (self._spec.node, *self._trimming.trimmed_by(self._spec.node))
        return any(retain(name).lag_us is not None for name in names)

    def _read(self, lookup: Lookup) -> None:
        first, end = lookup.bounds(self._feed)
        if end < self._read_to:  # the topic was made again
            self._begin()
        for record in lookup.read(self._feed, max(first, self._read_to), end):
            said = read_ack(record, self._life)
            if said is not None:
                _take(self._fold, *said, self._clock.now_us())
            audited = read_audit(record, self._life)
            if audited is not None:
                self._fold.audited(*audited)
            self._read_to = record.offset + 1  # if the rest cannot be read now, this is not taken again
        self._read_to = end

    def _own(self, kept: Bucket | None) -> Trim:
        spec, needs = self._spec, self._fold.needs()
        said = needs.said.get(self._me)
        published = None if said is None else said.published  # in the log, so that every writer finds it (R10.7)
        limit = stream_limit(self._trimming.graph, needs, spec.node, published, kept)
        return Trim(spec.own_feeds[0].topic, self._topics, limit)

    def _below(self, lookup: Lookup, bucket: Bucket) -> Iterator[tuple[Feed, Offset]]:
        """All that lies before the first record of `bucket`, but for the end that the next start reads (R11.1)."""
        for feed in self._topics:
            first, end = lookup.bounds(feed)
            at = min(lookup.find(feed, self._buckets.timestamp_ms(bucket)), end - OWN_TAIL)
            if at > first:
                yield feed, Offset(at)

    def _source(self, lookup: Lookup, name: str, retain: Retain, frontier: Bucket) -> Trim:
        feed, resumes, keeps = topics.source(self._spec.app, name), None, None
        kept = retain.bucket(frontier, self._buckets)
        audits = self._trimming.audits.get(name, ()) if retain.audited else ()
        if kept is not None:
            keeps = Offset(lookup.find(feed, self._buckets.timestamp_ms(kept)))
            resumes = self._resumable(lookup, feed)
        return Trim(name, (feed,), source_limit(self._trimming.graph, self._fold.needs(), name, resumes, keeps, audits))

    def _resumable(self, lookup: Lookup, feed: Feed) -> Offset | None:
        first, end = lookup.bounds(feed)
        for size in _WINDOWS:
            begin = max(first, end - size)
            entries = (entry_of(record, self._life) for record in lookup.read(feed, begin, end))
            found = resumable([entry for entry in entries if entry is not None], begin)
            if found is not None or begin == first:
                return found
        return None


def _take(fold: AckFold, name: ReplicaName, word: Word, now: MonotonicUs) -> None:
    if isinstance(word, Forgotten):
        fold.forget(name)
    elif isinstance(word, str):
        fold.doubt(name, word)
    else:
        fold.read(name, word, now)
