"""The inputs of an SUnion: rows, counts and dead letters by bucket, of a source or of another node's stream."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.lateness import Lateness
from sunion.model import Reject, RowOps, Rows, SourceRecord, StreamRecord, TentativeBucket
from sunion.source import Accepted, SourceFold, fold
from sunion.stream_fold import FeedProgress, Lost, Stable, StreamFold


class Ascending:
    """Distinct bucket numbers. Appending at the end, by far the most frequent case, is O(1)."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: list[int] = []

    def add(self, bucket: int) -> None:
        buckets = self._buckets
        if not buckets or bucket > buckets[-1]:
            buckets.append(bucket)
        elif buckets[bisect_left(buckets, bucket)] != bucket:
            insort(buckets, bucket)

    def between(self, first: int, end: int, most: int | None = None) -> list[int]:
        """The buckets in [first, end), at most the lowest `most` of them."""
        low, high = bisect_left(self._buckets, first), bisect_left(self._buckets, end)
        return self._buckets[low : high if most is None else min(high, low + most)]

    def take_below(self, bucket: int) -> list[int]:
        """Remove and return the buckets below `bucket`."""
        at = bisect_left(self._buckets, bucket)
        taken, self._buckets[:at] = self._buckets[:at], []
        return taken


LOOKED_AT = 16
"""How many rows of a batch are sampled for lateness."""
Unpack = Callable[[Rows], Rows]
"""Decodes a stream's rows. Rows stay encoded in their records until they are used."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in a source: the `offset` of the next record, and the `fold` before it (B3)."""

    offset: int
    fold: SourceFold


def _bucket_of(mark: tuple[int, Mark]) -> int:
    return mark[0]


