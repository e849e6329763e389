"""What a replica knows of its inputs from what it has read (A2, A3, R1, R3, R5).

It shares record formats with the product, but no code. `Known` is one input: a source, or the stream of another node.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from borealis_py.log.base import Record
from borealis_py.log.records import (
    EnvelopeError,
    RangeHeader,
    StableHeader,
    StreamHeader,
    TentativeHeader,
    unpack_stream,
)
from borealis_py.simulation.reference_model import SourceTruth
from borealis_py.simulation.witness.place import ReplicaPlace

NOBODY = -1
CUT_OFF_US = 200_000
"""A log that makes no progress towards its end for this long counts as read (B14)."""


@dataclass(slots=True)
class Voice:
    """One log with its own cursor: what it covered last, and whether it is LATE.

    `said`: the first bucket that it has not covered. `heard`: whether anything was read of it since it became LATE.
    """

    said: int
    tentative: bool = False
    late: bool = False
    heard: bool = False

    def speaks(self, bucket: int, tentative: bool, live: int) -> None:
        self.heard = True
        if bucket + 1 >= self.said:
            self.said, self.tentative = bucket + 1, tentative
        if bucket >= live:
            self.late = False

    def passed_over(self, bucket: int) -> None:
        """The bucket ran although its input was not stable in it."""
        late = self.said <= bucket
        if late and not self.late:
            self.heard = False
        self.late = late

    def forgive(self) -> None:
        self.late = self.late and not self.heard

    def awaited(self, bucket: int) -> bool:
        return bucket >= self.said and not self.late and not self.tentative


@dataclass(frozen=True, slots=True)
class TentativeWord:
    """The tentative bucket that a node uses. `missing`: what the bucket itself lacked; `missing_sources`: what its
    result lacks. `offset`: of its first part in the log.
    """

    missing_sources: frozenset[str]
    missing: frozenset[str]
    completeness: float
    diverged_from: int
    offset: int = -1


@dataclass(slots=True)
class Cursor:
    """The position in one log, and since when it has made no progress towards its previous end.

    A reader with full memory drops tentative buckets, and moves back to reread them when they are needed (R6.3). It
    waits until they are read, but for no log that is cut off (B14), and not for deleted records. A node must then call
    missing what it lacks, although it had read it once: so both are valid, what was read and what is left of it.

    Attributes:
        next: the next offset to be read. end: the furthest one so far. first_seen: first offset of each incarnation.
            lost: [from, to) of deleted ranges.
    """

    next: int
    end: int = 0
    since_us: int = 0
    first_seen: dict[int, int] = field(default_factory=dict)
    lost: list[tuple[int, int]] = field(default_factory=list)

    def moved(self, offset: int, gone: bool, now_us: int) -> None:
        """`gone`: because the records there were deleted."""
        if gone and offset > self.next:
            self.lost.append((self.next, offset))
        if offset < self.next:
            self.end, self.since_us = max(self.end, self.next), now_us
        self.next = offset

    def read(self, offset: int, now_us: int) -> None:
        self.next, self.since_us = offset + 1, now_us

    def speaks(self, inc: int, offset: int) -> None:
        self.first_seen[inc] = min(offset, self.first_seen.get(inc, offset))

    def above(self, inc: int, offset: int) -> bool:
        """A higher incarnation had written before: a record there is a zombie's, now and when it is reread."""
        return any(other > inc and at < offset for other, at in self.first_seen.items())

    def may_lack(self, offset: int, now_us: int) -> bool:
        """Whether a record at this offset was read, but memory may have dropped it."""
        waited = self.next <= offset < self.end and now_us - self.since_us >= CUT_OFF_US
        return waited or any(first <= offset < end for first, end in self.lost)


@dataclass(frozen=True, slots=True)
class UpstreamWait:
    """An upstream node had waited `held_us` beyond the end of a bucket when it emitted it."""

    bucket: int
    held_us: int


class Known:
    """One input, as far as it was read. `closed`: the first bucket it leaves open; `top`: the highest it opened."""

    def __init__(self, name: str, sources: Sequence[str], voices: int, start: int) -> None:
        self.name = name
        self.sources = frozenset(sources)
        self.voices = [Voice(start) for _ in range(voices)]
        self.closed = start
        self.top = NOBODY
        self.cursors: list[Cursor] = []

    @property
    def all_late(self) -> bool:
        return all(voice.late for voice in self.voices)

    def partial(self, bucket: int) -> TentativeWord | None:
        """The tentative content of a bucket that is not stable."""
        return None

    def partials(self, bucket: int, now_us: int) -> list[TentativeWord | None]:
        """What a node may use of it: the same, less what memory may lack now."""
        return [self.partial(bucket)]


class KnownSource(Known):
    """A source: what its log contains up to an offset is computed once for all readers.

    Args:
        origin: the app's first bucket. last: the bucket up to which END closes. offset: where this reader begins to
            read.
    """

    def __init__(self, name: str, truth: SourceTruth, origin: int, last: int, start: int, offset: int) -> None:
        super().__init__(name, [name], 1, start)
        self._closings = truth.closings
        self._offsets = [at for _, at in truth.closings]
        self._origin = origin
        self._last = last
        self.closed = origin
        self._advance(offset)

    def _advance(self, offset: int) -> None:
        found = bisect_left(self._offsets, offset)
        if found:
            self.closed = self._closings[found - 1][0]
        self.top = self.closed if self._origin < self.closed < self._last else NOBODY

    def read(self, records: Sequence[Record], live: int) -> list[UpstreamWait]:
        self._advance(records[-1].offset + 1)
        (voice,) = self.voices
        voice.heard = True
        if self.closed > voice.said:
            voice.speaks(self.closed - 1, False, live)
        return []


