"""When a checkpoint is taken and when it may become durable (R12, B1), and what it holds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from borealis_py.protocol.incarnation import StartPoint
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import Effect, SaveCheckpoint
from sunion.model import Fragment, State
from sunion.union import Mark, SUnion
from sunion.units import NOWHERE, Bucket, MonotonicUs

PLACES = 8
"""How many places are noted in what a start runs again: so much more of it than it must it may read."""


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """Where to read each source from (`marks`) to run from `bucket` on."""

    bucket: Bucket
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """How state comes back that no checkpoint holds (upstream backup; Hwang et al., ICDE 2005, 5.2).

    Attributes:
        buckets: from so many before F_s on, a start with empty state comes to the state at F_s.
        empty: the state before the first bucket.
        begun: where this incarnation began with that state; None: it began with a checkpoint's.
    """

    buckets: int
    empty: State
    begun: ReadingPlace | None


def rebuilding(start: StartPoint, union: SUnion, buckets: int | None, fragment: Fragment) -> Rebuilding | None:
    """How an incarnation that begins at `start` rebuilds state from `buckets` before F_s on. None: it does not."""
    if buckets is None:
        return None
    begun = ReadingPlace(start.bucket, union.marks(start.bucket)) if start.empty else None
    return Rebuilding(buckets, fragment.initial(), begun)


class Checkpointing:
    """Decides when one replica's checkpoints are taken and saved.

    Args:
        bucket: the stable frontier with which the incarnation begins.
        rebuilding: how to do without state in checkpoints. None: they hold it.

    Attributes:
        checkpoint_bucket: bucket of the newest durable checkpoint, for heartbeats (B44); -1: none that a peer can use.
        newest: bucket of the newest checkpoint handed out to be saved; before the first, where the incarnation began.
    """

    def __init__(self, timing: Timing, bucket: Bucket, rebuilding: Rebuilding | None = None) -> None:
        self.checkpoint_bucket = NOWHERE
        self.newest = bucket
        self._timing = timing
        self._pending: SaveCheckpoint | None = None
        """A checkpoint that waits until the own topic holds everything below it; one at a time."""
        self._due: int | None = None
        """When the next one is due; None before the first turn."""
        self._soon = False
        """Whether the next one is taken without waiting for the interval."""
        self._rebuilding = rebuilding
        self._places: deque[ReadingPlace] = deque()
        """Where reading could begin, the oldest first, as far as they may be needed."""
        if rebuilding is not None and rebuilding.begun is not None:
            self._places.append(rebuilding.begun)

    @property
    def pending(self) -> bool:
        """Whether a checkpoint awaits acknowledgements."""
        return self._pending is not None

    def soon(self) -> None:
        """Take the next checkpoint without waiting for the interval, or right after the one that now awaits acks."""
        self._soon = True

    def written(self, bucket: Bucket) -> None:
        """The checkpoint at `bucket` is durable."""
        if self._rebuilding is None:  # else it holds nothing that a peer could take over
            self.checkpoint_bucket = bucket

    def turn(self, now: MonotonicUs, f_s: Bucket, state: State, union: SUnion, ack_s: Bucket) -> list[Effect]:
        """Take a checkpoint if one is due; return it to be saved once the own topic holds all buckets below it (B1)."""
        if self._due is None:
            self._due = now + self._timing.checkpoint_us
        self._remember(f_s, union)
        if (self._soon or now >= self._due) and f_s > self.newest and self._pending is None:
            self._pending, self._soon = self._taken(f_s, state, union.marks(f_s)), False
        if self._pending is None or ack_s < self._pending.frontier:
            return []
        saved, self._pending = self._pending, None
        self.newest = saved.frontier
        self._due = now + self._timing.checkpoint_us
        return [saved]

    def _remember(self, f_s: Bucket, union: SUnion) -> None:
        """Note where reading could begin, eight times in what a start runs again: also while one does so, since it may
        be killed again."""
        how = self._rebuilding
        if how is None or not self._places:
            return
        if f_s - self._places[-1].bucket >= max(1, how.buckets // PLACES):
            self._places.append(ReadingPlace(f_s, union.marks(f_s)))

    def _taken(self, f_s: Bucket, state: State, marks: tuple[Mark, ...]) -> SaveCheckpoint:
        how = self._rebuilding
        if how is None:
            return SaveCheckpoint(f_s, state, marks)
        if not self._places or self._places[-1].bucket < f_s:
            self._places.append(ReadingPlace(f_s, marks))
        while len(self._places) > 1 and self._places[1].bucket <= f_s - how.buckets:
            self._places.popleft()
        at = self._places[0]
        if at.bucket > f_s - how.buckets and at is not how.begun:
            return SaveCheckpoint(f_s, state, marks)  # nothing that far back is known yet
        return SaveCheckpoint(at.bucket, how.empty, at.marks, said=f_s)
