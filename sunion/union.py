"""SUnion: gathers each input's rows per bucket, knows which buckets are complete, and puts them into the total order.

It keeps rows from the stable frontier on, and marks: where to read a source again from, for a checkpoint or a redo.
It does not know time: when an incomplete bucket may run is `borealis_py.protocol.delay`'s matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sunion.bucket import Buckets
from sunion.model import Ordered, Reject, RowOps, Rows, SourceRecord
from sunion.source import Accepted, SourceFold, fold


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in a source: an offset and the fold before it (B3)."""

    offset: int
    fold: SourceFold


@dataclass(slots=True)
class SourceInput:
    """One source as its replica has read it. Buckets below `SUnion.low` are gone, below `evicted` only counted."""

    name: str
    fold: SourceFold
    offset: int = 0
    rows: dict[int, list[Rows]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    rejects: dict[int, list[Reject]] = field(default_factory=dict)
    marks: list[tuple[int, Mark]] = field(default_factory=list)
    tuples: int = 0
    rejected: int = 0

    def mark(self, bucket: int) -> Mark:
        """Where to start reading so as to see everything of `bucket` and later."""
        for at, mark in self.marks:
            if at >= bucket:
                return mark
        return Mark(self.offset, self.fold)


class SUnion:
    """The rows of all inputs by bucket.

    Args:
        names: the sources, in the order that breaks ties (input index).
        origin: first bucket of the app; everything before it is late (B20).
        ahead_max_us: see `sunion.source.fold`.
    """

    def __init__(
        self, names: Sequence[str], origin: int, buckets: Buckets, ops: RowOps, ahead_max_us: int = 86_400_000_000
    ) -> None:
        if not names:
            raise ValueError("an SUnion needs at least one input")
        self.buckets = buckets
        self.origin = self.low = origin
        self.evicted = origin
        self.inputs = [SourceInput(name, SourceFold(buckets.start(origin))) for name in names]
        self.kept_rows = 0  # in memory
        self._closed = [buckets.closed_by(buckets.start(origin))] * len(names)
        self.complete = min(self._closed)
        """The first bucket that is not complete: some input's boundary has not passed its end."""
        self._ops = ops
        self._ahead_max_us = ahead_max_us

    def resume(self, low: int, marks: Sequence[Mark]) -> None:
        """Start at bucket `low` from a checkpoint's marks, one an input. Only before any record was fed."""
        self.low = self.evicted = low
        for index, (source, mark) in enumerate(zip(self.inputs, marks, strict=True)):
            source.offset, source.fold = mark.offset, mark.fold
            self._close(index)

    def feed(self, index: int, record: SourceRecord) -> Accepted:
        """Take one record of input `index`, in the log's order. Buckets below `low` are forgotten at once."""
        source = self.inputs[index]
        before = Mark(record.offset, source.fold)
        source.fold, accepted = fold(source.fold, record, self.buckets, self._ops, source.name, self._ahead_max_us)
        source.offset = record.offset + 1
        source.rejected += len(accepted.rejects) + accepted.after_end
        if source.fold.boundary != before.fold.boundary:
            self._close(index)
        top = accepted.top
        if top is None:
            return accepted
        if top >= self.low and (not source.marks or top > source.marks[-1][0]):
            source.marks.append((top, before))
        for bucket, rows, count in accepted.rows:
            source.tuples += count
            if bucket >= self.low:
                source.counts[bucket] = source.counts.get(bucket, 0) + count
            if bucket >= self.evicted:
                source.rows.setdefault(bucket, []).append(rows)
                self.kept_rows += count
        if accepted.rejects and accepted.reject_bucket >= self.low:
            source.rejects.setdefault(accepted.reject_bucket, []).extend(accepted.rejects)
        return accepted

    def _close(self, index: int) -> None:
        fold_ = self.inputs[index].fold
        self._closed[index] = self.buckets.last if fold_.ended else self.buckets.closed_by(fold_.boundary)
        self.complete = min(self._closed)

    def closed(self, index: int) -> int:
        """The first bucket that input `index` leaves open."""
        return self._closed[index]

    @property
    def top(self) -> int:
        """The highest bucket that exists: one that a boundary opened; END opens none (R1).

        A tuple opens none: its source's boundary stands at or before its bucket, and gets there in time. Else one stime
        ahead of the clock would open all buckets up to it, and they would run without anybody having been late.
        """
        origin_us = self.buckets.start(self.origin)  # where every boundary begins: nobody has said that one
        said = [s.fold.boundary for s in self.inputs if not s.fold.ended and s.fold.boundary > origin_us]
        return max((self.buckets.closed_by(t) for t in said), default=-1)

    def busy(self, first: int, end: int) -> list[int]:
        """The buckets of [first, end) that hold rows or rejects, ascending."""
        found = {b for s in self.inputs for held in (s.counts, s.rejects) for b in held if first <= b < end}
        return sorted(found)

    def count(self, bucket: int) -> int:
        """Rows of a bucket, evicted or not."""
        return sum(s.counts.get(bucket, 0) for s in self.inputs)

    def ordered(self, first: int, end: int) -> Mapping[int, Ordered]:
        """The non-empty buckets of [first, end), each in total order. Rows below `evicted` are not to be had."""
        result: dict[int, Ordered] = {}
        for bucket in self.busy(max(first, self.evicted), end):
            parts = [self._part(s, bucket) for s in self.inputs]
            if any(part is not None for part in parts):
                result[bucket] = self._ops.order(parts)
        return result

    def _part(self, source: SourceInput, bucket: int) -> Rows | None:
        parts = source.rows.get(bucket)
        if not parts:
            return None
        if len(parts) > 1:
            source.rows[bucket] = parts = [self._ops.concat(parts)]
        return parts[0]

    def rejects(self, bucket: int) -> tuple[Reject, ...]:
        """Dead letters of a bucket: by input, then by place in the log."""
        return tuple(r for s in self.inputs for r in s.rejects.get(bucket, ()))

    def evict(self, below: int) -> None:
        """Drop the rows of buckets below `below`, keep counts, rejects and marks: they lie in the log (R6)."""
        self.evicted = max(self.evicted, below)
        for source in self.inputs:
            self._drop_rows(source, below)

    def _drop_rows(self, source: SourceInput, below: int) -> None:
        for bucket in [b for b in source.rows if b < below]:
            del source.rows[bucket]
            self.kept_rows -= source.counts[bucket]

    def forget(self, below: int) -> None:
        """The stable frontier moved: buckets below it are never needed again."""
        self.low = max(self.low, below)
        self.evicted = max(self.evicted, self.low)
        for source in self.inputs:
            self._drop_rows(source, below)
            for held in (source.counts, source.rejects):
                for bucket in [b for b in held if b < below]:
                    del held[bucket]
            keep = [m for m in source.marks if m[0] >= below]
            source.marks[:] = keep

    def marks(self, bucket: int) -> tuple[Mark, ...]:
        """One mark an input: where a checkpoint at `bucket` reads on."""
        return tuple(s.mark(bucket) for s in self.inputs)