@dataclass(slots=True)
class InputBuffer:
    """Rows, counts and dead letters of one input, by bucket (`rows`, `counts`, `rejects`).

    `name`: of the source or node; `sources`: those that its rows come from. `closed`: the first bucket that it leaves
    open. `rows_kept`: number of rows in memory. `busy`: the buckets that have rows, counts or dead letters. `tuples`,
    `rejected`: rows and dead letters taken since the start, dropped ones included.
    """

    name: str
    sources: tuple[str, ...]
    closed: int
    rows: dict[int, list[Rows]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    rejects: dict[int, list[Reject]] = field(default_factory=dict)
    busy: Ascending = field(default_factory=Ascending)
    rows_kept: int = 0
    tuples: int = 0
    rejected: int = 0
    fresh_rows: int = 0
    """Rows kept since `settle`."""
    _in_memory: Ascending = field(default_factory=Ascending)
    _fresh: dict[int, int] = field(default_factory=dict)
    """Buckets that got rows since `settle`, with the list index at which the new rows begin."""

    @property
    def shown(self) -> str:
        """What people call it."""
        return self.name

    def keep(self, bucket: int, rows: Rows, count: int, in_memory: bool) -> None:
        """Add rows of a bucket; without `in_memory`, only count them (they stay in the log)."""
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.busy.add(bucket)
        if in_memory:
            parts = self.rows.get(bucket)
            if parts is None:
                parts = self.rows[bucket] = []
                self._in_memory.add(bucket)
            self._fresh.setdefault(bucket, len(parts))
            parts.append(rows)
            self.rows_kept += count
            self.fresh_rows += count

    def settle(self, ops: RowOps) -> None:
        """Convert all rows kept since the last call, in one go, into the form in which they stay in memory."""
        if not self._fresh:
            return
        fresh = [(self.rows[bucket], begin) for bucket, begin in self._fresh.items()]
        self._fresh.clear()
        self.fresh_rows = 0
        for (parts, begin), rows in zip(fresh, ops.settle([p[at:] for p, at in fresh]), strict=True):
            parts[begin:] = [rows]

    def segment(self, bucket: int, ops: RowOps) -> Rows | None:
        """The rows of a bucket as one segment."""
        if self._fresh:
            self.settle(ops)
        parts = self.rows.get(bucket)
        if not parts:
            return None
        if len(parts) > 1:
            self.rows[bucket] = parts = [ops.concat(parts)]
        return parts[0]

    def drop_rows(self, below: int) -> None:
        """Drop the rows of buckets below `below` from memory; keep their counts and dead letters."""
        for bucket in self._in_memory.take_below(below):
            del self.rows[bucket]
            self._fresh.pop(bucket, None)
            self.rows_kept -= self.counts[bucket]

    def refuse(self, bucket: int, rejects: Iterable[Reject]) -> None:
        """Add dead letters to a bucket."""
        self.rejects.setdefault(bucket, []).extend(rejects)
        self.busy.add(bucket)

    def forget(self, below: int) -> None:
        """Forget everything about buckets below `below`; they are never needed again."""
        self.drop_rows(below)
        for bucket in self.busy.take_below(below):
            self.counts.pop(bucket, None)
            self.rejects.pop(bucket, None)


@dataclass(slots=True)
class SourceBuffer(InputBuffer):
    """A source as its reader has read it: up to `offset`, judged by `fold`.

    `marks`: (bucket, position before the first record that reaches it), both ascending. `dead_letters`: this node
    publishes the source's dead letters; if False, they are only counted.
    """

    fold: SourceFold = field(default_factory=lambda: SourceFold(0))
    offset: int = 0
    marks: list[tuple[int, Mark]] = field(default_factory=list)
    dead_letters: bool = True
    lateness: Lateness = field(default_factory=Lateness)
    """How late rows arrived, as this reader observed it."""

    @property
    def shown(self) -> str:
        return self.sources[0]

    def mark(self, bucket: int) -> Mark:
        """The position from which to read in order to see everything of `bucket` and later."""
        at = bisect_left(self.marks, bucket, key=_bucket_of)
        return self.marks[at][1] if at < len(self.marks) else Mark(self.offset, self.fold)

    def resume(self, mark: Mark, buckets: Buckets) -> None:
        """Continue from a position. Call it only before the first record is fed."""
        self.offset, self.fold = mark.offset, mark.fold
        self.close(buckets)

    def feed(
        self, record: SourceRecord, low: int, evicted: int, buckets: Buckets, ops: RowOps, ahead_max_us: int
    ) -> Accepted:
        """Take one record, in log order. Buckets below `low` are ignored; those below `evicted` are only counted."""
        before = self.fold
        self.fold, accepted = fold(before, record, buckets, ops, self.name, ahead_max_us)
        self.offset = record.offset + 1
        if (record.epoch, record.uid) == (before.epoch, before.owner):
            self._note_lateness(record, before)
        self.rejected += len(accepted.rejects) + accepted.after_end
        if self.fold.boundary != before.boundary:
            self.close(buckets)
        top = accepted.top
        if top is None:
            return accepted
        if top >= low and (not self.marks or top > self.marks[-1][0]):
            self.marks.append((top, Mark(record.offset, before)))
        for bucket, rows, count in accepted.rows:
            self.tuples += count
            if bucket >= low:
                self.keep(bucket, rows, count, bucket >= evicted)
        if accepted.rejects and accepted.reject_bucket >= low and self.dead_letters:
            self.refuse(accepted.reject_bucket, accepted.rejects)
        return accepted

    def _note_lateness(self, record: SourceRecord, before: SourceFold) -> None:
        """Sample some rows for all of a batch: boundary plus lateness tells where the publisher's time stood."""
        for late_us in record.late_us:
            self.lateness.add(late_us)
        at = before.boundary + before.lateness_us
        latest_us = at - min(record.stimes, default=at)
        if latest_us <= 0:
            self.lateness.add(0, len(record.stimes))
            return
        self.lateness.add(latest_us, 0)  # counts for the maximum only, which is exact
        every = len(record.stimes) // LOOKED_AT + 1
        for stime in record.stimes[::every]:
            self.lateness.add(at - stime, every)

    def close(self, buckets: Buckets) -> None:
        self.closed = buckets.last if self.fold.ended else buckets.closed_by(self.fold.boundary)

    def top(self, buckets: Buckets, origin: int) -> int:
        """The highest bucket that the boundary has opened; -1: none. END opens none (R1.1).

        A tuple opens no bucket: its source's boundary is at or before that bucket and reaches it in time. Otherwise one
        stime ahead of the clock would open every bucket up to it, and they would run although no input was late.
        """
        boundary = self.fold.boundary
        if self.fold.ended or boundary <= buckets.start(origin):  # the initial boundary: no publisher has written one
            return -1
        return buckets.closed_by(boundary)

    def forget(self, below: int) -> None:
        InputBuffer.forget(self, below)
        del self.marks[: bisect_left(self.marks, below, key=_bucket_of)]


@dataclass(slots=True)
class StreamBuffer(InputBuffer):
    """Another node's stream: all its replicas; each stable bucket is taken from the first replica that has it.

    `unpack`: decodes a record's rows. `fold`: which buckets of which replica count.
    """

    unpack: Unpack = field(default=lambda rows: rows)
    fold: StreamFold = field(default_factory=lambda: StreamFold("", 1, 0))

    @classmethod
    def of(
        cls, name: str, sources: tuple[str, ...], replicas: int, start: int, unpack: Unpack, ops: RowOps, last: int
    ) -> StreamBuffer:
        """A stream that is read from bucket `start` on. `last`: END closes every bucket below this one."""

        def weigh(rows: Rows) -> int:
            return ops.count(unpack(rows))

        return cls(name, sources, start, unpack=unpack, fold=StreamFold(name, replicas, start, weigh, last))

    def feed(
        self, records: Iterable[tuple[int, StreamRecord]], low: int, evicted: int, ops: RowOps
    ) -> list[FeedProgress]:
        """Take (replica, record) pairs and return the progress of each feed. Raises RetentionLost, also where its node
        has said a gap: nobody but clients may read that (R18.1)."""
        words = []
        for said in self.fold.read(records):
            if isinstance(said, FeedProgress):
                words.append(said)
            elif isinstance(said, Lost):
                raise RetentionLost(
                    f"stream {self.name}: buckets {said.first} to {said.end - 1} are lost, and a node reads it. "
                    "`--reset` starts the app anew"
                )
            else:
                self._take(said, low, evicted, ops)
        self.closed = self.fold.next
        return words

    def _take(self, said: Stable, low: int, evicted: int, ops: RowOps) -> None:
        bucket = said.end - 1
        if said.output.rows is None or bucket < low:
            return
        rows = self.unpack(said.output.rows)
        count = ops.count(rows)
        self.tuples += count
        self.keep(bucket, rows, count, bucket >= evicted)

    def tentative(self, bucket: int) -> TentativeBucket | None:
        """The tentative bucket to use for a bucket that is not stable; None: there is none."""
        return self.fold.pick(bucket)

    def count_tentative(self, bucket: int) -> int:
        """Number of rows in that tentative bucket."""
        said = self.fold.pick(bucket)
        return 0 if said is None else self.fold.count(said)

    def top(self, buckets: Buckets, origin: int) -> int:
        """The highest bucket that is tentative or was opened by a stable one; -1: none. END opens none (R1.1)."""
        return -1 if self.fold.top is None else self.fold.top
