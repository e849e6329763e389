"""Everything a replica reads, through one reader: sources, control, settings, progress. Turns log records into the
parts of a `Turn`.

Sources may be unreachable (`fail source`) or throttled; a source's cursor survives both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import structlog

from borealis_py.log.base import Log, Lookup, OffsetGone, Record, Wake
from borealis_py.log.codec import SourceCodec
from borealis_py.log.corrected import read_progress
from borealis_py.log.ends import LOOK_US, EndsWatch
from borealis_py.log.messages import Heartbeat, decode
from borealis_py.node.knobs import Knobs
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.turn import Beat
from reconcile.decode import decode_source
from sunion.errors import RetentionLost
from sunion.model import SourceRecord
from sunion.union import Mark

log = structlog.get_logger("borealis.inlet")

CONTROL_TAIL = 2_000
"""Heartbeats read at start: they carry the offsets of their asks, so a recent tail folds the whole queue (B26)."""


@dataclass(slots=True)
class Arrived:
    """What one poll brought."""

    inputs: dict[int, list[SourceRecord]] = field(default_factory=dict)
    beats: list[Beat] = field(default_factory=list)
    progress: list[int] = field(default_factory=list)
    settings: bool = False


class Inlet:
    """The reading side of one replica."""

    def __init__(
        self, spec: ReplicaSpec, log_: Log, lookup: Lookup, codecs: Sequence[SourceCodec], knobs: Knobs, wake: Wake
    ) -> None:
        self._spec = spec
        self._lookup = lookup
        self._codecs = codecs
        self._knobs = knobs
        self._reader = log_.reader(wake)
        self._sources = {spec.source_feed(i): i for i in range(len(spec.sources))}
        self._stopped: dict[int, int] = {}
        self._ends = EndsWatch(lookup, self._reader)
        self._first_beats: list[Beat] = []

    # Start ------------------------------------------------------------------------------------------------------------

    def read_settings(self) -> None:
        """Read the settings topic to its end and follow it from there."""
        feed = self._spec.settings_feed
        first, end = self._lookup.bounds(feed)
        for record in self._lookup.read(feed, first, end):
            self._knobs.read(record)
        self._reader.open(feed, end)

    def read_control(self) -> int:
        """Read the recent heartbeats and follow from there; returns the highest incarnation of this index."""
        feed = self._spec.control_feed
        first, end = self._lookup.bounds(feed)
        for record in self._lookup.read(feed, max(first, end - CONTROL_TAIL), end):
            self._beat(record, self._first_beats)
        self._reader.open(feed, end)
        own = [b.inc for b in self._first_beats if b.replica == self._spec.replica]
        return max([self._knobs.inc, *own])

    def open_progress(self) -> None:
        """Progress is compacted: follow it from its first record."""
        feed = self._spec.progress_feed
        self._reader.open(feed, self._lookup.bounds(feed)[0])

    def open_sources(self, marks: Sequence[Mark] | None) -> None:
        """Read each source from its mark, or from its beginning.

        Raises:
            RetentionLost: a source no longer holds what the checkpoint continues from.
        """
        for feed, i in self._sources.items():
            first, _ = self._lookup.bounds(feed)
            at = 0 if marks is None else marks[i].offset
            if first > at:
                raise RetentionLost(
                    f"source {self._spec.sources[i]}: offset {at} is needed, the log begins at {first} (retention)"
                )
            self._reader.open(feed, at)

    # A turn -----------------------------------------------------------------------------------------------------------

    def poll(self) -> Arrived:
        """Take what has arrived.

        Raises:
            RetentionLost: a source has lost records that were not read yet.
        """
        arrived = Arrived(beats=self._first_beats)
        self._first_beats = []
        try:
            records = self._reader.poll()
        except OffsetGone as exc:
            raise RetentionLost(str(exc)) from exc
        for record in records:
            index = self._sources.get(record.feed)
            if index is not None:
                decoded = decode_source(record, self._codecs[index], self._spec.sources[index])
                arrived.inputs.setdefault(index, []).append(decoded)
            elif record.feed == self._spec.control_feed:
                self._beat(record, arrived.beats)
            elif record.feed == self._spec.progress_feed:
                bucket = read_progress(record.value)
                if bucket is not None:
                    arrived.progress.append(bucket)
            else:
                self._knobs.read(record)
                arrived.settings = True
        return arrived

    @staticmethod
    def _beat(record: Record, into: list[Beat]) -> None:
        try:
            h = decode(record.value or b"", Heartbeat)
        except msgspec.MsgspecError as exc:
            log.warning("heartbeat ignored", topic=record.feed.topic, offset=record.offset, why=str(exc))
            return
        recovering = h.state == "RECOVERING"
        into.append(Beat(record.offset, h.replica, h.inc, h.uid, recovering, h.ack_s, h.ack_l, h.asking, h.ask_offset))

    def unreachable(self, wall_us: int) -> frozenset[int]:
        """Sources that a drill has failed for now."""
        until = self._knobs.failed_until
        return frozenset(i for i, name in enumerate(self._spec.sources) if until.get(name, 0) > wall_us)

    def heals_at(self, wall_us: int) -> int | None:
        """Wall time of the next end of a drill."""
        return min((t for t in self._knobs.failed_until.values() if t > wall_us), default=None)

    def hold(self, inputs: frozenset[int]) -> None:
        """Do not read these for now; go on with all others where they stood."""
        for feed, i in self._sources.items():
            if i in inputs and i not in self._stopped:
                self._stopped[i] = self._reader.position(feed)
                self._reader.stop(feed)
            elif i not in inputs and i in self._stopped:
                self._reader.open(feed, self._stopped.pop(i))

    # Was everything read? ---------------------------------------------------------------------------------------------

    def ask_ends(self, now: int) -> None:
        """Ask for the ends of every feed that is being read (protocol R3)."""
        feeds = [f for f, i in self._sources.items() if i not in self._stopped]
        self._ends.ask(now, [*feeds, self._spec.progress_feed])

    def read_to(self, now: int) -> int | None:
        """When the ends were asked, once everything below them has been polled."""
        return self._ends.read_to(now, {f for f, i in self._sources.items() if i in self._stopped})

    @property
    def looks_again_us(self) -> int | None:
        """After how long to poll although nothing may wake us: the answer to `ask_ends`."""
        return LOOK_US if self._ends.unanswered else None

    def close(self) -> None:
        self._reader.close()
