"""What a node has read so far, as its replica decides by it: rows by bucket, how each feed stands, when buckets came
into being (PROTOCOL 2.1, R1). It runs nothing and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from borealis_py.protocol.delay import ALWAYS, Creation, FeedState, InputView, Presence, view
from borealis_py.protocol.drift import Drift
from borealis_py.protocol.labels import Share
from borealis_py.protocol.pace import Pace
from borealis_py.protocol.turn import EmitEvent, Turn
from sunion.bucket import Buckets
from sunion.input_buffers import SourceBuffer, StreamBuffer, Unpack
from sunion.model import Input, Ordered, Output, RowOps, TentativeBucket
from sunion.union import Mark, SUnion


class InputState:
    """The reading side of one replica's state.

    Args:
        start: first bucket to run; marks: where its sources are read from, None: from their beginning.
        unpack: for each input that is a stream, what decodes its rows.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        origin: int,
        buckets: Buckets,
        ops: RowOps,
        ahead_max_us: int,
        start: int,
        marks: Sequence[Mark] | None,
        unpack: Mapping[int, Unpack],
    ) -> None:
        self.union = SUnion(inputs, origin, buckets, ops, ahead_max_us, unpack)
        if marks is not None:
            self.union.resume(start, marks)
        self.creation = Creation(start)
        self.feeds = [[FeedState(start) for _ in range(max(1, i.replicas))] for i in inputs]
        self._buckets = buckets
        self._waited: list[tuple[int, int]] = []
        self._drifts = {index: Drift(buckets.width_us) for index in self.union.sources}
        self._spoke: list[int] = []
        self._latenesses = (0, 0, 0)
        self._heard = False
        self._tidied = (start, start)
        self._held = [ALWAYS for _ in inputs]

    def waited_us(self, bucket: int, now: int) -> int:
        """How long a bucket has waited past its end, here and upstream (R1, B12)."""
        created = self.creation.at(bucket)
        return 0 if created is None else max(0, now - created - self._buckets.width_us)

    def read(self, turn: Turn, live: int, rows_max: int) -> None:
        """Take what arrived. `live`: the live frontier. `rows_max`: the budget that this turn's reading went by.

        Raises:
            RetentionLost: a stream's topics all go on beyond the bucket that is needed next.
        """
        held, waiting = self.ahead(live, rows_max), self.union.waiting
        self._heard |= bool(turn.inputs)
        for index, records in turn.inputs.items():
            self.union.feed_all(index, records)
            feed, closed = self.feeds[index][0], self.union.closed(index)
            if closed > feed.said:
                feed.word(closed - 1, False, live)
                self._spoke.append(index)
            elif records:
                feed.heard = True
        for index, said in turn.streams.items():
            for word in self.union.feed_stream(index, said):
                self.feeds[index][word.replica].word(word.bucket, word.tentative, live)
                if word.tentative or word.waited_us:
                    self._waited.append((word.bucket, word.waited_us))
        for index in held | {i for i, _ in waiting - self.union.waiting}:
            self._held[index] = turn.now

    def held_until(self, bucket: int) -> int:
        """When an input that has not closed `bucket` was last not read for want of use or memory (R6): what it says of
        the bucket may lie unread."""
        held = zip(self._held, self.union.inputs, strict=True)
        return max((at for at, source in held if source.closed <= bucket), default=ALWAYS)

    def create(self, now: int) -> None:
        """R1: every bucket up to the highest that exists came into being by now, less what upstream had waited."""
        self.creation.extend(self.union.top, now)
        for bucket, held in self._waited:
            self.creation.waited(bucket, now, held, self._buckets.width_us)
        self._waited.clear()

    def drift_notes(self, now: int, wait: int) -> list[EmitEvent]:
        """B23: sources that have just spoken, and are behind the fastest by more than `wait` all the time."""
        notes: list[EmitEvent] = []
        for index in self._spoke:
            lag = max(0, self.union.top + 1 - self.union.closed(index)) * self._buckets.width_us
            if self._drifts[index].closed(now, lag, wait):
                name = self.union.inputs[index].name
                notes.append(
                    EmitEvent("DRIFT", f"source {name} is {lag / 1e6:g} s behind, more than D = {wait / 1e6:g} s")
                )
        self._spoke.clear()
        return notes + self._lateness_notes(wait)

    def _lateness_notes(self, wait: int) -> list[EmitEvent]:
        """Sources whose publishers wait so differently for late rows that the one is always missing where the other is
        there; once each time that changes."""
        if not self._heard and wait == self._latenesses[2]:
            return []
        self._heard = False
        sources = [s for s in self.union.sources.values() if s.fold.owner and not s.fold.ended]
        if len(sources) < 2:
            return []
        least, most = (pick(sources, key=lambda s: s.fold.lateness_us) for pick in (min, max))
        apart = least.fold.lateness_us, most.fold.lateness_us, wait
        if apart == self._latenesses:
            return []
        self._latenesses = apart
        if apart[1] - apart[0] <= wait:
            return []
        said = (
            f"the publisher of {most.name} waits {apart[1] / 1e6:g} s for late rows, that of {least.name} "
            f"{apart[0] / 1e6:g} s: these differ by more than D = {wait / 1e6:g} s, so buckets run without {most.name}"
        )
        return [EmitEvent("DRIFT", said)]

    def view(self, index: int, bucket: int) -> InputView:
        """One input as R3 sees it."""
        source = self.union.inputs[index]
        said = source.tentative(bucket) if isinstance(source, StreamBuffer) else None
        if source.closed > bucket:
            presence = Presence.STABLE
        else:
            presence = Presence.MISSING if said is None else Presence.TENTATIVE
        return view(presence, self.feeds[index], bucket, said is not None and bool(said.missing))

    def views(self, bucket: int) -> list[InputView]:
        """All inputs."""
        return [self.view(i, bucket) for i in range(len(self.feeds))]

    def ordered_live(self, bucket: int) -> Mapping[int, Ordered]:
        """What there is of a bucket, in order."""
        return self.union.ordered_live(bucket)

    def share(self, bucket: int) -> Share:
        """What a bucket has of its inputs now."""
        words = [said for _, said in self._open(bucket) if said is not None]
        diverged_from = min((said.diverged_from for said in words), default=None)
        return Share(self.missing(bucket), self.missing_sources(bucket), self.completeness(bucket), diverged_from)

    def _open(self, bucket: int) -> Iterator[tuple[SourceBuffer | StreamBuffer, TentativeBucket | None]]:
        """The inputs that have not closed a bucket, each with the tentative word to use."""
        for source in self.union.inputs:
            if source.closed <= bucket:
                yield source, source.tentative(bucket) if isinstance(source, StreamBuffer) else None

    def missing(self, bucket: int) -> tuple[str, ...]:
        """The sources that a bucket itself has not, nor upstream's of it, in the order of the inputs."""
        found = [source.sources if said is None else said.missing for source, said in self._open(bucket)]
        return tuple(dict.fromkeys(name for names in found for name in names))

    def missing_sources(self, bucket: int) -> tuple[str, ...]:
        """The same with all that upstream's tentative words lacked, in earlier buckets too."""
        found = [source.sources if said is None else said.missing_sources for source, said in self._open(bucket)]
        return tuple(dict.fromkeys(name for names in found for name in names))

    def completeness(self, bucket: int) -> float:
        """Which part of the inputs the bucket has; a tentative one counts by its own completeness."""
        total = 0.0
        for source in self.union.inputs:
            if source.closed > bucket:
                total += 1
            elif isinstance(source, StreamBuffer) and (said := source.tentative(bucket)) is not None:
                total += said.completeness
        return total / len(self.union.inputs)

    def slice(self, first: int, limit: int, pace: Pace, most: int) -> tuple[int, int]:
        """How far to run in one turn, and the rows in it: bounded work, any stretch of empty buckets.

        Args:
            most: so many buckets with rows, 1 or more.
        """
        rows = 0
        for n, bucket in enumerate(self.union.busy(first, limit, most + 1)):
            count = self.union.count(bucket)
            if not pace.takes(n, count, most):
                return bucket, rows
            rows += count
        return limit, rows

    def with_rejects(self, first: int, end: int, outputs: Mapping[int, Output]) -> Mapping[int, Output]:
        """Outputs of the complete buckets [first, end) with the dead letters of their input."""
        merged = dict(outputs)
        for bucket in self.union.busy(first, end):
            rejects = self.union.rejects(bucket)
            if rejects:
                output = merged.get(bucket, Output())
                merged[bucket] = replace(output, rejects=rejects + output.rejects)
        return merged

    def ran(self, bucket: int) -> None:
        """The bucket ran live: a feed of an input that was not stable in it is LATE unless it had spoken (R3)."""
        for feeds, source in zip(self.feeds, self.union.inputs, strict=True):
            if source.closed <= bucket:
                for feed in feeds:
                    feed.ran(bucket)
        self.union.passed(bucket + 1)

    def forgive(self) -> None:
        """R2, B13."""
        for feed in self._all():
            feed.forgive()

    def late(self, index: int) -> bool:
        """No feed of this input is in time."""
        return all(feed.late for feed in self.feeds[index])

    def silences(self) -> list[bool]:
        """Which inputs are late, to be compared by `silence_notes`."""
        return [self.late(i) for i in range(len(self.feeds))]

    def silence_notes(self, before: Sequence[bool]) -> list[EmitEvent]:
        """What to tell of inputs that fell silent or were heard again."""
        now = zip(before, self.silences(), self.union.inputs, strict=True)
        return [EmitEvent("SILENT" if late else "HEARD", source.name) for was, late, source in now if late != was]

    def tidy(self, stable: int, live: int, keep_from: int, rows_max: int) -> None:
        """Forget what is below the frontiers; over the budget, drop rows below `keep_from`, for a redo to read, then
        tentative ones of the farthest buckets, to be read again when their turn comes (R6).
        """
        if (stable, live) != self._tidied:
            self._tidied = (stable, live)
            self.union.forget(stable)
            self.union.passed(live)
            self.creation.forget(live)
        if self.union.kept_rows > rows_max and stable < live:
            self.union.evict(keep_from)
        if self.union.kept_rows > rows_max:
            self.union.drop_ahead(live, rows_max)

    def ahead(self, live: int, rows_max: int) -> frozenset[int]:
        """Inputs to read no further for now: memory is full and they are ahead of what runs next (R6)."""
        if self.union.kept_rows <= rows_max:
            return frozenset()
        return frozenset(i for i in range(len(self.feeds)) if self.union.closed(i) > live)

    def _all(self) -> Iterator[FeedState]:
        for feeds in self.feeds:
            yield from feeds
