"""What a replica knows of its inputs after what it has read (PROTOCOL 1.2, 1.3, R1, R3, R5).

Shares record formats with the product, and no code. `Known` is one input: a source, or the stream of another node.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

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
from borealis_py.sim.oracle.place import Place
from borealis_py.sim.truth import SourceTruth

NOBODY = -1


@dataclass(slots=True)
class Voice:
    """One log that is read with a cursor of its own: what it spoke of last, and whether it is LATE.

    `said`: the first bucket that it has not spoken of. `heard`: anything was read of it since it became LATE.
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
        """The bucket ran, and its input was not stable in it."""
        late = self.said <= bucket
        if late and not self.late:
            self.heard = False
        self.late = late

    def forgive(self) -> None:
        self.late = self.late and not self.heard

    def awaited(self, bucket: int) -> bool:
        return bucket >= self.said and not self.late and not self.tentative


@dataclass(frozen=True, slots=True)
class Partial:
    """What a node uses of a tentative bucket. `missing`: what the bucket lacked; `lacked`: what its result lacks."""

    lacked: frozenset[str]
    missing: frozenset[str]
    completeness: float
    diverged_from: int


@dataclass(frozen=True, slots=True)
class Told:
    """Somebody upstream had waited `held_us` beyond the end of a bucket when it said it."""

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

    @property
    def all_late(self) -> bool:
        return all(voice.late for voice in self.voices)

    def partial(self, bucket: int) -> Partial | None:
        """What there is of a bucket that is not stable."""
        return None


class KnownSource(Known):
    """A source: what its log says up to an offset is known, once and for all readers.

    Args:
        origin: the app's first bucket. last: what END closes to. offset: where this reader begins to read.
    """

    def __init__(self, name: str, truth: SourceTruth, origin: int, last: int, start: int, offset: int) -> None:
        super().__init__(name, [name], 1, start)
        self._closings, self._offsets = truth.closings, [at for _, at in truth.closings]
        self._origin, self._last = origin, last
        self.closed = origin
        self._advance(offset)

    def _advance(self, offset: int) -> None:
        found = bisect_left(self._offsets, offset)
        if found:
            self.closed = self._closings[found - 1][0]
        self.top = self.closed if self._origin < self.closed < self._last else NOBODY

    def read(self, records: Sequence[Record], live: int) -> list[Told]:
        self._advance(records[-1].offset + 1)
        (voice,) = self.voices
        voice.heard = True
        if self.closed > voice.said:
            voice.speaks(self.closed - 1, False, live)
        return []


Saying = StableHeader | TentativeHeader


class KnownStream(Known):
    """A stream: every replica's topic, stable buckets from whoever says them first."""

    def __init__(self, name: str, place: Place, replicas: int, start: int) -> None:
        super().__init__(name, place.origins[name], replicas, start)
        self._last, self._app_uid = place.last, place.app_uid
        self._waiting: list[deque[StreamHeader]] = [deque() for _ in range(replicas)]
        self._parts: list[dict[StreamHeader, set[int]]] = [{} for _ in range(replicas)]
        self._highest = [0] * replicas
        self._partials: dict[int, dict[int, Partial]] = {}

    def partial(self, bucket: int) -> Partial | None:
        found = self._partials.get(bucket)
        if not found or bucket < self.closed:
            return None
        return min(found.items(), key=lambda one: (-one[1].completeness, len(one[1].lacked), one[0]))[1]

    def read(self, said: Sequence[tuple[int, Record]], live: int) -> list[Told]:
        """(replica, record) pairs, each replica's in its log's order. Of several cursors that can go on in one turn the
        lowest goes first."""
        for replica, record in said:
            header = self._whole(replica, record)
            if header is not None:
                self._waiting[replica].append(header)
        told: list[Told] = []
        moved = True
        while moved:
            moved = False
            for replica, queue in enumerate(self._waiting):
                while queue and self._take(replica, queue[0], live, told):
                    queue.popleft()
                    moved = True
        self._partials = {b: found for b, found in self._partials.items() if b >= live}
        return told

    def _whole(self, replica: int, record: Record) -> StreamHeader | None:
        """The header of what this record completes; a bucket may come in parts."""
        try:
            header, _ = unpack_stream(record.value)
        except EnvelopeError:
            return None
        if header.app_uid != self._app_uid:
            return None
        if not isinstance(header, StableHeader | TentativeHeader) or header.parts == 1:
            return header
        common = msgspec.structs.replace(header, part=0)
        if isinstance(common, StableHeader):
            common = msgspec.structs.replace(common, rejects=())
        parts = self._parts[replica].setdefault(common, set())
        parts.add(header.part)
        if len(parts) < header.parts:
            return None
        del self._parts[replica][common]
        return common

    def _take(self, replica: int, header: StreamHeader, live: int, told: list[Told]) -> bool:
        if isinstance(header, StableHeader):
            taken = self._stable(replica, header.bucket, header.bucket + 1, header.held, live, told)
        elif isinstance(header, RangeHeader):
            taken = self._stable(replica, header.first, header.end, header.held, live, told)
        else:
            taken = True
            if isinstance(header, TentativeHeader) and header.inc >= self._highest[replica]:
                self._tentative(replica, header, live, told)
        if taken:
            self._highest[replica] = max(self._highest[replica], header.inc)
        return taken

    def _stable(self, replica: int, first: int, end: int, held_us: int, live: int, told: list[Told]) -> bool:
        if first > self.closed:
            return False
        self.voices[replica].speaks(end - 1, False, live)
        self._opens(end)
        if end > self.closed:  # who repeats it may have waited for reasons of its own
            self.closed = end
            if held_us:
                told.append(Told(end - 1, held_us))
        return True

    def _tentative(self, replica: int, header: TentativeHeader, live: int, told: list[Told]) -> None:
        self.voices[replica].speaks(header.bucket, True, live)
        self._opens(header.bucket)
        told.append(Told(header.bucket, header.held))
        if header.bucket >= max(live, self.closed):
            word = Partial(
                frozenset(header.lacked), frozenset(header.missing), header.completeness, header.diverged_from
            )
            self._partials.setdefault(header.bucket, {})[replica] = word

    def _opens(self, bucket: int) -> None:
        if bucket < self._last:
            self.top = max(self.top, bucket)
