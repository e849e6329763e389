"""Reads all that a replica reads, through one reader: its inputs, control, settings, progress. Turns log records into
the parts of a `Turn`.

Inputs may be unreachable (`fail source`) or throttled; their cursors survive both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec
import structlog

from borealis_py.log.base import Feed, Log, LogError, Lookup, OffsetGone, Record, Wake
from borealis_py.log.codec import SourceCodec, StreamCodec
from borealis_py.log.corrected import read_progress
from borealis_py.log.description import APP_KEY, Life, OtherLife, check_life, read_description, undescribed
from borealis_py.log.ends import LOOK_US, EndsWatch
from borealis_py.log.messages import read_beat
from borealis_py.log.records import EnvelopeError, unpack_stream
from borealis_py.log.source_records import decode_source
from borealis_py.log.stream import StreamDecoder, readable
from borealis_py.log.stream_topics import StreamTopics
from borealis_py.log.unreadable import ignored
from borealis_py.node.dynamic_settings import DynamicSettings
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import Heartbeat
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import SourceRecord, StreamRecord
from sunion.union import Mark
from sunion.units import Bucket, MonotonicUs, Offset

log = structlog.get_logger(__package__)

CONTROL_TAIL = 2_000
"""Heartbeats read at start. They contain the offsets of their asks, so a recent tail yields the whole queue (B26)."""
OWN_TAIL = 32
"""Records of the own stream read at start. The last writer has the highest incarnation, unless it is a zombie."""


@dataclass(slots=True)
class PolledInputs:
    """What one poll returned.

    Attributes:
        inputs: source records by input index. streams: (replica, record) pairs by input index.
        beats: heartbeats of the node's replicas with their offsets. progress: buckets of progress records.
        settings: at least one settings record was read.
    """

    inputs: dict[int, list[SourceRecord]] = field(default_factory=dict)
    streams: dict[int, list[tuple[int, StreamRecord]]] = field(default_factory=dict)
    beats: list[tuple[Offset, Heartbeat]] = field(default_factory=list)
    progress: list[Bucket] = field(default_factory=list)
    settings: bool = False


class InputReader:
    """The reading side of one replica. `codecs` and `streams` decode its sources and streams, by input index."""

    def __init__(
        self,
        spec: ReplicaSpec,
        log_: Log,
        lookup: Lookup,
        codecs: Mapping[int, SourceCodec],
        streams: Mapping[int, StreamCodec],
        settings: DynamicSettings,
        wake: Wake,
    ) -> None:
        self._spec = spec
        self._lookup = lookup
        self._codecs = codecs
        self._settings = settings
        self._reader = log_.reader(wake)
        feeds = [(i, k, feed) for i in range(len(spec.inputs)) for k, feed in enumerate(spec.feeds(i))]
        self._sources = {feed: i for i, _, feed in feeds if i in codecs}
        self._streams = {feed: (i, k) for i, k, feed in feeds if i in streams}
        self._inputs = {feed: i for i, _, feed in feeds}
        self._schemas = {i: codec.schema_id for i, codec in streams.items()}
        self._life = Life(spec.app_uid)
        self._decoders = {feed: self._decoder(i) for feed, (i, _) in self._streams.items()}
        self._stopped: dict[Feed, int] = {}
        self._back: dict[Feed, int] = {}
        """Cursors that were moved back, and where they were before."""
        self._skipped: set[int] = set()
        """Streams of which deleted records were skipped, by input index."""
        self._ends = EndsWatch(lookup, self._reader)
        self._first_beats: list[tuple[Offset, Heartbeat]] = []
        self._control = spec.control_feed
        self._progress = spec.progress_feed
        self._hushable = frozenset([self._control, self._progress])
        self._source_feeds = frozenset(self._sources)

    # Start ------------------------------------------------------------------------------------------------------------

    def read_settings(self) -> None:
        """Read the settings topic to its end and follow it from there.

        Raises:
            OtherLife, OtherVersion: the description is not the one that this replica was started for.
            LogError: there is no description now, or the topic cannot be read.
        """
        feed = self._spec.settings_feed
        first, end = self._lookup.bounds(feed)
        described = False
        for record in self._lookup.read(feed, first, end):
            described = self._setting(record) or described
        if not described:
            raise undescribed(self._spec.app)
        self._reader.open(feed, end)

    def read_control(self) -> int:
        """Read the recent heartbeats and follow from there; returns the highest incarnation of this index.

        The end of the own stream counts, too: heartbeats expire, and garbage may have displaced the settings record.
        Readers would ignore a replica that used a number again: they take tentative records of the highest one only.
        """
        self._first_beats, end = self._recent_beats()
        self._reader.open(self._spec.control_feed, end)
        own = [b.inc for _, b in self._first_beats if b.replica == self._spec.replica]
        return max([self._settings.inc, *own, *self._spoken()])

    def follow_control(self, offset: int) -> None:
        """Go on reading heartbeats at `offset`."""
        self._reader.open(self._spec.control_feed, offset)

    @property
    def control_at(self) -> int:
        """Offset up to which heartbeats have been handed in."""
        return self._reader.position(self._spec.control_feed)

    def recent_beats(self) -> list[tuple[Offset, Heartbeat]]:
        """The heartbeats at the control log's end, in its order, whatever was read before. Raises LogError."""
        return self._recent_beats()[0]

    def _recent_beats(self) -> tuple[list[tuple[Offset, Heartbeat]], int]:
        beats: list[tuple[Offset, Heartbeat]] = []
        first, end = self._lookup.bounds(self._spec.control_feed)
        for record in self._lookup.read(self._spec.control_feed, max(first, end - CONTROL_TAIL), end):
            self._beat(record, beats)
        return beats, end

    def _spoken(self) -> Iterator[int]:
        """Incarnations that wrote the end of the own stream."""
        feed = self._spec.own_feeds[0]
        first, end = self._lookup.bounds(feed)
        for record in self._lookup.read(feed, max(first, end - OWN_TAIL), end):
            with suppress(EnvelopeError):
                header, _ = unpack_stream(record.value)
                if header.app_uid == self._spec.app_uid:
                    yield header.inc

    def open_progress(self) -> None:
        """Follow the progress topic, which is compacted, from its first record."""
        feed = self._spec.progress_feed
        self._reader.open(feed, self._lookup.bounds(feed)[0])

    def check_inputs(self, marks: Sequence[Mark] | None, bucket: int, buckets: Buckets, may_wait: bool = True) -> None:
        """Check that the log holds what follows the checkpoint at `bucket`.

        Args:
            may_wait: it is enough that a replica of a stream which is behind may still say what the others' topics have
                deleted. It need not: it may be gone, or stand by.

        Raises:
            RetentionLost: the log of a source, or of every replica of a stream, does not.
        """
        for (feed, i), at in zip(self._sources.items(), self._offsets(marks), strict=True):
            first, _ = self._lookup.bounds(feed)
            if first > at:
                raise RetentionLost(
                    f"source {self._spec.inputs[i].shown}: offset {at} is needed, the log begins at {first} (retention)"
                )
        for i in sorted({i for i, _ in self._streams.values()}):
            self._check_stream(i, bucket, buckets, may_wait)

    def check_skipped(self, bucket: int, buckets: Buckets) -> None:
        """Check that what is to be read next, `bucket`, was not among deleted records that were skipped: whoever was
        away for long is waited for no more (R16.12).

        Raises:
            RetentionLost: no topic has it.
        """
        while self._skipped:
            self._check_stream(self._skipped.pop(), bucket, buckets, may_wait=False)

    def _check_stream(self, i: int, bucket: int, buckets: Buckets, may_wait: bool) -> None:
        topics = StreamTopics(self._lookup, self._spec.feeds(i), buckets, partial(self._decoder, i))
        if topics.lost(bucket, one_runs=not may_wait):
            name = self._spec.inputs[i].name
            raise RetentionLost(f"stream {name}: bucket {bucket} is in no replica's topic any more (retention)")

    def open_inputs(self, marks: Sequence[Mark] | None, bucket: int, buckets: Buckets) -> None:
        """Read each source from its mark, or from its beginning; each replica of a stream from the first record that
        may report `bucket` (R5.1, B37)."""
        for feed, at in zip(self._sources, self._offsets(marks), strict=True):
            self._reader.open(feed, at)
        for feed in self._streams:
            self._reader.open(feed, self._lookup.find(feed, buckets.timestamp_ms(bucket)))

    def _offsets(self, marks: Sequence[Mark] | None) -> list[int]:
        return [0] * len(self._sources) if marks is None else [m.offset for m in marks]

    # A turn -----------------------------------------------------------------------------------------------------------

    def poll(self) -> PolledInputs:
        """Take what has arrived.

        Raises:
            RetentionLost: a source has lost records that were not read yet.
            OtherLife, OtherVersion: the app's description is no longer this replica's.
            LogError: the log cannot be read.
        """
        arrived = PolledInputs(beats=self._first_beats)
        self._first_beats = []
        try:
            records = self._reader.poll()
        except LogError as exc:
            # The topics may have been deleted or created anew. That error explains more, and the cursor that follows
            # the description may be past it.
            check_life(self._lookup, self._spec.app, self._spec.app_uid)
            if not isinstance(exc, OffsetGone):
                raise
            self._skip(exc)
            return arrived
        for record in records:
            if record.feed in self._inputs:
                self._input(record, arrived)
            elif record.feed == self._control:
                self._beat(record, arrived.beats)
            elif record.feed == self._progress:
                bucket = read_progress(record, self._life, self._spec.origin)
                if bucket is not None:
                    arrived.progress.append(Bucket(bucket))
            else:
                self._setting(record)
                arrived.settings = True
        self._life.look(self._lookup, self._spec.app)
        return arrived

    def _setting(self, record: Record) -> bool:
        """Take a settings record; True: it is this life's description. Raises OtherLife, OtherVersion."""
        if record.key != APP_KEY.encode():
            self._settings.read(record)
            return False
        spec = self._spec
        try:
            found = read_description(spec.app, record.value or b"").app_uid
        except msgspec.MsgspecError as exc:
            ignored(log, "description ignored", record, exc)
            return False
        if found != spec.app_uid:
            raise OtherLife.of_app(spec.app, spec.app_uid, found)
        return True

    def _skip(self, gone: OffsetGone) -> None:
        """Go on behind deleted records. Of control, settings and progress only the latest counts; it is repeated. A
        cursor of a stream that lacks a bucket then waits for the others (R16.12)."""
        before = self._back.pop(gone.feed, None)
        if before is not None:
            log.warning(
                "tentative records not read again: the log has deleted them", topic=gone.feed.topic, offset=gone.offset
            )
            self._reader.open(gone.feed, before)
            return
        if gone.feed in self._sources:
            raise RetentionLost(str(gone)) from gone
        if gone.feed in self._streams:  # it was read slower than the others: they have what it lacks, or nobody (A3)
            self._skipped.add(i := self._streams[gone.feed][0])
            self._decoders[gone.feed] = self._decoder(i)
        log.warning("deleted records skipped", topic=gone.feed.topic, offset=gone.offset)
        self._reader.open(gone.feed, self._lookup.bounds(gone.feed)[0])

    def _input(self, record: Record, arrived: PolledInputs) -> None:
        index = self._sources.get(record.feed)
        if index is not None:
            decoded = decode_source(record, self._codecs[index], self._spec.inputs[index].name, self._life)
            arrived.inputs.setdefault(index, []).append(decoded)
            return
        said = readable(record, self._decoders[record.feed])
        if said is not None:
            index, replica = self._streams[record.feed]
            arrived.streams.setdefault(index, []).append((replica, said))

    def _decoder(self, index: int) -> StreamDecoder:
        return StreamDecoder(self._life, self._schemas[index])

    def _beat(self, record: Record, into: list[tuple[Offset, Heartbeat]]) -> None:
        try:
            h = read_beat(record.key, record.value, self._spec.node)
        except msgspec.MsgspecError as exc:
            ignored(log, "heartbeat ignored", record, exc)
            return
        if not self._life.owns(record, h.app_uid):
            return
        into.append((Offset(record.offset), h))

    def unreachable(self, wall_us: int) -> frozenset[int]:
        """Input indices of the sources that a drill keeps from being read now."""
        until = self._settings.failed_until
        if not until:
            return frozenset()
        return frozenset(i for i in self._sources.values() if until.get(self._spec.inputs[i].name, 0) > wall_us)

    def heals_at(self, wall_us: int) -> int | None:
        """Wall time at which the next drill ends, in microseconds; None: no drill runs."""
        until = self._settings.failed_until
        return min((t for t in until.values() if t > wall_us), default=None) if until else None

    def hold(self, inputs: frozenset[int], cursors: frozenset[tuple[int, int]] = frozenset()) -> None:
        """Stop reading these inputs and these replicas of streams; resume all others where they stopped."""
        if not (inputs or cursors or self._stopped):
            return
        for feed, i in self._inputs.items():
            held = i in inputs or self._streams.get(feed) in cursors
            if held and feed not in self._stopped:
                self._stopped[feed] = self._reader.position(feed)
                self._reader.stop(feed)
            elif not held and feed in self._stopped:
                self._reader.open(feed, self._stopped.pop(feed))

    def read_again(self, index: int, replica: int, offset: int) -> None:
        """Move the cursor of a stream's replica back to `offset` (R6.3)."""
        feed = next(feed for feed, at in self._streams.items() if at == (index, replica))
        if feed in self._stopped:
            self._back[feed], self._stopped[feed] = self._stopped[feed], offset
            return
        self._back[feed] = self._reader.position(feed)
        self._reader.open(feed, offset)

    def hush(self, at_ease: bool, lowest: frozenset[int] = frozenset()) -> None:
        """While the replica is at ease, heartbeats and progress wait for its next turn, and sources for those of them
        that its next bucket lacks: `lowest`, by input index."""
        if not at_ease:
            self._reader.hush(frozenset())
            return
        awaited = {feed: 0 for feed, index in self._sources.items() if index in lowest}
        self._reader.hush(self._hushable, self._source_feeds, awaited)

    # Was everything read? ---------------------------------------------------------------------------------------------

    def ask_ends(self, now: MonotonicUs) -> None:
        """Ask for the ends of every feed that is being read (R3.2)."""
        feeds = [feed for feed in self._inputs if feed not in self._stopped]
        self._ends.ask(now, [*feeds, self._spec.progress_feed])

    def read_to(self, now: MonotonicUs) -> MonotonicUs | None:
        """When the ends were asked for, once everything below them has been polled; None: not yet."""
        return self._ends.read_to(now, self._stopped.keys())

    def has_read(self, ends: Mapping[Feed, int]) -> bool:
        """Whether all records below these offsets have been polled."""
        return all(self._position(feed) >= end for feed, end in ends.items())

    def _position(self, feed: Feed) -> int:
        stopped = self._stopped.get(feed)
        return self._reader.position(feed) if stopped is None else stopped

    @property
    def looks_again_us(self) -> int | None:
        """After how many microseconds to poll again while `ask_ends` awaits an answer; None: it awaits none."""
        return LOOK_US if self._ends.unanswered else None

    def close(self) -> None:
        self._reader.close()
