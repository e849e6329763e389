"""SUnion: collects each input's rows by bucket, knows which buckets are complete, and puts them into total order.

It keeps rows from the stable frontier on, and marks: source positions to read again from, for a checkpoint or a redo.
It knows no time: `borealis_py.protocol.delay` decides when an incomplete bucket may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sunion.bucket import Buckets
from sunion.input_buffers import Mark as Mark
from sunion.input_buffers import SourceBuffer, StreamBuffer, Unpack
from sunion.model import Input, Ordered, Output, Reject, RowOps, SourceRecord, StreamRecord
from sunion.source import Accepted, SourceFold
from sunion.stream_fold import FeedProgress

SETTLED_ROWS = 2_000
"""Rows are settled in groups of this size: smaller groups cost more per row, larger ones leave the CPU cache."""


class SUnion:
    """The rows of all inputs by bucket.

    Args:
        inputs: their order breaks ties (input index).
        origin: first bucket of the app; everything before it is late (B20).
        ahead_max_us: see `sunion.source.fold`.
        unpack: for each input that is a stream, the function that decodes its rows.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        origin: int,
        buckets: Buckets,
        ops: RowOps,
        *,
        ahead_max_us: int,
        unpack: Mapping[int, Unpack] | None = None,
    ) -> None:
        if not inputs:
            raise ValueError("an SUnion needs at least one input")
        self.buckets = buckets
        self.origin = origin
        self.low = origin
        self.evicted = origin
        self._ops = ops
        self.inputs = [self._input(i, index, unpack or {}) for index, i in enumerate(inputs)]
        self.sources = {i: s for i, s in enumerate(self.inputs) if isinstance(s, SourceBuffer)}
        """The inputs that are sources, by index."""
        self.streams = {i: s for i, s in enumerate(self.inputs) if isinstance(s, StreamBuffer)}
        """The inputs that are other nodes' streams, by index."""
        self.complete = origin
        """The first incomplete bucket: some input's boundary has not passed its end."""
        self._ahead_max_us = ahead_max_us

    def _input(self, of: Input, index: int, unpack: Mapping[int, Unpack]) -> SourceBuffer | StreamBuffer:
        if of.replicas:
            decode = unpack.get(index, lambda rows: rows)
            return StreamBuffer.of(of.name, of.sources, of.replicas, self.origin, decode, self._ops, self.buckets.last)
        start = SourceFold(self.buckets.start(self.origin))
        return SourceBuffer(of.name, of.sources, self.origin, fold=start, dead_letters=of.dead_letters)

    @property
    def kept_rows(self) -> int:
        """Rows in memory: of buckets, tentative ones included, and those queued at waiting cursors."""
        kept = 0
        for source in self.inputs:
            kept += source.rows_kept
        for stream in self.streams.values():
            kept += stream.fold.tentative_rows + stream.fold.waiting_rows
        return kept

    def resume(self, low: int, marks: Sequence[Mark]) -> None:
        """Start at bucket `low` from a checkpoint's marks, one per source. Call it only before the first record."""
        self.low = self.evicted = low
        for source, mark in zip(self.sources.values(), marks, strict=True):
            source.resume(mark, self.buckets)
        for stream in self.streams.values():
            stream.fold.next = stream.fold.live = stream.closed = low
        self._complete()

    def feed(self, index: int, record: SourceRecord) -> Accepted:
        """Take one record of source `index`, in log order. Buckets below `low` are dropped at once."""
        source = self.inputs[index]
        assert isinstance(source, SourceBuffer)
        accepted = source.feed(record, self.low, self.evicted, self.buckets, self._ops, self._ahead_max_us)
        self._complete()
        return accepted

    def feed_all(self, index: int, records: Iterable[SourceRecord]) -> None:
        """Take records of source `index`, in log order; their rows are settled in groups."""
        source = self.inputs[index]
        assert isinstance(source, SourceBuffer)
        for record in records:
            source.feed(record, self.low, self.evicted, self.buckets, self._ops, self._ahead_max_us)
            if source.fresh_rows >= SETTLED_ROWS:
                source.settle(self._ops)
        source.settle(self._ops)
        self._complete()

    def feed_stream(self, index: int, records: Iterable[tuple[int, StreamRecord]]) -> list[FeedProgress]:
        """Take (replica, record) pairs of stream `index`, each replica's in log order; return each feed's progress.

        Raises:
            RetentionLost: see `sunion.stream_fold.StreamFold.read`.
        """
        stream = self.inputs[index]
        assert isinstance(stream, StreamBuffer)
        words = stream.feed(records, self.low, self.evicted, self._ops)
        self._complete()
        return words

    def _complete(self) -> None:
        self.complete = min([s.closed for s in self.inputs])

    def closed(self, index: int) -> int:
        """The first bucket that input `index` has not closed."""
        return self.inputs[index].closed

    @property
    def top(self) -> int:
        """The highest bucket that exists: opened by a boundary or present in a tentative record (R1.1); -1: none."""
        return max([s.top(self.buckets, self.origin) for s in self.inputs])

    def busy(self, first: int, end: int, most: int | None = None) -> list[int]:
        """The buckets in [first, end) that hold rows or rejects, ascending; at most the lowest `most` of them."""
        found = sorted({b for s in self.inputs for b in s.busy.between(first, end, most)})
        return found if most is None else found[:most]

    def count(self, bucket: int) -> int:
        """Number of rows of a bucket, evicted or not."""
        return sum(s.counts.get(bucket, 0) for s in self.inputs)

    def count_live(self, bucket: int) -> int:
        """Number of rows in `ordered_live`."""
        return self.count(bucket) + sum(stream.count_tentative(bucket) for stream in self.streams.values())

    def ordered(self, first: int, end: int) -> Mapping[int, Ordered]:
        """The non-empty buckets of [first, end), each in total order. Rows below `evicted` are not available."""
        result: dict[int, Ordered] = {}
        for bucket in self.busy(max(first, self.evicted), end):
            parts = [s.segment(bucket, self._ops) for s in self.inputs]
            if any(part is not None for part in parts):
                result[bucket] = self._ops.order(parts)
        return result

    def ordered_live(self, bucket: int) -> Mapping[int, Ordered]:
        """One bucket in total order, from what has arrived: tentative rows where an input has no stable ones (R3.4)."""
        parts = [s.segment(bucket, self._ops) for s in self.inputs]
        for index, stream in self.streams.items():
            said = stream.tentative(bucket)
            if said is not None and said.output.rows is not None:
                parts[index] = stream.unpack(said.output.rows)
        return {bucket: self._ops.order(parts)} if any(part is not None for part in parts) else {}

    def rejects(self, bucket: int) -> tuple[Reject, ...]:
        """Dead letters of a bucket: by input, then by position in the log."""
        return tuple(r for s in self.inputs for r in s.rejects.get(bucket, ()))

    def with_rejects(self, first: int, end: int, outputs: Mapping[int, Output]) -> dict[int, Output]:
        """A step's outputs of the complete buckets [first, end), with the dead letters of its inputs before its own."""
        merged = dict(outputs)
        for bucket in self.busy(first, end):
            if rejects := self.rejects(bucket):
                output = merged.get(bucket, Output())
                merged[bucket] = Output(output.rows, rejects + output.rejects)
        return dict(sorted(merged.items()))

    def evict(self, below: int) -> None:
        """Drop the rows of buckets below `below`; keep counts, rejects and marks: the rows are in the log (R6.2)."""
        self.evicted = max(self.evicted, below)
        for source in self.inputs:
            source.drop_rows(below)

    def drop_ahead(self, live: int, rows_max: int) -> None:
        """Drop tentative rows beyond `live`, the farthest first, until memory holds at most `rows_max` rows in all or
        the tentative ones fit in a quarter of it (R6.2). Those of bucket `live` are used next and stay.
        """
        folds = [s.fold for s in self.streams.values()]
        tentative = sum(f.tentative_rows for f in folds)
        room = max(rows_max // 4, rows_max - (self.kept_rows - tentative))
        if tentative <= room:
            return
        ahead = [(bucket, i) for i, fold in enumerate(folds) for bucket in fold.tentative if bucket > live]
        for bucket, i in sorted(ahead, reverse=True):
            if tentative <= room:
                return
            tentative -= folds[i].drop(bucket)

    def again(self, bucket: int) -> list[tuple[int, int, int]]:
        """(input, replica, offset): where to read again the dropped tentative records of `bucket` (R6.3)."""
        return [(i, k, at) for i, s in self.streams.items() for k, at in s.fold.again(bucket)]

    @property
    def waiting(self) -> frozenset[tuple[int, int]]:
        """(input, replica) of cursors beyond the next bucket. No record behind such a cursor can be used yet (A3)."""
        return frozenset([(i, k) for i, stream in self.streams.items() for k in stream.fold.waiting])

    def forget(self, below: int) -> None:
        """The stable frontier moved: buckets below it are never needed again."""
        self.low = max(self.low, below)
        self.evicted = max(self.evicted, self.low)
        for source in self.inputs:
            source.forget(below)

    def passed(self, live: int) -> None:
        """The live frontier moved: tentative rows below it are no longer needed."""
        for stream in self.streams.values():
            stream.fold.passed(live)

    def marks(self, bucket: int) -> tuple[Mark, ...]:
        """One mark per source: where a checkpoint at `bucket` resumes reading. A stream needs only the bucket
        (R12.1)."""
        return tuple(s.mark(bucket) for s in self.sources.values())
