"""A standby that does not compute: it hears who runs, and says that it lives (R17.5)."""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.heartbeat import HeartbeatTimer
from borealis_py.protocol.incarnation import Heartbeat, Identity, ReplicaStatus, RowCounts
from borealis_py.protocol.publishing import Phase
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.states import ReplicaState
from borealis_py.protocol.turn import Effect, EmitEvent, ExitReplica
from sunion.units import Bucket, MonotonicUs, Offset

CALM = 3
"""How many intervals apart its heartbeats are while it hears a replica that runs: nobody waits for them then, and each
costs both of them a turn."""
OVERDUE = 1.3
"""After how many intervals a heartbeat of the one that runs is missed."""
QUICK = 2 / 3
"""The part of an interval that its heartbeats are apart then, so that having waited for the first costs no time."""


class IdleStandby:
    """One incarnation that stands by, as a pure state machine.

    Attributes:
        control: what it has read of the control log; the replica that it becomes goes on with it.
        runs: it has taken over: begin to run with this identity.
    """

    def __init__(self, identity: Identity, timing: Timing, origin: Bucket) -> None:
        self.identity = identity
        self.control = ControlFold(identity.replica, identity.inc, identity.uid, timing.suspicion_beats)
        self.runs = False
        self._heart = HeartbeatTimer(identity, timing)
        """When its next heartbeat is due; `_pace` sets the interval."""
        self._every_us = timing.heartbeat_us
        """The interval of a replica that runs, in microseconds."""
        self._heard_us: MonotonicUs | None = None
        """When a heartbeat of the replica that runs was last read; None: none yet."""
        self._calm = False
        """Whether a replica runs and its next heartbeat is not overdue."""
        self._said = origin
        """The first bucket that no runner's topic holds as stable, as far as heartbeats show; it only grows."""
        self._progress = origin
        """The highest progress in any heartbeat; it only grows."""
        self._ready = False
        """Whether READY has been reported: once one of its own heartbeats was read back."""

    def turn(self, now: MonotonicUs, beats: Sequence[tuple[Offset, Heartbeat]]) -> list[Effect]:
        """Take what was read of the control log; return the effects in order."""
        effects: list[Effect] = []
        for offset, beat in beats:
            self.control.read(offset, beat)
            self._progress = max(self._progress, beat.progress)
            runner = self.control.roles.runner
            if runner is not None and runner.replica == beat.replica:
                self._heard_us = now
        if (why := self.control.superseded or self.control.number_shared) is not None:
            return [ExitReplica(why, again=self.control.superseded is None)]
        if self.control.roles.runner is not None:
            self._said = max(self._said, Bucket(self.control.roles.runner.ack_s))
        if self.control.echoed and not self._ready:
            self._ready = True
            effects.append(EmitEvent("READY", "stands by"))
        if not self.runs and self.control.roles.due:
            self.runs = True
            effects.append(EmitEvent("RUNS", "takes over: no heartbeat of a replica that runs"))
        self._pace(now)
        effects += self._heart.beat(
            now=now,
            state=ReplicaState.STANDBY,
            ack_s=self._said,
            ack_l=self._said,
            digests=tuple,
            asking=False,
            ask=None,
            progress=self._progress,
            runs=self.runs,
        )
        return effects

    @property
    def next_us(self) -> MonotonicUs:
        """When the next heartbeat is due, or one of the replica that runs will have been missed."""
        return min(self._heart.next_us, self._overdue_us) if self._calm else self._heart.next_us

    @property
    def _overdue_us(self) -> MonotonicUs:
        return MonotonicUs((self._heard_us or 0) + round(OVERDUE * self._every_us))

    def _pace(self, now: MonotonicUs) -> None:
        """How far apart its heartbeats are from now on. Where one that lived was taken for dead, they come late, and it
        does not hurry."""
        self._calm = self.control.roles.runner is not None and now < self._overdue_us
        hurried = 1 if self.control.roles.patient else QUICK
        self._heart.every_us = round((CALM if self._calm else hurried) * self._every_us)

    def status(self) -> ReplicaStatus:
        """The same as a replica's: its frontiers are those of the one that runs."""
        return ReplicaStatus(
            identity=self.identity,
            state=ReplicaState.STANDBY.value,
            f_s=self._said,
            f_l=self._said,
            asking=False,
            granted=False,
            head=None,
            writer=Phase.IDLE.value,
            progress=self._progress,
            counts=RowCounts(),
            inputs=(),
        )
