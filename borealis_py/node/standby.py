"""A standby that does not compute: the loop around `IdleStandby`, whose turns cost a few heartbeats (R17.5); and what
an incarnation has while it stands by: its heartbeats in long turns, and what its replica will write with.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace

import structlog

from borealis_py.log.base import Appender, Log, LogError, Wake
from borealis_py.log.clock import Clock
from borealis_py.log.description import Life
from borealis_py.node.acknowledging import Acknowledging
from borealis_py.node.dynamic_settings import DynamicSettings
from borealis_py.node.endings import NumberShared, Superseded, WayChanged, give_way
from borealis_py.node.input_reader import InputReader
from borealis_py.node.pulse import Pulse, repeating
from borealis_py.node.recovery_setting import obey
from borealis_py.node.reporter import Reporter, StatusListener, ignore_status
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.starting import new_identity
from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.idle_standby import CALM, IdleStandby
from borealis_py.protocol.incarnation import Identity
from borealis_py.protocol.turn import EmitEvent, ExitReplica, SendHeartbeat
from sunion.errors import IllegalTransition
from sunion.units import Bucket, MonotonicUs

log = structlog.get_logger(__package__)

DEAF_US = 10_000_000
"""After so long without a heartbeat, or one of its own, a standby looks whether there are any. If it has not read those
so long later, its reader is stuck, and it would never take over."""
START_MAX_US = 60_000_000
"""How long its replica may take to start, before the others take it for dead: it reads its state from afar, perhaps."""


def pulse_us(spec: ReplicaSpec) -> int:
    """How often to call `Standby.pulse`."""
    return CALM * spec.timing.heartbeat_us


def _ignored() -> None:
    """That a record is in the log is news to nobody: if it is not, the next turn is soon enough to end."""


@dataclass(frozen=True, slots=True)
class StoodBy:
    """What a standby hands to the replica that it becomes.

    Attributes:
        identity: of both. control: what was read of the control log, up to offset `control_at`.
        acknowledging: numbers what the incarnation says of what it may still read. None: nothing is trimmed.
    """

    identity: Identity
    control: ControlFold
    control_at: int
    acknowledging: Acknowledging | None = None


class Standby:
    """A started standby. Not thread-safe: one thread calls `turn`.

    Args:
        uid: a random id of this incarnation. wake: called, in any thread, when a turn is due.
        seen: called with each status, in the thread of `turn`.

    Raises:
        OtherLife, OtherVersion: the app's description is not the one of `spec`.
        LogError: the log cannot be read.
    """

    def __init__(
        self, spec: ReplicaSpec, log_: Log, clock: Clock, uid: str, wake: Wake, seen: StatusListener = ignore_status
    ) -> None:
        self._spec = spec
        quiet = replace(spec, inputs=())
        self._clock = clock
        with ExitStack() as opened:  # a start that fails must leave nothing open, since it is repeated
            self._lookup = log_.lookup()
            opened.callback(self._lookup.close)
            self._appender = log_.appender(_ignored)
            opened.callback(self._appender.close)
            timing = replace(spec.timing, heartbeat_us=pulse_us(spec))
            self._pulse = Pulse(self._appender, timing, spec.control_feed, spec.node)
            self.settings = DynamicSettings(
                Life(spec.app_uid), spec.node, spec.replica, spec.serves, spec.delays, spec.timing
            )
            self._reader = InputReader(quiet, log_, self._lookup, {}, {}, self.settings, wake)
            opened.callback(self._reader.close)
            self._reporter = Reporter(spec, self._appender, clock, self.settings, lambda: "", seen)
            self._reader.read_settings()
            identity = new_identity(spec, self._reader, self._appender, uid)
            self.state = IdleStandby(identity, spec.timing, Bucket(spec.origin))
            trimming = spec.trimming
            self._acknowledging = None if trimming is None else Acknowledging(spec, identity, trimming.every_us)
            self._acknowledged_us = self._heard_us = clock.now_us()
            self._unread_to: int | None = None
            self._opened = opened.pop_all()

    @property
    def took_over(self) -> bool:
        """Whether to begin to run."""
        return self.state.runs

    def stood_by(self) -> StoodBy:
        """What the replica that it becomes goes on with."""
        return StoodBy(self.state.identity, self.state.control, self._reader.control_at, self._acknowledging)

    def turn(self) -> None:
        """One turn.

        Raises:
            Superseded, NumberShared: as `Replica.turn`. OtherLife, OtherVersion: likewise.
            LogError: the log cannot be read.
        """
        arrived = self._reader.poll()
        try:
            obey(self._spec, self.settings.recovery)
        except WayChanged as changed:
            give_way(self.state.control, self._reader.recent_beats(), changed)
            raise
        now = self._clock.now_us()
        self._pulse.turn(now)
        for effect in self.state.turn(now, arrived.beats):
            match effect:
                case SendHeartbeat(beat):
                    self._pulse.send(beat, now)
                case EmitEvent():
                    self._reporter.note(effect, self.state.status(), frozenset())
                case ExitReplica(reason, again):
                    raise NumberShared(reason) if again else Superseded(reason)
        for delivery in self._appender.deliveries():
            if delivery.error is not None:
                raise LogError(f"{self._spec.name}: the log refused a record ({delivery.error})")
        self._listen(now, bool(arrived.beats))
        self._acknowledge(now)
        self._reporter.periodic(now, self.state.status, frozenset())

    def _listen(self, now: MonotonicUs, heard: bool) -> None:
        """Raises LogError: it does not read what is there to be read."""
        if heard:
            self._heard_us, self._unread_to = now, None
        if now - self._heard_us < DEAF_US:
            return
        self._heard_us = now
        if self._unread_to is not None and self._reader.control_at < self._unread_to:
            raise LogError(f"{self._spec.name}: the log has heartbeats, and none is read")
        try:
            self._unread_to = self._lookup.bounds(self._spec.control_feed)[1]
        except LogError:
            self._unread_to = None  # nobody is heard then

    def _acknowledge(self, now: MonotonicUs) -> None:
        """Say what the replica that runs says: a start of this one would begin where that one's would (R17.13)."""
        trimming, runner = self._spec.trimming, self.state.control.roles.runner
        if trimming is None or self._acknowledging is None or runner is None or not self.state.control.echoed:
            return
        if now - self._acknowledged_us < trimming.every_us:
            return
        self._acknowledged_us = now
        try:
            record = self._acknowledging.repeated(now, self._lookup, runner.replica)
        except NumberShared:
            raise
        except LogError as exc:  # it needs none of that to stand by; and a broker that just came back knows no topic
            log.warning(f"{self._spec.name}: what the replica that runs may read is not known now", why=str(exc))
            return
        if record is not None:
            self._appender.append(record)

    def begins(self) -> None:
        """Its replica starts, which may take longer than any turn, and nobody else is to take over meanwhile: call
        `pulse` as often as that of a replica from now on."""
        timing = self._spec.timing  # at each call: a start may hold the interpreter for long, between two of them
        self._pulse.pace(replace(timing, heartbeat_us=timing.heartbeat_us // 2, pulse_max_us=START_MAX_US))

    def pulse(self) -> int:
        """Send heartbeats during long turns, as `Replica.pulse`, and while its replica starts."""
        return self._pulse.repeat(self._clock.now_us())

    def next_wakeup(self) -> int:
        """Monotonic microseconds at which the next turn is due unless `wake` is called before."""
        return min(self.state.next_us, self._reporter.due)

    def close(self, why: str = "") -> None:
        """Close all clients; report that it ends (`why`), unless it has taken over."""
        if not self.took_over:
            self._reporter.note(EmitEvent("STOPPED", why), self.state.status(), frozenset())
        self._appender.flush(1.0)
        self._opened.close()


class SpareAppender:
    """An appender that is opened long before it is used: a new one of Kafka's may write after half a second only."""

    def __init__(self, log_: Log) -> None:
        self._wake: Wake = lambda: None
        self._appender: Appender | None = log_.appender(lambda: self._wake())

    def take(self, wake: Wake) -> Appender:
        """Give it away; `wake` is called from now on."""
        found, self._appender = self._appender, None
        if found is None:
            raise IllegalTransition("the appender of a standby was taken twice")
        self._wake = wake
        return found

    def close(self) -> None:
        """Close it, unless it was given away."""
        if self._appender is not None:
            self._appender.close()


class Standing:
    """A standby that sends heartbeats in long turns, too. `spare`: for the replica that it may become.

    Args and what it raises: as `Standby`.
    """

    def __init__(self, spec: ReplicaSpec, clock: Clock, uid: str, wake: Wake, seen: StatusListener) -> None:
        with ExitStack() as opened:
            self.spare = SpareAppender(spec.log)
            opened.callback(self.spare.close)
            self.standby = Standby(spec, spec.log, clock, uid, wake, seen)
            opened.callback(self.standby.close)
            self._beats = ExitStack()
            self._beats.enter_context(repeating(self.standby.pulse, pulse_us(spec), "pulse"))
            opened.pop_all()
        self._heartbeat_us = spec.timing.heartbeat_us
        self._leaving: threading.Thread | None = None

    def begins(self, stop: threading.Event) -> None:
        """Its replica starts: until it is left, or is to stop, it says that it runs, as often as a replica does."""
        self._beats.close()
        self.standby.begins()

        def pulse() -> None:
            if not stop.is_set():
                self.standby.pulse()

        self._beats.enter_context(repeating(pulse, self._heartbeat_us, "pulse"))

    def leave(self) -> None:
        """Its replica runs: no heartbeat of the standby follows this. Its clients are closed in a thread of their own,
        which takes them up to 0.2 s, while readers wait for the replica."""
        self._beats.close()
        leaving = threading.Thread(target=self._left, name="standby-end", daemon=True)
        leaving.start()
        self._leaving = leaving

    def close(self, why: str = "") -> None:
        """Close all. `why`: as `Standby.close`."""
        if self._leaving is not None:
            self._leaving.join()
            return
        self._beats.close()
        self._close(why)

    def _left(self) -> None:
        try:
            self._close("")
        except Exception:  # the replica needs nothing of it
            log.exception("the clients of a standby that has taken over were not closed")

    def _close(self, why: str) -> None:
        self.standby.close(why)
        self.spare.close()
