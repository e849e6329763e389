"""Publishing the corrected stream by progress (R10, B32). Nobody is elected.

Whoever sees progress standing still behind what it could write, for its patience, fences, reads the progress again and
goes on. Rows and progress are one transaction, so nothing is repeated or left out.

    IDLE --patience passed--> TAKING --ready--> READY <--committed-- COMMITTING
      ^------ at work, fenced or unknown ----------'--------------------'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import (
    AbandonWriter,
    Effect,
    EmitEvent,
    FenceWriter,
    Publish,
    Turn,
    WriterBusy,
    WriterCommitted,
    WriterLost,
    WriterReady,
)
from sunion.output import SOutput

DOUBLINGS_MAX = 4
"""Of a patience: 16 s are longer than a transaction may take."""


class Phase(Enum):
    IDLE = "idle"
    TAKING = "taking over"
    READY = "ready"
    COMMITTING = "committing"


@dataclass(frozen=True, slots=True)
class PublishContext:
    """What this turn knows: own F_s, the lowest live index, whether the own turns had a gap, and the first bucket that
    an input leaves open."""

    now: int
    stable: int
    lowest_live: int
    gap: bool
    read_to: int
    closed: int


class Publishing:
    """One replica's part in writing the corrected stream. `progress` None: no record has been seen."""

    def __init__(self, replica: int, timing: Timing, origin: int) -> None:
        self.phase = Phase.IDLE
        self.progress: int | None = None
        self._origin = origin
        self._replica = replica
        self._timing = timing
        self._full = timing.patience_us + timing.patience_step_us * replica
        self._attempt = 0
        self._committing = 0
        self._unbelieved: int | None = None
        self._stood_since: int | None = None
        self._patience: int | None = None
        self._lost = 0
        """Writers lost since progress last grew."""
        self._last_commit = 0

    @property
    def frontier(self) -> int:
        """First bucket that is not published, as far as known."""
        return self._origin if self.progress is None else self.progress

    @property
    def patience(self) -> int:
        """How long progress may stand still before this replica takes over."""
        return self._full if self._patience is None else self._patience

    def _first(self, standing: PublishContext) -> bool:
        """Nobody has published yet and the others leave it to this replica; after a loss it waits like anybody."""
        return self.progress is None and standing.lowest_live == self._replica and self._patience is None

    def turn(self, turn: Turn, standing: PublishContext, output: SOutput) -> list[Effect]:
        """Take in what was read and what the writer answered; go on."""
        effects: list[Effect] = []
        self._hear(turn.progress, standing)
        for event in turn.writer:
            if event.attempt == self._attempt and self.phase is not Phase.IDLE:
                effects += self._answered(event, standing.now)
        output.publish_to(self.frontier)
        if self.phase is Phase.IDLE:
            effects += self._maybe_take_over(standing)
        if self.phase is Phase.READY:
            effects += self._maybe_publish(standing, output)
        return effects

    def _hear(self, said: Sequence[int], standing: PublishContext) -> None:
        """Progress is believed once the inputs have closed all below it: nobody can have published what is open. Until
        then the next record may correct it."""
        for value in said:
            if value > standing.closed:
                self._unbelieved = value
                self._stood_since = standing.now  # somebody writes: no reason to take over
            else:
                self._unbelieved = None
                self._advance(value, standing.now)
        idle = self.phase is Phase.IDLE  # else its own look, after fencing, is the better one
        if idle and self._unbelieved is not None and self._unbelieved <= standing.closed:
            self._advance(self._unbelieved, standing.now)
            self._unbelieved = None

    def _advance(self, value: int, now: int) -> None:
        if self.progress is None or value > self.progress:
            self.progress = value
            self._stood_since = now
            self._patience = None
            self._lost = 0

    def _answered(self, event: object, now: int) -> list[Effect]:
        if isinstance(event, WriterLost):
            self.phase = Phase.IDLE
            self._stood_since = now
            # Doubled: two whose patience is shorter than the log takes to commit would fence each other for ever.
            patience = self._full if event.fenced else self._timing.patience_unknown_us
            self._patience = patience << min(self._lost, DOUBLINGS_MAX)
            self._lost += 1
            return [AbandonWriter()]
        if isinstance(event, WriterBusy):
            self.phase = Phase.IDLE
            self._stood_since = now
            return []
        self._unbelieved = None  # its own word counts now
        if isinstance(event, WriterReady):
            if event.progress is not None:
                self._advance(event.progress, now)
            self.phase = Phase.READY
            self._patience = None
            return [EmitEvent("TOOK_OVER", f"publishes the corrected stream from bucket {self.frontier}")]
        assert isinstance(event, WriterCommitted)
        self._advance(self._committing if event.end is None else event.end, now)
        self.phase = Phase.READY
        self._last_commit = now
        return []

    def _maybe_take_over(self, standing: PublishContext) -> list[Effect]:
        first = self._first(standing)
        behind = standing.stable > self.frontier
        if not behind or standing.gap:
            self._stood_since = standing.now
            if not (first and not standing.gap):
                return []
        if self._stood_since is None:
            self._stood_since = standing.now
        patience = 0 if first else self.patience
        if standing.now - self._stood_since < patience or standing.now - standing.read_to > self._timing.gap_us:
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
        if kept is None:  # what is read from the own topic must lie in it; how much of it goes together shows there
            end = min(end, output.kept_from, output.ack_s)
            if end <= first:
                return []
        else:
            outputs, end = kept
        if outputs == {} and standing.now - self._last_commit < self._timing.progress_only_us:
            return []  # progress alone needs no transaction a bucket
        self.phase = Phase.COMMITTING
        self._committing = end
        return [Publish(self._attempt, first, end, outputs)]

    def wants_ends(self, standing: PublishContext) -> bool:
        """A take-over is due but for a fresh look at the progress."""
        if self.phase is not Phase.IDLE or standing.now - standing.read_to <= self._timing.gap_us:
            return False
        if self._first(standing):
            return True
        due = self._stood_since is not None and standing.now - self._stood_since >= self.patience
        return due and standing.stable > self.frontier

    def wakeup(self, stable: int) -> int | None:
        """When something is due by itself."""
        if stable <= self.frontier:
            return None
        if self.phase is Phase.IDLE and self._stood_since is not None:
            return self._stood_since + self.patience
        if self.phase is Phase.READY:
            return self._last_commit + self._timing.progress_only_us
        return None
