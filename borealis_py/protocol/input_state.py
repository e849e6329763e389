"""What a replica has read, on which it bases its decisions: rows by bucket, the state of each feed, when buckets were
created (R1), which sources drift apart, and whether it has read to the ends. It runs and emits nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from borealis_py.protocol.delay import ALWAYS, Creation, FeedState, InputView, Presence, view
from borealis_py.protocol.incarnation import InputReport
from borealis_py.protocol.labels import Share
from borealis_py.protocol.pace import Pace
from borealis_py.protocol.settings import ManagerConfig
from borealis_py.protocol.turn import AskEnds, Effect, EmitEvent, Turn
from sunion.input_buffers import SourceBuffer, StreamBuffer
from sunion.lateness import Lateness
from sunion.model import Ordered, TentativeBucket
from sunion.union import Mark, SUnion
from sunion.units import Bucket, MonotonicUs


class InputState:
    """The reading side of one replica's state.

    Args:
        start: first bucket to run. marks: where to read each source from; None: from its beginning.
    """

    def __init__(self, config: ManagerConfig, start: Bucket, marks: Sequence[Mark] | None) -> None:
        inputs = config.inputs
        self._buckets = config.buckets
        self.union = SUnion(
            inputs,
            config.origin,
            config.buckets,
            config.ops,
            ahead_max_us=config.timing.ahead_max_us,
            unpack=config.unpack,
        )
        """The rows read and not yet forgotten, by input and bucket."""
        if marks is not None:
            self.union.resume(start, marks)
        self.creation = Creation(start)
        """When each bucket from the live frontier on was created; `create` extends it once a turn."""
        self.feeds = [[FeedState(start) for _ in range(max(1, i.replicas))] for i in inputs]
        """By input index, the state of each topic that carries the input: one for a source, one for each upstream
        replica otherwise."""
        self._waited: list[tuple[Bucket, int]] = []
        """Buckets of this turn's stream records, and microseconds that they had waited upstream. Empty after `create`.
        """
        self._drifts = {index: Drift(self._buckets.width_us) for index in self.union.sources}
        """By index of a source, how long it has stayed behind."""
        self._spoke: list[int] = []
        """Sources that closed a bucket in this turn. Empty after `drift_notes`."""
        self._latenesses = (0, 0, 0)
        """The least and the largest lateness and the wait D, in microseconds, as last compared."""
        self._heard = False
        """Whether input has arrived since latenesses were last compared."""
        self._tidied = (start, start)
        """The stable and the live frontier below which everything has been forgotten."""
        self._held_at_us = [ALWAYS for _ in inputs]
        """By input index, the time of the last turn in which it was held; ALWAYS: it never was (R6.2)."""
        self._were_late = [False for _ in inputs]
        """By input index, whether it was late at the end of the last turn."""

    def waited_us(self, bucket: Bucket, now: MonotonicUs) -> int:
        """How long past its end a bucket has waited, here and upstream, in microseconds (R1.2, B12)."""
        created = self.creation.at(bucket)
        return 0 if created is None else max(0, now - created - self._buckets.width_us)

    def read(self, turn: Turn, live: Bucket, rows_max: int) -> None:
        """Take what arrived. `live`: the live frontier. `rows_max`: the memory budget when this turn's input was read.

        Raises:
            RetentionLost: all topics of a stream go on beyond the bucket that is needed next.
        """
        held, waiting = self.ahead(live, rows_max), self.union.waiting
        self._heard |= bool(turn.inputs)
        for index, records in turn.inputs.items():
            self.union.feed_all(index, records)
            feed, closed = self.feeds[index][0], self.union.closed(index)
            if closed > feed.said:
                feed.on_report(Bucket(closed - 1), tentative=False, live=live)
                self._spoke.append(index)
            elif records:
                feed.heard = True
        for index, said in turn.streams.items():
            for word in self.union.feed_stream(index, said):
                self.feeds[index][word.replica].on_report(Bucket(word.bucket), tentative=word.tentative, live=live)
                if word.tentative or word.waited_us:
                    self._waited.append((Bucket(word.bucket), word.waited_us))
        if waiting:
            held |= {i for i, _ in waiting - self.union.waiting}
        for index in held:
            self._held_at_us[index] = turn.now

    def held_until(self, bucket: Bucket) -> MonotonicUs:
        """When an input that has not closed `bucket` was last held, since its records were of no use yet or memory was
        full (R6.4): its report of the bucket may lie unread. ALWAYS: none was held."""
        held = zip(self._held_at_us, self.union.inputs, strict=True)
        return max((at for at, source in held if source.closed <= bucket), default=ALWAYS)

    def create(self, now: MonotonicUs) -> None:
        """Create every new bucket up to the highest that exists, less what upstream had waited (R1.1)."""
        self.creation.extend(Bucket(self.union.top), now)
        for bucket, waited_us in self._waited:
            self.creation.waited(bucket, now=now, waited_us=waited_us, width_us=self._buckets.width_us)
        self._waited.clear()

    def drift_notes(self, now: MonotonicUs, wait_us: int) -> list[EmitEvent]:
        """Events for sources that report but stay more than `wait_us` behind, or differ so in lateness (B23)."""
        notes: list[EmitEvent] = []
        top = self.union.top if self._spoke else 0
        for index in self._spoke:
            lag = max(0, top + 1 - self.union.closed(index)) * self._buckets.width_us
            if self._drifts[index].closed(now, lag, wait_us):
                name = self.union.inputs[index].shown
                notes.append(
                    EmitEvent("DRIFT", f"source {name} is {lag / 1e6:g} s behind, more than D = {wait_us / 1e6:g} s")
                )
        self._spoke.clear()
        return notes + self._lateness_notes(wait_us)

    def _lateness_notes(self, wait_us: int) -> list[EmitEvent]:
        """An event if two publishers' latenesses differ by more than `wait_us`, so that one source is always missing
        when the other is present; once per change."""
        if not self._heard and wait_us == self._latenesses[2]:
            return []
        self._heard = False
        sources = [s for s in self.union.sources.values() if s.fold.owner and not s.fold.ended]
        if len(sources) < 2:
            return []
        least, most = (pick(sources, key=lambda s: s.fold.lateness_us) for pick in (min, max))
        apart = least.fold.lateness_us, most.fold.lateness_us, wait_us
        if apart == self._latenesses:
            return []
        self._latenesses = apart
        if apart[1] - apart[0] <= wait_us:
            return []
        said = (
            f"the publisher of {most.shown} waits {apart[1] / 1e6:g} s for late rows, that of {least.shown} "
            f"{apart[0] / 1e6:g} s: these differ by more than D = {wait_us / 1e6:g} s, "
            f"so buckets run without {most.shown}"
        )
        return [EmitEvent("DRIFT", said)]

    @property
    def lowest_sources(self) -> frozenset[int]:
        """The sources, by input index, that have not closed the first incomplete bucket."""
        complete = self.union.complete
        return frozenset([index for index, source in self.union.sources.items() if source.closed <= complete])

    def views(self, bucket: Bucket) -> list[InputView]:
        """The inputs that have not closed a bucket, as R3.3 sees them: it waits for no other."""
        found = []
        for feeds, source in zip(self.feeds, self.union.inputs, strict=True):
            if source.closed <= bucket:
                said = source.tentative(bucket) if isinstance(source, StreamBuffer) else None
                presence = Presence.MISSING if said is None else Presence.TENTATIVE
                found.append(view(presence, feeds, bucket, said is not None and bool(said.missing)))
        return found

    def ordered_live(self, bucket: Bucket) -> Mapping[int, Ordered]:
        """The rows present of a bucket, in order."""
        return self.union.ordered_live(bucket)

    def share(self, bucket: Bucket) -> Share:
        """What a bucket has of its inputs now, and what it lacks."""
        words = [said for _, said in self._open(bucket) if said is not None]
        diverged_from = min((said.diverged_from for said in words), default=None)
        return Share(self.missing(bucket), self.missing_sources(bucket), self.completeness(bucket), diverged_from)

    def _open(self, bucket: Bucket) -> Iterator[tuple[SourceBuffer | StreamBuffer, TentativeBucket | None]]:
        """The inputs that have not closed a bucket, each with the tentative record to use; None: it has none."""
        for source in self.union.inputs:
            if source.closed <= bucket:
                yield source, source.tentative(bucket) if isinstance(source, StreamBuffer) else None

    def missing(self, bucket: Bucket) -> tuple[str, ...]:
        """The sources missing in this bucket, here or in upstream's record of it, in the order of the inputs."""
        found = [source.sources if said is None else said.missing for source, said in self._open(bucket)]
        return tuple(dict.fromkeys(name for names in found for name in names))

    def missing_sources(self, bucket: Bucket) -> tuple[str, ...]:
        """Likewise, with all sources that upstream's tentative records lacked, in earlier buckets too."""
        found = [source.sources if said is None else said.missing_sources for source, said in self._open(bucket)]
        return tuple(dict.fromkeys(name for names in found for name in names))

    def completeness(self, bucket: Bucket) -> float:
        """The share of the inputs that the bucket has, 0 to 1; a tentative input counts by its own completeness."""
        total = 0.0
        for source in self.union.inputs:
            if source.closed > bucket:
                total += 1
            elif isinstance(source, StreamBuffer) and (said := source.tentative(bucket)) is not None:
                total += said.completeness
        return total / len(self.union.inputs)

    def slice(self, first: Bucket, limit: Bucket, pace: Pace, most: int) -> tuple[Bucket, int]:
        """How far to run in one turn. The work is bounded; empty buckets do not count.

        Args:
            most: the most buckets with rows, 1 or more.

        Returns:
            The end of the slice that begins at `first`, and the rows in it.
        """
        rows = 0
        for n, bucket in enumerate(self.union.busy(first, limit, most + 1)):
            count = self.union.count(bucket)
            if not pace.takes(n, count, most, bucket - first):
                return Bucket(bucket), rows
            rows += count
        return limit, rows

    def on_live_run(self, bucket: Bucket) -> None:
        """The bucket ran live: each feed of an input that was not stable in it is LATE unless it reported it (R3.4)."""
        for feeds, source in zip(self.feeds, self.union.inputs, strict=True):
            if source.closed <= bucket:
                for feed in feeds:
                    feed.on_live_run(bucket)
        self.union.passed(bucket + 1)

    def forgive(self) -> None:
        """Clear LATE for each feed that was heard since it became LATE (R2.2, B13)."""
        for feed in self._all():
            feed.forgive()

    def late(self, index: int) -> bool:
        """Whether all feeds of this input are LATE."""
        return _all_late(self.feeds[index])

    def silence_notes(self) -> list[EmitEvent]:
        """Events for inputs that fell silent or were heard again in this turn."""
        now = list(map(_all_late, self.feeds))
        before, self._were_late = self._were_late, now
        if now == before:
            return []
        changed = zip(before, now, self.union.inputs, strict=True)
        return [EmitEvent("SILENT" if late else "HEARD", source.shown) for was, late, source in changed if late != was]

    def release_memory(self, stable: Bucket, live: Bucket, keep_from: Bucket, rows_max: int) -> None:
        """Forget what is below the frontiers. Over the budget of `rows_max` rows, drop rows below `keep_from`, which a
        redo reads again, then tentative rows of the farthest buckets, which are read again before they run (R6.2).
        """
        if (stable, live) != self._tidied:
            self._tidied = (stable, live)
            self.union.forget(stable)
            self.union.passed(live)
            self.creation.forget(live)
        if self.union.kept_rows <= rows_max:
            return
        if stable < live:
            self.union.evict(keep_from)
        if self.union.kept_rows > rows_max:
            self.union.drop_ahead(live, rows_max)

    def ahead(self, live: Bucket, rows_max: int) -> frozenset[int]:
        """Inputs not to read further for now: memory is full and they have closed the bucket that runs next (R6.2)."""
        if self.union.kept_rows <= rows_max:
            return frozenset()
        return frozenset(i for i in range(len(self.feeds)) if self.union.closed(i) > live)

    def _all(self) -> Iterator[FeedState]:
        for feeds in self.feeds:
            yield from feeds

    def statuses(self) -> tuple[InputReport, ...]:
        """The inputs for `Manager.status`, in their order."""
        return tuple(self._status(i, source) for i, source in enumerate(self.union.inputs))

    def _status(self, index: int, source: SourceBuffer | StreamBuffer) -> InputReport:
        report = InputReport(
            name=source.shown,
            closed=Bucket(source.closed),
            late=self.late(index),
            ended=source.closed >= self._buckets.last,
            tuples=source.tuples,
            rejected=source.rejected,
        )
        if isinstance(source, StreamBuffer):
            return report
        fold, late_us = source.fold, _percentiles(source.lateness)
        return replace(report, ended=fold.ended, lateness_us=fold.lateness_us, late_us=late_us)


