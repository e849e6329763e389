"""Where an incarnation begins: at a checkpoint, its own or a peer's, else at the origin (R11.2, R17.13, B45); where the
log no longer holds what that needs, and the node may lose it, at what is kept (R18.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import structlog

from borealis_py.log.base import Appender, Feed, Lookup, NewRecord
from borealis_py.log.description import Life
from borealis_py.log.kernel import Kernel
from borealis_py.log.messages import Incarnation, encode
from borealis_py.log.records import BatchHeader, ClaimHeader
from borealis_py.log.source_tail import TailEntry, entry_of, first_certain
from borealis_py.log.stream import StreamDecoder
from borealis_py.log.stream_topics import StreamTopics
from borealis_py.node.checkpoint_files import LoadedCheckpoint
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.input_reader import InputReader
from borealis_py.node.peers import Peers
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import Identity, StartPoint
from borealis_py.protocol.roles import Role
from borealis_py.query.recovery import RecoveryWay
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.source import SourceFold
from sunion.union import Mark
from sunion.units import Bucket

log = structlog.get_logger(__package__)

SAID_TAIL = 256
"""Offsets at a topic's end in which to look for how far its replica got: an older incarnation may have got further."""


class Check(Protocol):
    """`InputReader.check_inputs`."""

    def __call__(self, marks: Sequence[Mark] | None, bucket: int, buckets: Buckets, may_wait: bool = True) -> None: ...


def role_of(spec: ReplicaSpec, stood_by: object | None, moves: bool = False) -> Role:
    """How an incarnation begins. `stood_by`: None if it was no standby before. `moves`: its former one runs, and it is
    to go on elsewhere."""
    if stood_by is not None:
        return Role.TOOK_OVER
    if moves and may_move(spec):
        return Role.MOVES
    return Role.STANDS_BY if spec.recovery.stands_by else Role.ALWAYS_RUNS


def may_move(spec: ReplicaSpec) -> bool:
    """Whether an incarnation may catch up with a former one that runs. By amnesia a start loses what came before."""
    return spec.recovery.stands_by and spec.recovery.way is not RecoveryWay.AMNESIA


def rebuild_buckets(spec: ReplicaSpec, kernel: Kernel) -> int | None:
    """From how many buckets before its frontier a start rebuilds the state; None: checkpoints hold it. They also do if
    no start could: commands refuse such ways of such a node, and a setting may have been written by hand."""
    stateless = spec.recovery.way in (RecoveryWay.UPSTREAM_BACKUP, RecoveryWay.AMNESIA)
    return kernel.lookback_buckets if stateless and not kernel.unbounded else None


def new_identity(spec: ReplicaSpec, reader: InputReader, appender: Appender, uid: str) -> Identity:
    """Take the highest incarnation + 1, and say so in the settings (R11.1). Raises LogError."""
    inc = reader.read_control() + 1
    value = encode(Incarnation(spec.app_uid, inc, uid))
    appender.append(NewRecord(spec.settings_feed, value, f"incarnation/{spec.node}/{spec.replica}".encode()))
    return Identity(spec.replica, inc, uid, spec.app_uid)


