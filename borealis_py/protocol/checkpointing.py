"""When a checkpoint is taken and may become durable (R12, B1)."""

from __future__ import annotations

from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import Effect, SaveCheckpoint
from sunion.model import State
from sunion.union import SUnion


class Checkpointing:
    """One replica's checkpoints. `checkpoint_bucket`: of the newest durable one, -1: none; in heartbeats (B44)."""

    def __init__(self, timing: Timing, bucket: int) -> None:
        self.checkpoint_bucket = -1
        self.newest = bucket
        self._timing = timing
        self._pending: SaveCheckpoint | None = None
        self._due: int | None = None
        self._soon = False

    def soon(self) -> None:
        """Do not wait for the interval to pass, nor for the next one if a checkpoint waits for its acks just now."""
        self._soon = True

    def turn(self, now: int, f_s: int, state: State, union: SUnion, ack_s: int) -> list[Effect]:
        """Take a reference when one is due; hand it out once the own topic holds everything below it (B1)."""
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