def _all_late(feeds: Sequence[FeedState]) -> bool:
    for feed in feeds:  # noqa: SIM110 (every turn asks this of every input: a generator takes several times as long)
        if not feed.late:
            return False
    return True


def _percentiles(lateness: Lateness) -> tuple[int, int, int]:
    """By how many microseconds 50 %, 99 % and all of the rows came late, at most."""
    return lateness.percentile(0.5), lateness.percentile(0.99), lateness.max_us


WATCH_US = 10_000_000
"""How long a source must be behind before it is reported."""
AGAIN_US = 60_000_000
"""How long until it is reported again."""
SILENT_US = 2_000_000
"""A longer silence of the source restarts the watch."""


@dataclass(slots=True)
class Drift:
    """The watch on one source, which detects that it reports, but always too late: clocks that drift apart by more than
    D (B23). Times are microseconds, those of day of the local monotonic clock.

    The fastest clock creates the buckets, so each of them runs without the slow source, for ever. No process fails
    then, so only this check reports it. A source that catches up or is silent is not reported.

    Attributes:
        width_us: of a bucket.
        since: when the watch began; None: the source is not behind.
        was_us: how far the source was behind then.
        spoke: when it last closed a bucket.
        told: when it was last reported; None: never.
    """

    width_us: int
    since: MonotonicUs | None = None
    was_us: int = 0
    spoke: MonotonicUs = ALWAYS
    told: MonotonicUs | None = None

    def closed(self, now: MonotonicUs, behind_us: int, wait_us: int) -> bool:
        """The source closed a bucket. Returns whether to report that it is behind.

        Args:
            behind_us: by how much it is behind the fastest source. wait_us: D.
        """
        if behind_us <= wait_us:
            self.since = None
            return False
        silent, self.spoke = now - self.spoke > SILENT_US, now
        if self.since is None or silent or behind_us < self.was_us - max(self.width_us, self.was_us // 20):
            self.since, self.was_us = now, behind_us
        if now - self.since < WATCH_US or (self.told is not None and now - self.told < AGAIN_US):
            return False
        self.told = now
        return True


class LogEnds:
    """Whether a replica has read all that the logs held: before that, no input counts as missing (R3.2, B14).

    Attributes:
        read_to: the time, in microseconds, at which the ends were asked for that it has read up to; ALWAYS: none yet.
    """

    def __init__(self) -> None:
        self.read_to = ALWAYS
        self._started: int | None = None
        """The time of the first turn; None before it."""
        self._last_us = 0
        """How long the last turn took, in microseconds."""
        self._away_until = ALWAYS
        """The time of the last turn after which records may be unread; ends asked for earlier do not cover them."""
        self._asked: int | None = None
        """When the ends were asked for that are not read up to yet; None: no answer is awaited."""

    def turn(self, now: MonotonicUs, elapsed_us: int, gap_us: int, worked: bool) -> bool:
        """A turn begins, `elapsed_us` after the one before; `worked`: that one had so much to do.

        Returns:
            Whether it is late. Unless it worked, it may not have read what came meanwhile. One that took at most twice
            as long as the one before is slow, as that was, and was not away: otherwise a machine on which each turn is
            slow would ask for the ends in each, and run nothing live.
        """
        gap = self._started is not None and elapsed_us > gap_us
        if (gap and not worked and elapsed_us > 2 * self._last_us) or self._started is None:
            self._away_until = now
        self._started = now if self._started is None else self._started
        self._last_us = elapsed_us
        return gap

    def away(self, now: MonotonicUs) -> None:
        """Records must be read again: ends that were asked for before do not cover them."""
        self._away_until = now

    def answered(self, read_to: MonotonicUs) -> None:
        """The replica has read everything below the ends as of `read_to`."""
        self.read_to = max(self.read_to, read_to)
        if self._asked is not None and read_to >= self._asked:
            self._asked = None

    def unread(self, at: MonotonicUs) -> bool:
        """Whether records that the logs held at `at`, or while this replica was away, may be unread."""
        return max(at, self._away_until) > self.read_to

    @property
    def unread_since_start(self) -> bool:
        """Whether records that the logs held at the start may be unread."""
        return self._started is None or self.read_to < self._started

    @property
    def asked(self) -> bool:
        """Whether ends were asked for that are not read up to yet."""
        return self._asked is not None

    def ask(self, now: MonotonicUs) -> list[Effect]:
        """Ask for the ends, unless an answer is on its way."""
        if self._asked is not None:
            return []
        self._asked = now
        return [AskEnds()]
