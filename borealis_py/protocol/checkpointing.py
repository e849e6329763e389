"""When a checkpoint is taken and when it may become durable (R12, B1)."""

from __future__ import annotations

from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import Effect, SaveCheckpoint
from sunion.model import State
from sunion.union import SUnion
from sunion.units import NOWHERE, Bucket, MonotonicUs


class Checkpointing:
    """Decides when one replica's checkpoints are taken and saved.

    Attributes:
        checkpoint_bucket: bucket of the newest durable checkpoint, for heartbeats (B44); -1: none.
        newest: bucket of the newest checkpoint handed out to be saved; before the first, where the incarnation began.
    """

    def __init__(self, timing: Timing, bucket: Bucket) -> None:
        self.checkpoint_bucket = NOWHERE
        self.newest = bucket
        self._timing = timing
        self._pending: SaveCheckpoint | None = None
        self._due: int | None = None
        self._soon = False

    @property
    def pending(self) -> bool:
        """Whether a checkpoint awaits acknowledgements."""
        return self._pending is not None

    def soon(self) -> None:
        """Take the next checkpoint without waiting for the interval, or right after the one that now awaits acks."""
        self._soon = True

    def turn(self, now: MonotonicUs, f_s: Bucket, state: State, union: SUnion, ack_s: Bucket) -> list[Effect]:
        """Take a checkpoint if one is due; return it to be saved once the own topic holds all buckets below it (B1)."""
        if self._due is None:
            self._due = now + self._timing.checkpoint_us
        if (self._soon or now >= self._due) and f_s > self.newest and self._pending is None:
            self._pending, self._soon = SaveCheckpoint(f_s, state, union.marks(f_s)), False
        if self._pending is None or ack_s < self._pending.bucket:
            return []
        saved, self._pending = self._pending, None
        self.newest = saved.bucket
        self._due = now + self._timing.checkpoint_us
        return [saved]
