"""Heartbeats: from the turn that does the work, so that a hung replica falls silent (R7, B26, B31).

While a turn takes long, `node.pulse` repeats the last one.
"""

from __future__ import annotations

from borealis_py.protocol.delay import ALWAYS
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.states import ReplicaState
from borealis_py.protocol.turn import SendHeartbeat
from sunion.output import SOutput


class HeartbeatTimer:
    """When this replica says what."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._beat_at = ALWAYS
        self._checkpoint_bucket = -1
        self._asking = False
        self._old_ask: int | None = None

    @property
    def next_us(self) -> int:
        """When the next one is due."""
        return self._beat_at + self._timing.heartbeat_us

    def beat(
        self,
        now: int,
        state: ReplicaState,
        output: SOutput,
        asking: bool,
        ask: int | None,
        progress: int,
        checkpoint_bucket: int,
    ) -> list[SendHeartbeat]:
        """The heartbeat, if one is due: on time, when asking changes, and when there is a checkpoint to adopt.

        Args:
            ask: offset of the own ask as read back. progress: first bucket not published, as far as known.
        """
        news = asking != self._asking or checkpoint_bucket > self._checkpoint_bucket
        if now < self.next_us and not news:
            return []
        if asking and not self._asking:
            self._old_ask = ask  # of an earlier run of asking, whose end was not read back yet (B26)
        self._beat_at, self._asking, self._checkpoint_bucket = now, asking, checkpoint_bucket
        ask = None if ask == self._old_ask else ask
        return [SendHeartbeat(state.value, output.ack_s, output.ack_l, asking, ask, progress, checkpoint_bucket)]
