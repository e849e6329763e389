"""How a publisher becomes the owner of its source, and learns when it is not any more (protocol A2, B5).

Append EPOCH first, read the log up to it, and only then believe: what the fold says there is where to go on. Pure: it
is fed with what was read and says what to append; it knows neither threads nor a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.description import Life
from borealis_py.log.records import BatchHeader, ClaimHeader, EnvelopeError, pack, unpack_source, unpack_stimes
from sunion.bucket import Buckets
from sunion.model import FOREVER, RowOps, Rows, SourceRecord
from sunion.source import SourceFold, fold

WATCH_US = 1_500_000
"""How long a newcomer watches whether the present owner still writes; at least three buckets."""
AHEAD_MAX_US = 60_000_000
"""How far beyond the boundary a tuple's stime may lie (the fold rejects it otherwise)."""
_ATTEMPTS_MAX = 5


class PublisherError(Exception):
    """A publisher cannot start or go on. The message names the stream and says what to do."""


class StreamTaken(PublisherError):
    """Another publisher is at work."""


class StreamEnded(PublisherError):
    """END lies in the log: nothing can follow. `last_seq`: of the last row before it."""

    def __init__(self, message: str, last_seq: int) -> None:
        super().__init__(message)
        self.last_seq = last_seq


class StreamFenced(PublisherError):
    """A newer publisher took the stream while this one was at work."""


class StreamForgotten(PublisherError):
    """Retention has deleted all that the stream's publishers sent: where to go on cannot be known."""


@dataclass(frozen=True, slots=True)
class Target:
    """The source to be written.

    Attributes:
        app_uid: of the app's life (its description has it); records of another one say nothing.
        origin: the app's first bucket; a new source's boundary is its start (protocol B20).
        ahead_max_us: as the replicas' fold has it.
    """

    app: str
    app_uid: str
    source: str
    bucket_us: int
    origin: int
    ahead_max_us: int = AHEAD_MAX_US

    @property
    def feed(self) -> Feed:
        return topics.source(self.app, self.source)

    @property
    def deadletter(self) -> Feed:
        return Feed(topics.deadletter(self.app))

    @property
    def buckets(self) -> Buckets:
        return Buckets(self.bucket_us)


class _Uncounted(RowOps):
    """Rows do not matter to a publisher's fold."""

    def take(self, rows: Rows, indices: Sequence[int]) -> Rows:
        return None

    def concat(self, parts: Sequence[Rows]) -> Rows:
        return None

    def order(self, parts: Sequence[Rows | None]) -> Rows:
        return None

    def count(self, rows: Rows) -> int:
        return 0

    def size_bytes(self, rows: Rows) -> int:
        return 0


_UNCOUNTED = _Uncounted()


