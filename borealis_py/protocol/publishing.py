"""Publishing the corrected stream by progress (R10, B32), without an election.

A replica that has more to write, and sees progress stand still for its patience, fences the old writer, reads the
progress again and goes on from there. Rows and progress are one transaction, so no row is repeated or left out.

    IDLE --patience passed--> TAKING --ready--> READY <--committed-- COMMITTING
      ^------ at work, fenced or unknown ----------'--------------------'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from borealis_py.protocol.incarnation import Disagreement
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import (
    AbandonWriter,
    Effect,
    EmitEvent,
    FenceWriter,
    Publish,
    TellDisagreement,
    Turn,
    WriterBusy,
    WriterEvent,
    WriterLost,
    WriterReady,
)
from sunion.digests import StableDigests
from sunion.output import SOutput
from sunion.units import Bucket, MonotonicUs

PLAY = 3
"""Progress alone waits up to a third of its time longer for a turn that comes anyway, with the next bucket."""
DOUBLINGS_MAX = 4
"""How often a patience is doubled at most: 16 s are longer than a transaction may take."""


class Phase(Enum):
    IDLE = "idle"
    TAKING = "taking over"
    READY = "ready"
    COMMITTING = "committing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishContext:
    """What the replica knows in this turn.

    Attributes:
        now: microseconds of the monotonic clock.
        stable: own F_s.
        lowest_live: the lowest index that counts as live; -1: no own heartbeat was read back yet.
        gap: the own turns had a gap.
        read_to: the time at which the ends were asked for up to which all is read.
        closed: the first bucket that an input leaves open, or F_s if that is higher.
        runs: the replica speaks for its node, or all do; a standby publishes nothing (R17.1).
    """

    now: MonotonicUs
    stable: Bucket
    lowest_live: int
    gap: bool
    read_to: MonotonicUs
    closed: Bucket
    runs: bool = True


class DisagreementWatch:
    """Whether replicas emitted the same rows (R15.2): compares peers' digests with its own, takes in what others found.

    Replicas give equal bits by construction. Where one does not (a broken machine, an engine that is not
    deterministic), nobody can say which is right, so nothing more is published until an operator has decided.

    Attributes:
        found: because of which nothing is published; None: the replicas agree, as far as they were compared.
    """

    def __init__(self, replica: int) -> None:
        self.found: Disagreement | None = None
        self._replica = replica

    def turn(self, turn: Turn, digests: StableDigests) -> list[Effect]:
        """Take in the settings and heartbeats of a turn. The first disagreement counts until an operator clears it."""
        effects = [*self._told(turn.disagreements, digests)]
        for _, beat in turn.beats:
            if self.found is not None or beat.replica == self._replica:
                continue
            differs = digests.difference(beat.digests)
            if differs is not None:
                self.found = Disagreement(differs.bucket, self._replica, differs.own, beat.replica, differs.peer)
                effects += [TellDisagreement(self.found), EmitEvent("DIVERGED", str(self.found))]
        return effects

    def _told(self, told: Iterable[Disagreement | None], digests: StableDigests) -> Iterable[Effect]:
        for found in told:
            if found is None and self.found is not None:
                digests.forget()  # what an operator has judged is not reported again
                self.found = None
                yield EmitEvent("RESUMED", "an operator has cleared the disagreement: rows are published again")
            elif found is not None and self.found is None:
                self.found = found
                yield EmitEvent("DIVERGED", str(found))


class Publishing:
    """One replica's part in writing the corrected stream.

    Attributes:
        phase: of its writer.
        progress: the first bucket that is not in the corrected stream, as far as known; None: no record was read.
        read: the same by the progress records that were read and believed alone: every later writer finds these.
        at_once: it has just begun to run in the place of another one, so it takes over without patience (R17.7).
        disagreement: compares replicas; while it has found a difference, nothing is published (R15.3).
    """

    def __init__(self, replica: int, timing: Timing, origin: Bucket) -> None:
        self.phase = Phase.IDLE
        self.progress: Bucket | None = None
        self.read: Bucket | None = None
        self.at_once = False
        self.disagreement = DisagreementWatch(replica)
        self._origin = origin
        self._replica = replica
        self._timing = timing
        self._full_us = timing.patience_us + timing.patience_step_us * replica
        """The patience of a replica that has lost no writer, in microseconds; it grows with the index."""
        self._attempt = 0
        """The number of the last take-over; events of earlier ones are ignored."""
        self._committing = origin
        """The end of the last transaction that was handed to the writer."""
        self._unbelieved: Bucket | None = None
        """The last progress record, if it is beyond what the inputs close."""
        self._stood_since: MonotonicUs | None = None
        """Since when progress has stood still behind the own F_s, as far as this replica saw without a gap."""
        self._patience_us: int | None = None
        """The patience after a writer was lost, in microseconds, until progress grows; None: the full one."""
        self._lost = 0
        """Writers lost since progress last grew."""
        self._last_commit = MonotonicUs(0)
        """When the last transaction was committed."""

    @property
    def frontier(self) -> Bucket:
        """The first bucket that is not published, as far as known."""
        return self._origin if self.progress is None else self.progress

    @property
    def patience_us(self) -> int:
        """How long progress may stand still before this replica takes over."""
        return self._full_us if self._patience_us is None else self._patience_us

    def _first(self, standing: PublishContext) -> bool:
        """Whether this replica publishes first: it has just begun to run, or nothing is published and its index is the
        lowest live one. After it has lost a writer, it waits like any other."""
        lowest = self.progress is None and standing.lowest_live == self._replica
        return standing.runs and (self.at_once or lowest) and self._patience_us is None

    def turn(self, turn: Turn, standing: PublishContext, output: SOutput) -> list[Effect]:
        """Take in progress records and the writer's events; take over or publish if due."""
        effects: list[Effect] = []
        self._hear(turn.progress, standing)
        for event in turn.writer:
            if event.attempt == self._attempt and self.phase is not Phase.IDLE:
                effects += self._answered(event, standing.now)
        output.publish_to(self.frontier)
        effects += self.disagreement.turn(turn, output.digests)
        if self._stopped:
            return effects + self._stop(standing.now)
        if self.phase is Phase.IDLE:
            effects += self._maybe_take_over(standing)
        if self.phase is Phase.READY:
            effects += self._maybe_publish(standing, output)
        return effects

    @property
    def _stopped(self) -> bool:
        return self.disagreement.found is not None

    def _stop(self, now: MonotonicUs) -> list[Effect]:
        """Give up the writer, once the outcome of what it is doing is known."""
        self._stood_since = now
        if self.phase is not Phase.READY:
            return []
        self.phase = Phase.IDLE
        return [AbandonWriter()]

    def _hear(self, said: Sequence[Bucket], standing: PublishContext) -> None:
        """Trust a progress record only once the inputs have closed all buckets below it: no replica can have published
        an open one. Until then the next record may correct it."""
        for value in said:
            if value > standing.closed:
                self._unbelieved = value
                self._stood_since = standing.now  # another replica writes: no reason to take over
            else:
                self._unbelieved = None
                self._believe(value, standing.now)
        idle = self.phase is Phase.IDLE  # else this replica reads progress itself, after fencing
        if idle and self._unbelieved is not None and self._unbelieved <= standing.closed:
            self._believe(self._unbelieved, standing.now)
            self._unbelieved = None

    def _believe(self, value: Bucket, now: MonotonicUs) -> None:
        self.read = value if self.read is None else max(self.read, value)
        self._advance(value, now)

    def _advance(self, value: Bucket, now: MonotonicUs) -> None:
        if self.progress is None or value > self.progress:
            self.progress = value
            self._stood_since = now
            self._patience_us = None
            self._lost = 0

    def _answered(self, event: WriterEvent, now: MonotonicUs) -> list[Effect]:
        self.at_once = False
        if isinstance(event, WriterLost):
            self.phase = Phase.IDLE
            self._stood_since = now
            # Doubled: two replicas with a patience shorter than a commit would fence each other for ever.
            patience_us = self._full_us if event.fenced else self._timing.patience_unknown_us
            self._patience_us = patience_us << min(self._lost, DOUBLINGS_MAX)
            self._lost += 1
            return [AbandonWriter()]
        if isinstance(event, WriterBusy):
            self.phase = Phase.IDLE
            self._stood_since = now
            return []
        self._unbelieved = None  # what this writer read itself counts now
        if isinstance(event, WriterReady):
            if event.progress is not None:
                self._advance(event.progress, now)
            self.phase = Phase.READY
            self._patience_us = None
            return [EmitEvent("TOOK_OVER", f"publishes the corrected stream from bucket {self.frontier}")]
        self._advance(self._committing if event.end is None else event.end, now)
        self.phase = Phase.READY
        self._last_commit = now
        return []

    def _maybe_take_over(self, standing: PublishContext) -> list[Effect]:
        first = self._first(standing)
        behind = standing.stable > self.frontier
        if not behind or standing.gap or not standing.runs:
            self._stood_since = standing.now
            if not (first and not standing.gap):
                return []
        if self._stood_since is None:
            self._stood_since = standing.now
        patience_us = 0 if first else self.patience_us
        if standing.now - self._stood_since < patience_us or standing.now - standing.read_to > self._timing.gap_us:
            return []
        self._attempt += 1
        self.phase = Phase.TAKING
        return [FenceWriter(self._attempt)]

    def _maybe_publish(self, standing: PublishContext, output: SOutput) -> list[Effect]:
        first, end = self.frontier, standing.stable
        if end <= first:
            return []
        kept = output.unpublished(first, end, self._timing.publish_most)
        outputs = None
        if kept is None:  # only what the own topic holds can be read from it; reading shows how much fits together
            end = Bucket(min(end, output.kept_from, output.ack_s))
            if end <= first:
                return []
        else:
            outputs, end = kept[0], Bucket(kept[1])
        if outputs == {} and standing.now - self._last_commit < self._timing.progress_only_us:
            return []  # progress alone is not worth a transaction per bucket
        self.phase = Phase.COMMITTING
        self._committing = end
        return [Publish(self._attempt, first, end, outputs)]

    def wants_ends(self, standing: PublishContext) -> bool:
        """Whether a take-over is due and lacks only a fresh look at the progress."""
        if self._stopped or self.phase is not Phase.IDLE or standing.now - standing.read_to <= self._timing.gap_us:
            return False
        if self._first(standing):
            return True
        due = standing.runs and self._stood_since is not None and standing.now - self._stood_since >= self.patience_us
        return due and standing.stable > self.frontier

    def at_ease(self, stable: Bucket) -> bool:
        """Whether the writer's next event may wait for the next turn: it would start nothing."""
        busy = self.phase is Phase.TAKING or (self.phase is Phase.COMMITTING and stable > self._committing)
        return not busy

    def wakeup(self, stable: Bucket) -> MonotonicUs | None:
        """When something is due without new input; None: nothing is."""
        if stable <= self.frontier or self._stopped:
            return None
        if self.phase is Phase.IDLE and self._stood_since is not None:
            return MonotonicUs(self._stood_since + self.patience_us)
        if self.phase is Phase.READY:
            waits_us = self._timing.progress_only_us
            return MonotonicUs(self._last_commit + waits_us + waits_us // PLAY)
        return None
