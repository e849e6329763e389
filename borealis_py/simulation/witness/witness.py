"""Judges one process from its start to its end, by what it had read when it wrote something (R1 to R18, A10).

It replays a `Recording`, tracks the two frontiers, the divergence and the phase by what was written, and raises
Violation where a statement of the protocol does not hold. It shares record formats with the product, but no code.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.records import (
    GapHeader,
    RangeHeader,
    RecDoneHeader,
    StableHeader,
    StreamHeader,
    TentativeHeader,
    UndoHeader,
    unpack_stream,
)
from borealis_py.simulation.cluster.recorder import JobCancelled, JobStarted, RecordedTurn, Recording, Saved
from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.budgets import Acks, Checkpoints, Jobs
from borealis_py.simulation.witness.labels import Divergence
from borealis_py.simulation.witness.losing import Frontiers, Lacking
from borealis_py.simulation.witness.place import ReplicaPlace
from borealis_py.simulation.witness.queue import Queue
from borealis_py.simulation.witness.reading import Known, KnownSource, KnownStream, UpstreamWait
from borealis_py.simulation.witness.waiting import Births, Overdue, earliest_us


class _Status(msgspec.Struct):
    """Of a status record only what was the event."""

    event: str


class Witness:
    """Judges one process.

    Args:
        place: its surroundings. well: (from, until) -> whether it was alone, and reached all its inputs.
    """

    def __init__(self, place: ReplicaPlace, heard: Recording, well: Callable[[int, int], bool]) -> None:
        self.place = place
        self.heard = heard
        self.at = Frontiers(heard.bucket, heard.bucket)
        self.granted = False
        self.asking = False
        self.ready = False
        self.births = Births(heard.bucket, place.width_us)
        self.settings = place.settings()
        self.queue = Queue(place, heard.name)
        self.divergence = Divergence(place.span)
        self.acks = Acks(place.own_feeds, place.timing, place.span, max(heard.bucket, heard.says_from))
        self.jobs = Jobs(place.timing, place.rows, place.scenario.spark)
        self.checkpoints = Checkpoints()
        self.overdue = Overdue(heard.name, well)
        self.lacking = Lacking(place, heard, self.at)
        self.inputs: list[Known] = []
        self.unheard = False
        """Buckets may have run live that nobody hears, and the state may not have been corrected since."""
        self._before_us = heard.turns[0].now_us
        self._goal: int | None = None
        self._gone: Feed | None = None

    def judge(self) -> None:
        """Raises Violation."""
        start, *turns = self.heard.turns
        self._start(start)
        for number, turn in enumerate(turns, 1):
            self._turn(number, turn)

    def _start(self, start: RecordedTurn) -> None:
        place, opened = self.place, self.heard.opened
        self.inputs = [
            KnownSource(name, place.truths[name], place.origin, place.last, self.heard.bucket, opened[feeds[0]].offset)
            if name in place.truths
            else KnownStream(name, place, len(feeds), self.heard.bucket)
            for name, feeds in place.inputs
        ]
        self.settings.read(opened[place.settings_feed].records)
        self.queue.read(opened[place.control_feed].records)
        for done in start.done:
            if isinstance(done, NewRecord) and done.feed in place.own_feeds:
                self._says(start, done)

    # A turn -----------------------------------------------------------------------------------------------------------

    def _turn(self, number: int, turn: RecordedTurn) -> None:
        now, gap = turn.now_us, turn.now_us - self._before_us > self.place.timing.gap_us
        self._moved(turn)
        self._before_us = now
        self._read(turn)
        self._rebuild()
        self.lacking.turn(number, self.complete)
        self._run_unheard(now)
        self.queue.looked(now, gap, self.asking)
        self.acks.turn(turn.acked)
        self.jobs.turn(turn.answers)
        for done in turn.done:
            if isinstance(done, JobStarted):
                unseen = self.lacking.unseen or self._stable_unseen
                stable = done.job.first if unseen else self.at.stable
                self.jobs.asked(self._name, now, done, stable, self.at.live)
            elif isinstance(done, JobCancelled):
                self.jobs.dropped(done)
            elif isinstance(done, Saved):
                self._saves(done)
            elif done.feed in self.place.own_feeds:
                self._says(turn, done)
            elif done.feed == self.place.control_feed:
                self._beats(done)
            elif done.feed == self.place.status_feed:
                self._tells(turn, done)
        if turn.ended:
            self._owes(now, gap)
            self.jobs.turn_ended(self._name, now)
            if self.queue.goal is not None:  # it has read back a heartbeat of its own (B30)
                self.checkpoints.turn_ended(self._name, self.acks.stable, self.at.stable)

    def _rebuild(self) -> None:
        """What a replica with an empty state runs before it says anything (R17.14)."""
        at = self.at
        if not self.lacking.quiet:
            return
        at.stable = max(at.stable, min(self.complete, self.heard.says_from))
        at.live = max(at.live, at.stable)

    def _run_unheard(self, now: int) -> None:
        """Of what was said before its start, buckets may run live that wait no longer: what it says then stands on
        them (R17.15). When each ran, and on what, cannot be seen."""
        at, first = self.at, self.heard.says_from
        if self.lacking.quiet and at.live < first and self._due(now):
            at.live, self.unheard = first, True
            self.divergence.unseen()

    @property
    def _stable_unseen(self) -> bool:
        return self.unheard and self.at.stable <= self.heard.says_from

    def _corrected_unheard(self) -> None:
        if self.unheard:
            self.unheard = False
            self.divergence.over()

    def _due(self, now: int) -> bool:
        """Whether nothing allows the next bucket to wait."""
        at, end = self.at, self.births.end_us(self.at.live)
        if end is None or at.stable == at.live < self.complete:
            return False
        earliest = earliest_us(end, at.live, self.inputs, self.settings.orders, self.granted)
        return earliest is not None and earliest <= now

    @property
    def _name(self) -> str:
        return self.heard.name

    @property
    def complete(self) -> int:
        """The first bucket that is not complete, from what was read."""
        return min(known.closed for known in self.inputs)

    def _saves(self, done: Saved) -> None:
        """Of two of one number, only the one that the log has heard keeps checkpoints, all in one place (B30)."""
        if self.queue.goal is None:
            said = f"{self._name} saves one before it has read back its own heartbeat"
            raise Violation("checkpoint", said, done.bucket)
        self.checkpoints.saved(done.bucket)

    def _moved(self, turn: RecordedTurn) -> None:
        """Cursors that were moved since the turn before, at its end."""
        for known, (_, feeds) in zip(self.inputs, self.place.inputs, strict=True):
            for cursor, feed in zip(known.cursors, feeds, strict=False):
                offset = turn.moved.get(feed)
                if offset is not None:
                    cursor.moved(offset, feed == self._gone, self._before_us)
        self._gone = turn.gone

    def _read(self, turn: RecordedTurn) -> None:
        place = self.place
        by_feed: dict[Feed, list[Record]] = {}
        for record in turn.read:
            by_feed.setdefault(record.feed, []).append(record)
        if place.settings_feed in by_feed:
            self.settings.read(by_feed[place.settings_feed])
        if place.control_feed in by_feed:
            self.queue.read(by_feed[place.control_feed])
        told: list[UpstreamWait] = []
        for known, (_, feeds) in zip(self.inputs, place.inputs, strict=True):
            if isinstance(known, KnownSource):
                found = by_feed.get(feeds[0])
                if found:
                    known.read(found, self.at.live)
            elif isinstance(known, KnownStream):
                said = [(k, r) for k, feed in enumerate(feeds) for r in by_feed.get(feed, ())]
                if said:
                    told += known.read(said, self.at.live, turn.now_us)
        self.births.seen(turn.now_us, max(known.top for known in self.inputs), told)

    def _owes(self, now: int, gap: bool) -> None:
        """Check what must have been emitted by now, and which state it must have reached."""
        at, few = self.at, self.acks.waiting <= self.place.timing.outbox_max
        due = few and not self.lacking.unseen and self._due(now)
        self.overdue.bucket(now, at.live, due, gap)
        if not self.ready:
            self._goal = self._ready_from()
            behind = at.stable == at.live < self.complete or self.lacking.unseen
            caught_up = self._goal is not None and self._goal <= self.acks.live and not behind
            self.overdue.check_readiness(now, caught_up, gap)

    def _ready_from(self) -> int | None:
        """As far as its output must be acknowledged before it is READY: what peers had reached when it first heard
        itself, else its own frontier then; None: it has not."""
        if self._goal is not None or self.queue.goal is None:
            return self._goal
        return self.at.live if self.queue.goal < 0 else self.queue.goal

    # What it emits ----------------------------------------------------------------------------------------------------

    def _says(self, turn: RecordedTurn, record: NewRecord) -> None:
        header, _ = unpack_stream(record.value)
        last = not isinstance(header, StableHeader | TentativeHeader) or header.part + 1 == header.parts
        self.acks.said(record.feed, header, last)
        if record.feed != self.place.own_feeds[0] or not last:
            return
        now = turn.now_us
        if isinstance(header, StableHeader):
            self._stable(now, header.bucket, header.bucket + 1, header.waited_us)
        elif isinstance(header, RangeHeader):
            self._stable(now, header.first, header.end, header.waited_us)
        elif isinstance(header, GapHeader):
            self.lacking.lost(self.complete, header)
            if self.at.stable == self.at.live:  # all that it had run live is in the gap, and corrected
                self.lacking.diverged = False
                self.divergence.over()
                self._forgive()
        elif isinstance(header, TentativeHeader):
            self._tentative(now, header)
        else:
            self._phase(now, header)

    def _stable(self, now: int, first: int, end: int, held_us: int) -> None:
        at = self.at
        if end <= at.stable:
            return  # from a peer, so that the own topic has no hole
        together, given = at.stable == at.live, self.jobs.gives(first, end)
        if end > self.complete and not given:
            raise Violation("early", f"{self._name}: bucket {end - 1} is stable, read is only {self.complete}", end - 1)
        if not given:
            self.acks.may_run(self._name, first)
        expected = self.births.held_us(end - 1, now) if together and not given else 0
        if held_us != expected:
            self._wrong("held", end - 1, f"held {held_us} us, expected {expected}")
        at.stable = end
        if together:
            at.live = max(at.live, end)
            self._corrected_unheard()
            self._forgive()
        elif at.stable == at.live:
            self.unheard = False
            self.divergence.over()
            self._forgive()
            self.checkpoints.soon(end)

    def _forgive(self) -> None:
        for known in self.inputs:
            for voice in known.voices:
                voice.forgive()

    def _tentative(self, now: int, header: TentativeHeader) -> None:
        at, bucket = self.at, header.bucket
        if self.lacking.takes(header):
            self._without_the_lost(now, header)
            return
        if bucket != at.live:
            self._wrong("frontiers", bucket, f"is said tentatively, {at.live} is next")
        self._may_run(now, bucket)
        self.acks.may_run(self._name, bucket)
        why = self.divergence.ran(header, self.inputs, now)
        if why is not None:
            self._wrong("labels", bucket, why)
        if header.waited_us != (expected := self.births.held_us(bucket, now)):
            self._wrong("held", bucket, f"held {header.waited_us} us, expected {expected}")
        for known in self.inputs:
            if known.closed <= bucket:
                for voice in known.voices:
                    voice.passed_over(bucket)
        at.live = bucket + 1

    def _without_the_lost(self, now: int, header: TentativeHeader) -> None:
        """A result that stands on lost buckets (R18.4)."""
        self.lacking.judge(header)
        bucket = header.bucket
        if bucket >= self.complete or self.lacking.diverged:
            self.lacking.diverged = True
            self.divergence.follow(bucket, self.inputs, now, self.lacking.since(header))
            for known in self.inputs:
                if known.closed <= bucket:
                    for voice in known.voices:
                        voice.passed_over(bucket)
        else:
            self._forgive()
        self.at.live = bucket + 1

    def _may_run(self, now: int, bucket: int) -> None:
        orders, at = self.settings.orders, self.at
        policy = orders.stabilization if self.granted else orders.failure
        phase = "stabilization" if self.granted else "failure"
        if at.stable == at.live and self.complete > bucket and not self.unheard:
            self._wrong("avoidable", bucket, "ran tentatively, and was complete")
        end = self.births.end_us(bucket)
        if end is None:
            self._wrong("premature", bucket, "ran before anybody had opened it")
            return
        earliest = earliest_us(end, bucket, self.inputs, orders, self.granted)
        if earliest is None:
            self._wrong("policy", bucket, f"was said tentatively in {phase}, where {policy} holds it back")
        elif now < earliest and not self.unheard:  # what it knows of silent inputs cannot be seen either
            oracle = "policy" if policy == "delay" else "premature"
            detail = f"ran {(earliest - now) / 1e6:.3f} s before its time, in {phase} with policy {policy}"
            self._wrong(oracle, bucket, detail)

    def _wrong(self, oracle: str, bucket: int, detail: str) -> None:
        raise Violation(oracle, f"{self._name}: bucket {bucket} {detail}", bucket)

    def _phase(self, now: int, header: StreamHeader) -> None:
        if isinstance(header, RecDoneHeader):
            self.granted = False
            if self.lacking.unseen:
                self.lacking.diverged = False
                self.divergence.may_be_over()
            return
        assert isinstance(header, UndoHeader)
        if not self.queue.may_correct(now):
            detail = f"{self._name} corrects, and {self.queue.head()} is head of the queue"
            raise Violation("turn", detail, header.bucket)
        self.granted = True
        self.jobs.granted()
        self._forgive()

    # What it reports to others ----------------------------------------------------------------------------------------

    def _beats(self, record: NewRecord) -> None:
        beat = msgspec.json.decode(record.value or b"{}")
        self.asking = bool(beat["asking"])
        self.queue.says(beat)

    def _tells(self, turn: RecordedTurn, record: NewRecord) -> None:
        if msgspec.json.decode(record.value or b"{}", type=_Status).event != "READY":
            return
        goal = self._ready_from()
        if goal is None or goal > self.acks.live:
            raise Violation("ready", f"{self._name} is READY, acknowledged is {self.acks.live}, its goal is {goal}")
        if self.at.stable == self.at.live < self.complete and not (self.lacking.unseen or self.unheard):
            raise Violation("ready", f"{self._name} is READY at {self.at.live}, complete is {self.complete}")
        self.ready = True
