"""Computes buckets from ranges of the log exactly as the replica did: with the same fold, SUnion, order and step.

The result depends on the log alone. A replay reads the input that holds the others back, a slice at a time, and runs
all complete buckets, so its memory depends on the slice and not on the range.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from borealis_py.protocol.redo import SourceRange
from reconcile.range_reader import SourceRangeReader, StreamRangeReader
from reconcile.replay_context import OpenReplayContext
from sunion.model import Output, State
from sunion.union import Mark, SUnion

SLICE_ROWS = 20_000
"""Rows read from one input before another one is read."""


class ReplayError(Exception):
    """The log does not hold what was asked of it. The message is human-readable."""


class RangeGone(ReplayError):
    """The log no longer holds what was asked of it."""


class OutOfTime(ReplayError):
    """The deadline passed."""


@dataclass(frozen=True, slots=True)
class ReplayedBuckets:
    """Buckets [first, end) have run. `outputs`: by bucket, of those with rows or rejects."""

    first: int
    end: int
    outputs: Mapping[int, Output]


class Replay:
    """Runs buckets from `first` on.

    Args:
        state: the fragment's state before `first`.
        ranges: one per source, each with the fold before its first offset (B3). A stream needs none: all copies of a
            stable bucket are equal, and its time finds one (B38).
        deadline: on the clock of `time.monotonic()`, in seconds; None: no deadline.
        slice_rows: how many rows of an input are read at a time.

    Attributes:
        state: the fragment's state at `frontier`.
        rows: input rows of the buckets that have run.

    Raises:
        ReplayError: a source has no range, or a range no source.
    """

    def __init__(
        self,
        opened: OpenReplayContext,
        first: int,
        state: State,
        ranges: Sequence[SourceRange],
        deadline: float | None = None,
        slice_rows: int = SLICE_ROWS,
    ) -> None:
        work = opened.work
        given = {r.index: r for r in ranges}
        sources = [i for i, of in enumerate(work.inputs) if not of.replicas]
        if sorted(given) != sources:
            raise ReplayError(f"{work.node}: a replay needs one range for each of {len(sources)} sources")
        self._opened = opened
        self._union = SUnion(
            work.inputs, first, opened.buckets, opened.kernel, ahead_max_us=work.ahead_max_us, unpack=opened.unpack
        )
        self._union.resume(first, [Mark(given[i].first, given[i].fold) for i in sources])
        self._readers = [
            SourceRangeReader(opened, self._union, i, given[i])
            if i in given
            else StreamRangeReader(opened, self._union, i)
            for i in range(len(work.inputs))
        ]
        self._deadline = deadline
        self._slice_rows = slice_rows
        self.state = state
        self.rows = 0

    @property
    def frontier(self) -> int:
        """The first bucket that has not run."""
        return self._union.low

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Where a replay that starts at `frontier` reads each source from."""
        return self._union.marks(self.frontier)

    def run(self, end: int | None = None, stop: int | None = None) -> Iterator[ReplayedBuckets]:
        """Run up to bucket `end`; None: as far as the ranges close buckets.

        Args:
            stop: if it is passed, some buckets that are yielded together end at this one, so that `state` and `marks`
                of it can be taken.

        Raises:
            OutOfTime: the deadline passed.
            ReplayError: the ranges do not close bucket `end - 1`.
            LogError: the log cannot be read.
        """
        try:
            yield from self._run(self._opened.buckets.last if end is None else end, end is None, stop)
        finally:
            for reader in self._readers:
                reader.close()

    def _run(self, target: int, as_far_as_it_goes: bool, stop: int | None) -> Iterator[ReplayedBuckets]:
        while self.frontier < target:
            ready = min(self._union.complete, target)
            if stop is not None and self.frontier < stop:
                ready = min(ready, stop)
            if ready > self.frontier:
                yield self._step(ready)
                continue
            index = min(range(len(self._readers)), key=self._union.closed)
            reader = self._readers[index]
            if not reader.read(self._slice_rows, target, self._check_time):
                if as_far_as_it_goes:
                    return
                what = RangeGone if isinstance(reader, StreamRangeReader) else ReplayError  # the replica had read it
                raise what(
                    f"{self._opened.work.node}: {reader} closes only the buckets before "
                    f"{self._union.closed(index)}, not those before {target}"
                )

    def _step(self, end: int) -> ReplayedBuckets:
        self._check_time()
        first, union = self.frontier, self._union
        self.rows += sum(union.count(b) for b in union.busy(first, end))
        ordered = union.ordered(first, end)
        self.state, stepped = self._opened.kernel.step(self.state, first, end, ordered)
        outputs = union.with_rejects(first, end, stepped)
        union.forget(end)
        return ReplayedBuckets(first, end, outputs)

    def _check_time(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise OutOfTime(f"{self._opened.work.node}: not done by the deadline, at bucket {self.frontier}")
