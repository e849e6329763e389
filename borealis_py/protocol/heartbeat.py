"""Heartbeats. The turn that does the work sends them, so that a hung replica falls silent (R7.1, B26, B31).

During a long turn, `node.pulse` repeats the last one.
"""

from __future__ import annotations

from collections.abc import Callable

from borealis_py.protocol.delay import ALWAYS
from borealis_py.protocol.incarnation import Heartbeat, Identity
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.states import ReplicaState
from borealis_py.protocol.turn import SendHeartbeat
from sunion.digests import Digest
from sunion.units import NOWHERE, Bucket, MonotonicUs, Offset

PLAY = 10
"""A heartbeat goes with a turn up to a tenth of the interval before or after it is due: else an idle replica would have
a turn, and a request to the broker, for the heartbeat alone."""


class HeartbeatTimer:
    """Decides when this replica sends a heartbeat, and what it contains."""

    def __init__(self, identity: Identity, timing: Timing) -> None:
        self.every_us = timing.heartbeat_us
        """The interval. A standby that does not compute changes it."""
        self._identity = identity
        self._beat_at = ALWAYS
        """When the last heartbeat was sent or withheld; ALWAYS: none yet."""
        self._checkpoint_bucket = -1
        """The checkpoint that the last one reported."""
        self._asking = False
        """Whether the last one asked for a grant."""
        self._runs: bool | None = None
        """The role that the last one reported; None: none was sent."""
        self._old_ask: int | None = None
        """The offset of an ask that ended, if it was still in force when the present one began (B26)."""
        self._last: list[SendHeartbeat] = []
        """The last heartbeat; empty: none was sent."""

    @property
    def next_us(self) -> MonotonicUs:
        """When the next heartbeat is sent if no turn comes before that takes it along."""
        return MonotonicUs(self._beat_at + self.every_us + self._play_us)

    @property
    def _play_us(self) -> int:
        return self.every_us // PLAY

    def beat(
        self,
        *,
        now: MonotonicUs,
        state: ReplicaState,
        ack_s: Bucket,
        ack_l: Bucket,
        digests: Callable[[], tuple[Digest, ...]],
        asking: bool,
        ask: Offset | None,
        progress: Bucket,
        checkpoint_bucket: Bucket = NOWHERE,
        runs: bool = True,
    ) -> list[SendHeartbeat]:
        """The heartbeat, if one is due: at each interval, when asking or the role changes, and when a new checkpoint is
        durable.

        Args:
            ack_s, ack_l: as the log has acknowledged. digests: those not told yet; called if a heartbeat is sent.
            ask: offset of the own ask; None: not read back. progress: first bucket not published, as far as known.
            runs: the replica speaks; False: it stands by (R17.1).
        """
        news = runs is not self._runs or asking != self._asking or checkpoint_bucket > self._checkpoint_bucket
        if now < self.next_us - 2 * self._play_us and not news:
            return []
        if asking and not self._asking:
            self._old_ask = ask  # of an earlier run of asking, whose end has not been read back yet (B26)
        self._beat_at = now
        self._asking = asking
        self._checkpoint_bucket = checkpoint_bucket
        self._runs = runs
        ask = None if ask == self._old_ask else ask
        me = self._identity
        self._last = [
            SendHeartbeat(
                Heartbeat(
                    app_uid=me.app_uid,
                    replica=me.replica,
                    inc=me.inc,
                    uid=me.uid,
                    state=state.value,
                    ack_s=ack_s,
                    ack_l=ack_l,
                    asking=asking,
                    ask_offset=ask,
                    progress=progress,
                    checkpoint_bucket=checkpoint_bucket,
                    runs=runs,
                    digests=digests(),
                )
            )
        ]
        return self._last

    def withhold(self, now: MonotonicUs) -> None:
        """Send no heartbeat in this turn, since the former incarnation still does: the next one is due an interval
        later."""
        self._beat_at = now

    def again(self, read: Heartbeat | None) -> list[SendHeartbeat]:
        """The last heartbeat once more: its replica steps back, and shows that it has lived. If it sent none, the last
        one of its incarnation that was `read` back: it stood by, and another took over while it started."""
        return self._last or ([] if read is None else [SendHeartbeat(read)])