class Starting:
    """Finds where to begin. `check`: of the inputs."""

    def __init__(self, spec: ReplicaSpec, store: CheckpointStore, kernel: Kernel, lookup: Lookup, check: Check) -> None:
        self._spec = spec
        self._store = store
        self._kernel = kernel
        self._lookup = lookup
        self._check = check
        self._buckets = Buckets(spec.bucket_us)
        self.own_bucket: Bucket | None = None
        """Of the newest own checkpoint; None: there is none."""

    def point(self) -> StartPoint:
        """Where to begin.

        Raises:
            RetentionLost: the log holds what follows neither the own checkpoint nor a peer's.
            OSError: the checkpoints cannot be read.
        """
        own = self._own()
        try:
            start = self._covered(own)
        except RetentionLost as lost:
            if not self._may_lose:
                raise
            return self._present(self._kept(own, lost))
        forgets = self._spec.recovery.way is RecoveryWay.AMNESIA and self._may_lose
        return self._present(start) if forgets else start

    def _covered(self, own: StartPoint) -> StartPoint:
        """Where to begin so that nothing is lost. Raises RetentionLost."""
        if self._spec.recovery.stands_by:
            return self._furthest(own)
        try:
            self._check(own.marks, own.bucket, self._buckets, may_wait=False)
        except RetentionLost as lost:
            return self._of_peers(own, lost)
        return own

    def _of_peers(self, own: StartPoint, lost: RetentionLost) -> StartPoint:
        """A peer's checkpoint with its state, else one without, else the own one, if what follows it may still come.
        Raises RetentionLost."""
        check = partial(self._check, may_wait=False)
        try:
            return Peers(self._spec, self._store, self._kernel).start_point(own, self._lookup, check, lost)
        except RetentionLost as none:
            refused = none
        for peer, loaded in self._store.of_peers(whole=False):
            if loaded.whole or loaded.frontier <= _frontier(own):
                continue
            try:
                check(loaded.marks, loaded.bucket, self._buckets)
            except RetentionLost:
                continue
            log.warning("rebuilds the state that a peer's checkpoint stands on", peer=peer, why=str(lost))
            return _at(loaded)
        try:
            self._check(own.marks, own.bucket, self._buckets)
        except RetentionLost:
            raise refused from lost
        return own

    @property
    def _may_lose(self) -> bool:
        return self._spec.gap and not self._kernel.unbounded

    def _kept(self, own: StartPoint, lost: RetentionLost) -> StartPoint:
        """What the inputs still hold. Raises RetentionLost: they do not show what it is."""
        for start in self._candidates(own) if self._spec.recovery.stands_by else [own]:
            found = read_from_what_is_kept(self._spec, self._lookup, start)
            if found is not None:
                log.warning("begins anew: the log no longer holds what it needs", node=self._spec.node, why=str(lost))
                return found
        raise lost

    def _present(self, start: StartPoint) -> StartPoint:
        """Begin where the inputs stand, with nothing; read from `start` on (R18.3). Raises LogError."""
        spec = self._spec
        asked = range(spec.replicas) if spec.recovery.stands_by else [spec.replica]
        said = [end for k in asked if (end := self._said_to(k)) is not None]
        if not said and start.marks is None:
            return start  # nobody has ever run
        first = Bucket(max([*said, _frontier(start)] if spec.recovery.stands_by else [*said, spec.origin]))
        return StartPoint(start.bucket, self._kernel.initial(), start.marks, first, empty=True, present=True)

    def _said_to(self, replica: int) -> int | None:
        """The end of what a replica's topic holds as stable or in a gap."""
        feeds = self._spec.feeds_of(replica)
        topics = StreamTopics(self._lookup, feeds, self._buckets, partial(StreamDecoder, Life(self._spec.app_uid)))
        return min((topics.said_to(feed, SAID_TAIL) or 0 for feed in feeds), default=0) or None

    def _own(self) -> StartPoint:
        loaded = self._store.newest()
        if loaded is None:
            return StartPoint(Bucket(self._spec.origin), self._kernel.initial(), empty=True)
        self.own_bucket = Bucket(loaded.bucket)
        return _at(loaded)

    def _furthest(self, own: StartPoint) -> StartPoint:
        """The checkpoint that is furthest, whosever it is: what lies below it is in one topic or another (B2)."""
        lost: RetentionLost | None = None
        for start in self._candidates(own):
            try:
                self._check(start.marks, start.bucket, self._buckets)
            except RetentionLost as exc:
                lost = lost or exc
                continue
            return start
        assert lost is not None
        raise lost

    def _candidates(self, own: StartPoint) -> Iterator[StartPoint]:
        for peer, loaded in self._store.of_peers(whole=False):
            if loaded.frontier > _frontier(own):
                log.info("starts from a peer's checkpoint", node=self._spec.node, peer=peer, bucket=loaded.frontier)
                yield _at(loaded)
        yield own


def _at(loaded: LoadedCheckpoint) -> StartPoint:
    bucket = Bucket(loaded.bucket)
    if loaded.whole:
        return StartPoint(bucket, loaded.state, loaded.marks)
    return StartPoint(bucket, loaded.state, loaded.marks, Bucket(loaded.said), empty=True)


def _frontier(start: StartPoint) -> Bucket:
    return start.bucket if start.own is None else start.own


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
    last_seq, boundary = header.first_seq + header.positions - 1, header.boundary
    fold = SourceFold(boundary, header.epoch, header.uid, last_seq, latenesses[0])
    place = Mark(entries[at].record.offset + 1, fold)
    return _Sure(place, max(fold.lateness_us, before.lateness_us, *(claim.lateness_us for claim in claims)))