Saying = StableHeader | TentativeHeader


class KnownStream(Known):
    """A stream: every replica's topic, with stable buckets from the first that has them."""

    def __init__(self, name: str, place: ReplicaPlace, replicas: int, start: int) -> None:
        super().__init__(name, place.origins[name], replicas, start)
        self._last = place.last
        self._app_uid = place.app_uid
        self._waiting: list[deque[tuple[StreamHeader, int]]] = [deque() for _ in range(replicas)]
        self._parts: list[dict[StreamHeader, dict[int, int]]] = [{} for _ in range(replicas)]
        self._partials: dict[int, dict[int, TentativeWord]] = {}
        self.cursors = [Cursor(0) for _ in range(replicas)]

    def _ranked(self, bucket: int) -> list[tuple[int, TentativeWord]]:
        found = self._partials.get(bucket, {}) if bucket >= self.closed else {}
        return sorted(found.items(), key=lambda one: (-one[1].completeness, len(one[1].missing_sources), one[0]))

    def partial(self, bucket: int) -> TentativeWord | None:
        ranked = self._ranked(bucket)
        return ranked[0][1] if ranked else None

    def partials(self, bucket: int, now_us: int) -> list[TentativeWord | None]:
        found: list[TentativeWord | None] = []
        for replica, word in self._ranked(bucket):
            found.append(word)
            if not self.cursors[replica].may_lack(word.offset, now_us):
                return found
        return [*found, None]

    def read(self, said: Sequence[tuple[int, Record]], live: int, now_us: int) -> list[UpstreamWait]:
        """Take (replica, record) pairs, each replica's in log order. If several cursors can advance in one turn, the
        lowest goes first.
        """
        for replica, record in said:
            self.cursors[replica].read(record.offset, now_us)
            whole = self._whole(replica, record)
            if whole is not None:
                self._waiting[replica].append(whole)
        told: list[UpstreamWait] = []
        moved = True
        while moved:
            moved = False
            for replica, queue in enumerate(self._waiting):
                while queue and self._take(replica, *queue[0], live, told):
                    queue.popleft()
                    moved = True
        self._partials = {b: found for b, found in self._partials.items() if b >= live}
        return told

    def _whole(self, replica: int, record: Record) -> tuple[StreamHeader, int] | None:
        """The header of the bucket or range that this record completes, and the offset where that begins; a bucket may
        be split into parts.
        """
        try:
            header, _ = unpack_stream(record.value)
        except EnvelopeError:
            return None
        if header.app_uid != self._app_uid:
            return None
        if not isinstance(header, StableHeader | TentativeHeader):
            return header, record.offset
        if header.parts == 1:
            self._over(replica, header)
            return header, record.offset
        common = msgspec.structs.replace(header, part=0)
        if isinstance(common, StableHeader):
            common = msgspec.structs.replace(common, rejects=())
        parts = self._parts[replica].setdefault(common, {})
        parts[header.part] = record.offset
        if len(parts) < header.parts:
            return None
        self._over(replica, common)
        return common, min(parts.values())

    def _over(self, replica: int, whole: Saying) -> None:
        """Parts still open of earlier buckets never count: their writer has died, or is a zombie whose bucket another
        replica has made stable.
        """
        for other in list(self._parts[replica]):
            same = isinstance(other, TentativeHeader) and other.inc == whole.inc
            if isinstance(other, Saying) and other.bucket <= whole.bucket and (isinstance(whole, StableHeader) or same):
                del self._parts[replica][other]

    def _take(self, replica: int, header: StreamHeader, offset: int, live: int, told: list[UpstreamWait]) -> bool:
        if isinstance(header, StableHeader):
            taken = self._stable(replica, header.bucket, header.bucket + 1, header.waited_us, live, told)
        elif isinstance(header, RangeHeader):
            taken = self._stable(replica, header.first, header.end, header.waited_us, live, told)
        else:
            taken = True
            if isinstance(header, TentativeHeader) and not self.cursors[replica].above(header.inc, offset):
                self._tentative(replica, header, offset, live, told)
        if taken:
            self.cursors[replica].speaks(header.inc, offset)
        return taken

    def _stable(self, replica: int, first: int, end: int, held_us: int, live: int, told: list[UpstreamWait]) -> bool:
        if first > self.closed:
            return False
        self.voices[replica].speaks(end - 1, False, live)
        self._opens(end)
        if end > self.closed:  # a replica that repeats it may have waited for its own reasons
            self.closed = end
            if held_us:
                told.append(UpstreamWait(end - 1, held_us))
        return True

    def _tentative(
        self, replica: int, header: TentativeHeader, offset: int, live: int, told: list[UpstreamWait]
    ) -> None:
        self.voices[replica].speaks(header.bucket, True, live)
        self._opens(header.bucket)
        told.append(UpstreamWait(header.bucket, header.waited_us))
        if header.bucket >= max(live, self.closed):
            missing_sources, missing = frozenset(header.missing_sources), frozenset(header.missing)
            word = TentativeWord(missing_sources, missing, header.completeness, header.diverged_from, offset)
            self._partials.setdefault(header.bucket, {})[replica] = word

    def _opens(self, bucket: int) -> None:
        if bucket < self._last:
            self.top = max(self.top, bucket)