class Claim:
    """The way to ownership: read what is there, watch the present owner, claim, read the claim back.

    Args:
        uid: this process's, unique for ever.
        start, end: the bounds of the log when this began.
        take_over: do not ask whether another publisher is at work.
    """

    def __init__(self, target: Target, uid: str, start: int, end: int, take_over: bool = False) -> None:
        self.fold = SourceFold(boundary=target.buckets.start(target.origin))
        self.ready = False
        self.epoch = 0
        self._target = target
        self._life = Life(target.app_uid)
        self._uid = uid
        self._start, self._end = start, end
        self._take_over = take_over
        self._watch_us = max(WATCH_US, 3 * target.bucket_us)
        self._watching_since_us: int | None = None
        self._attempts = 0
        self._told = start == 0  # something says how far the stream has come
        self._complete = False

    def read(self, records: Sequence[Record], position: int, now_us: int) -> None:
        """What was read of the source's log, and the reader's position after it.

        Raises:
            StreamTaken, StreamEnded, StreamForgotten: before ownership.
            StreamFenced: after.
        """
        for record in records:
            self._one(record, now_us)
        if self._watching_since_us is None and position >= self._end:
            self._refuse_ended()
            self._refuse_forgotten()
            self._watching_since_us = now_us

    def claims(self, now_us: int) -> list[NewRecord]:
        """The EPOCH record, in the turn in which it is to be appended."""
        if self.epoch or self._watching_since_us is None or now_us < (self.next_wakeup() or now_us):
            return []
        return [self._claim()]

    def next_wakeup(self) -> int | None:
        """When watching ends (µs); None: only reading can move it on."""
        if self.epoch or self._watching_since_us is None:
            return None
        nobody = self._take_over or not self.fold.owner
        return self._watching_since_us + (0 if nobody else self._watch_us)

    def _claim(self) -> NewRecord:
        self._attempts += 1
        self.epoch = max(self.fold.epoch, self._start) + 1  # a claim's is at most its offset + 1: above any deleted one
        buckets = self._target.buckets
        stamp = buckets.timestamp_ms(buckets.closed_by(self.fold.boundary))
        return NewRecord(
            self._target.feed, pack(ClaimHeader(self._target.app_uid, self.epoch, self._uid)), timestamp_ms=stamp
        )

    def _one(self, record: Record, now_us: int) -> None:
        try:
            header, _ = unpack_source(record.value)
            stimes = () if isinstance(header, ClaimHeader) or self.ready else unpack_stimes(header.stimes)
        except EnvelopeError:
            return  # not a publisher's record: says nothing about the stream (A2); readers make it a dead letter
        if not self._life.owns(record, header.app_uid):
            return
        if self.ready:
            if isinstance(header, BatchHeader):
                mine = (header.epoch, header.uid) == (self.epoch, self._uid)
                self._complete |= mine and header.boundary is not None and header.boundary >= FOREVER
            elif header.epoch > self.epoch and not self._complete:  # after the own END nobody can take anything
                raise StreamFenced(
                    f"{self._name()}: another publisher took the stream (epoch {header.epoch}, uid {header.uid}); "
                    "this one has stopped, and what it sent after that does not count. Only one may write a source"
                )
            return
        before = (self.fold.epoch, self.fold.owner)
        self._fold(record.offset, header, stimes)
        if before == (header.epoch, header.uid):
            self._refuse_fresh(now_us)
        elif before != (self.fold.epoch, self.fold.owner) and self._watching_since_us is not None:
            self._watching_since_us = now_us  # another newcomer was faster: see whether it goes on
        if isinstance(header, ClaimHeader) and (header.epoch, header.uid) == (self.epoch, self._uid):
            self._read_back()

    def _fold(self, offset: int, header: ClaimHeader | BatchHeader, stimes: Sequence[int]) -> None:
        if isinstance(header, ClaimHeader):
            record = SourceRecord(offset, header.epoch, header.uid, claim=True)
        else:
            if self._start and header.epoch > self.fold.epoch:  # its EPOCH was deleted by retention
                self.fold = replace(self.fold, epoch=header.epoch, owner=header.uid)
            if self._start and (header.epoch, header.uid) == (self.fold.epoch, self.fold.owner):
                self._told = True
                self.fold = replace(self.fold, last_seq=max(self.fold.last_seq, header.first_seq - 1))
            seqs = range(header.first_seq, header.first_seq + len(stimes))
            record = SourceRecord(offset, header.epoch, header.uid, False, seqs, stimes, None, header.boundary)
        target = self._target
        self.fold, _ = fold(self.fold, record, target.buckets, _UNCOUNTED, target.source, target.ahead_max_us)

    def _refuse_fresh(self, now_us: int) -> None:
        since = self._watching_since_us
        # What a dead publisher had in flight lands early in the watch; who writes later than that is alive.
        if since is not None and not self.epoch and not self._take_over and now_us >= since + self._watch_us // 3:
            raise StreamTaken(self._taken())

    def _read_back(self) -> None:
        self._refuse_ended()
        if (self.fold.epoch, self.fold.owner) == (self.epoch, self._uid):
            self.ready = True
        elif self._take_over and self._attempts < _ATTEMPTS_MAX:
            self.epoch = 0  # somebody else was faster: claim again, higher
        else:
            raise StreamTaken(self._taken())

    def _refuse_ended(self) -> None:
        if self.fold.ended:
            raise StreamEnded(
                f"{self._name()} has ended: its publisher sent END, and nothing can follow that. To publish it again, "
                "start the app anew with `borealis up --reset`, or publish to another source",
                self.fold.last_seq,
            )

    def _refuse_forgotten(self) -> None:
        if not self._told:
            raise StreamForgotten(
                f"{self._name()}: retention has deleted all that its publisher sent: how far it had come is unknown, "
                "and new rows could be dropped as repeated ones. Start the app anew with `borealis up --reset`, or "
                "publish to another source; keep a source for longer than its publisher may be away"
            )

    def _taken(self) -> str:
        return (
            f"{self._name()}: another publisher is writing it (epoch {self.fold.epoch}, uid {self.fold.owner}). "
            "Stop it first, or use --take-over to replace it"
        )

    def _name(self) -> str:
        return f"source {self._target.source!r} of app {self._target.app!r}"
