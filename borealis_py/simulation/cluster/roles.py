"""The three kinds of processes in a simulated world: a publisher with its input, a replica, a live client."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from borealis_py.client.session import PublisherSession
from borealis_py.client.stimes import Boundaries
from borealis_py.client.subscriber import LiveSubscription
from borealis_py.client.target import BegunAnew, PublisherError, StreamForgotten, Target
from borealis_py.log.base import LogError, Wake
from borealis_py.log.clock import Clock
from borealis_py.log.description import OtherLife
from borealis_py.log.kernel import Kernel
from borealis_py.node.endings import SteppedBack, Superseded
from borealis_py.node.replica import Replica
from borealis_py.node.run import ends_for_good
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.standby import Standby, StoodBy
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.checkpoints import MemoryCheckpoints
from borealis_py.simulation.cluster.processes import LocalClock, Process
from borealis_py.simulation.cluster.storage import SimRedos
from borealis_py.simulation.log.client import MemoryClient
from borealis_py.simulation.toy_query import UNLUCKY, KernelFailed
from reconcile.redo_client import RedoRouter
from sunion.errors import RetentionLost
from sunion.view import Change

Ended = Callable[[Process], None]


def _at_once() -> int:
    return 0


EVENT_STEP_US = 10_000
"""Stimes are multiples of this, so that tuples of different sources tie."""
BURST = 8
"""Factor by which tuples come faster in a burst."""


class PublisherInput:
    """A source's input: item n is available from `at(n)` on. The same however often it is read.

    Args:
        bursts: (from, until) in simulated time, when items come faster.
        bad: share of items that are not rows. lateness_us: how long after their stime most items come.
        by_data: its boundaries follow the stimes of its items, not the clock.
    """

    def __init__(
        self,
        seed: int,
        index: int,
        start_us: int,
        rate: int,
        bursts: Sequence[tuple[int, int]] = (),
        bad: float = 0.0,
        lateness_us: int | None = None,
        by_data: bool = False,
    ) -> None:
        self._rng = random.Random(f"input {seed} {index}")
        self.by_data = by_data
        self._name = f"item {seed} {index}"
        self._bad = bad
        self.lateness_us = lateness_us
        self._every_us = 1_000_000 // rate
        self._bursts = bursts
        self._next_us = start_us
        self._times: list[int] = []
        self._values: list[int] = []
        self._is_bad: list[bool] = []

    def at(self, n: int) -> int:
        while len(self._times) <= n:
            self._times.append(self._next_us // EVENT_STEP_US * EVENT_STEP_US)
            fast = any(a <= self._next_us < b for a, b in self._bursts)
            self._next_us += max(1, self._every_us // BURST) if fast else self._every_us
        return self._times[n]

    def taken(self, n: int, now_us: int) -> None:
        """A stranger's records took the positions below `n`: the next item is `n`."""
        self._times += [now_us // EVENT_STEP_US * EVENT_STEP_US] * (n - len(self._times))

    def value(self, n: int) -> int:
        while len(self._values) <= n:
            unlucky = self._rng.random() < 0.01
            self._values.append(UNLUCKY if unlucky else self._rng.randrange(1_000_000))
        return self._values[n]

    def is_bad(self, n: int) -> bool:
        while len(self._is_bad) <= n:
            self._is_bad.append(self._bad > 0 and self._chance("bad", len(self._is_bad)).random() < self._bad)
        return self._is_bad[n]

    def stime(self, n: int) -> int:
        """The time of an item, unless it is stamped when sent. One item in twenty comes too late."""
        if self.lateness_us is None:
            return self.at(n)
        rng = self._chance("late", n)
        late = rng.uniform(1, 1.5) if rng.random() < 0.05 else rng.random()
        return (self.at(n) - int(late * self.lateness_us)) // EVENT_STEP_US * EVENT_STEP_US

    def _chance(self, what: str, n: int) -> random.Random:
        """The chance of one item: the same whichever items were looked at before."""
        return random.Random(f"{self._name} {what} {n}")

    @staticmethod
    def raw(n: int) -> bytes:
        """The bytes of a bad item."""
        return b"bad item %d" % n


class PublisherProcess(Process):
    """Publishes its input as time passes: rows shortly before the end of their bucket, boundaries at it."""

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        client: MemoryClient,
        target: Target,
        input_: PublisherInput,
        ended: Ended,
        changed: Callable[[], None],
        take_over: bool,
        clock: LocalClock,
        rng: random.Random,
    ) -> None:
        super().__init__(scheduler, name, rng, (3_000, 6_000))
        self._input = input_
        self._ended = ended
        self._changed = changed
        self._clock = clock
        self._width_us = target.bucket_us
        self._was_ready = False
        self.forgotten = ""
        """Why this source can no longer be published."""
        self.other_life = False
        """Whether it reports that its life of the app is over."""
        boundaries = Boundaries.DATA if input_.by_data else Boundaries.CLOCK
        lateness_us = input_.lateness_us or 0
        self.session = PublisherSession(
            client, target, {"v": "int64"}, name, self.wake, take_over, boundaries, lateness_us
        )

    def turn(self) -> int | None:
        now = self._clock.wall_us()
        try:
            if self.session.ready and not self.session.closed:
                self._send(now)
            self.session.turn(now)
        except (PublisherError, LogError) as exc:
            self.forgotten = str(exc) if isinstance(exc, StreamForgotten | BegunAnew) else ""
            self.other_life = isinstance(exc, BegunAnew)
            self._ended(self)
            return None
        if self.session.ready is not self._was_ready:
            self._was_ready = self.session.ready
            self._changed()
        dues = [self.session.next_wakeup(), self._next() if self.session.ready else None]
        due = min((at for at in dues if at is not None), default=None)
        if due is None:
            return None
        early = due - 8_000
        return (early if early > now else due) - self._clock.skew_us

    def _next(self) -> int | None:
        """When the next item comes; if it is stamped when sent, the end of its bucket is early enough."""
        session, input_ = self.session, self._input
        if session.closed or session.full or (input_.lateness_us is None and session.next_boundary is not None):
            return None
        return input_.at(session.last_seq + 1) + 8_000

    def _send(self, now: int) -> None:
        session, input_ = self.session, self._input
        n = session.last_seq + 1
        while input_.at(n) <= now and not session.full:
            if input_.is_bad(n):
                session.reject(input_.raw(n), "malformed: no row", n, now)
            else:
                stime = max(input_.at(n), session.boundary) if input_.lateness_us is None else input_.stime(n)
                session.send({"v": input_.value(n)}, stime, n, now)
            n += 1

    def end(self) -> None:
        """End the finite input: no item follows."""
        if self.session.ready:
            self.session.close(end=True)
            self.wake()

    def close(self) -> None:
        if self.session.ready:
            self.session.close(end=False)


@dataclass(frozen=True, slots=True)
class ReplicaParts:
    """What a host builds for a replica: its description (with its log), clock, kernel, redo jobs and checkpoints."""

    spec: ReplicaSpec
    clock: LocalClock
    kernel: Kernel
    redos: SimRedos
    store: MemoryCheckpoints


class ReplicaProcess(Process):
    """The production replica in a simulated host.

    Args:
        after: called after each turn.
        busy_us: how long the work of the turn that has just run takes.
        stood_by: the standby that the process was.
        moves: its former incarnation runs elsewhere; it catches up with that, and goes on in its place (R17.16).
    """

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        parts: ReplicaParts,
        ended: Ended,
        after: Callable[[ReplicaProcess], None],
        rng: random.Random,
        turn_us: tuple[int, int],
        busy_us: Callable[[], int] = _at_once,
        stood_by: StoodBy | None = None,
        moves: bool = False,
    ) -> None:
        super().__init__(scheduler, name, rng, turn_us)
        self.started_us = scheduler.now_us
        spec = parts.spec
        self.clock = parts.clock
        self.node = spec.node
        self.index = spec.replica
        self.way = spec.recovery
        self.why = ""
        self.lost = ""
        """Why the log lacked what it needed."""
        self.final = False
        """Whether it met an error that another start would meet again (`node.run`)."""
        self.other_life = False
        """Whether it reports that its life of the app is over."""
        self.superseded_by: str | None = None
        """The uid to which it gave way."""
        self._ended = ended
        self._after = after
        self._moves = moves
        self._store = parts.store
        self._redos = parts.redos
        self._busy_us = busy_us
        self._takes_us = 0
        parts.redos.wake = self.wake
        self.replica = Replica(
            spec=spec,
            log_=spec.log,
            clock=parts.clock,
            kernel=parts.kernel,
            redos=cast(RedoRouter, parts.redos),
            store=parts.store,
            uid=name,
            wake=self.wake,
            stood_by=stood_by,
            moves=moves,
        )

    def turn(self) -> int | None:
        try:
            self.replica.turn()
        except (Superseded, SteppedBack, LogError, RetentionLost, KernelFailed) as exc:
            self.superseded_by = self._owner() if isinstance(exc, Superseded) else None
            self.other_life = isinstance(exc, OtherLife)
            self.lost = str(exc) if isinstance(exc, RetentionLost) else ""
            how = self.replica.manager.state, self._moves or self.replica.spec.gap
            self.final = self.other_life or (isinstance(exc, RetentionLost) and ends_for_good(exc, *how))
            self.why = f"{type(exc).__name__}: {exc}"
            self._ended(self)
            return None
        self._busy(self._busy_us())
        self._after(self)
        return self.replica.next_wakeup() - self.clock.offset_us

    def _busy(self, us: int) -> None:
        """Make the turn take that much longer; heartbeats are sent meanwhile."""
        self.ticker.not_before += us
        self._takes_us = us
        heartbeat_us = self.replica.spec.timing.heartbeat_us
        if us > heartbeat_us:
            until = self.scheduler.now_us + us
            self.scheduler.after(heartbeat_us, lambda: self._pulse(until))

    @property
    def silent(self) -> bool:
        """Whether it is in a turn that takes longer than it sends heartbeats meanwhile (R7.2)."""
        return self._takes_us > self.replica.spec.timing.pulse_max_us and self.ticker.not_before > self.scheduler.now_us

    def _pulse(self, until: int) -> None:
        """As the thread does that repeats heartbeats; none is due once the turn is over."""
        if self.ticker.stopped or self.scheduler.now_us >= until:
            return
        paused = self.ticker.paused
        again_us = self.replica.spec.timing.heartbeat_us if paused else self.replica.pulse()
        self.scheduler.after(again_us, lambda: self._pulse(until))

    def _owner(self) -> str:
        return self.replica.manager.control.peers[self.index].uid

    def die(self) -> None:
        self._store.die()
        self._redos.close()

    def close(self) -> None:
        self.replica.close("asked to stop")


STARTS_FAIL = 0.15
"""How many of the starts fail that take time."""


class StandbyProcess(Process):
    """The production standby that does not compute. `took_over`: called when its replica has started, which takes
    `starts_us` at most, or fails. `starting`: called before that."""

    final = False

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        spec: ReplicaSpec,
        clock: LocalClock,
        ended: Ended,
        took_over: Callable[[StandbyProcess], None],
        starting: Callable[[], object],
        rng: random.Random,
        turn_us: tuple[int, int],
        starts_us: int = 0,
    ) -> None:
        super().__init__(scheduler, name, rng, turn_us)
        self.node = spec.node
        self.index = spec.replica
        self.clock = clock
        self.way = spec.recovery
        self._beat_us = spec.timing.heartbeat_us
        self._starts_us = starts_us
        self._runs_at_us: int | None = None
        """When its replica will have started; None: it does not start yet."""
        self._fails = False
        self.why = ""
        self.other_life = False
        self.superseded_by: str | None = None
        self._ended = ended
        self._took_over = took_over
        self._starting = starting
        self.standby = Standby(spec, spec.log, clock, name, self.wake)

    def turn(self) -> int | None:
        if self._runs_at_us is not None:
            return self._start(self._runs_at_us)
        try:
            self.standby.turn()
        except (Superseded, SteppedBack, LogError) as exc:
            by_whom = self.standby.state.control.peers
            self.superseded_by = by_whom[self.index].uid if isinstance(exc, Superseded) else None
            self.final = self.other_life = isinstance(exc, OtherLife)
            self.why = f"{type(exc).__name__}: {exc}"
            self._ended(self)
            return None
        if self.standby.took_over:
            self.standby.begins()
            self._starting()
            self._runs_at_us = self.scheduler.now_us + int(self.rng.random() * self._starts_us)
            self._fails = self._starts_us > 0 and self.rng.random() < STARTS_FAIL
            return self._start(self._runs_at_us)
        return self.standby.next_wakeup() - self.clock.offset_us

    @property
    def starts(self) -> bool:
        """Whether its replica starts."""
        return self._runs_at_us is not None

    def _start(self, at: int) -> int | None:
        if self.scheduler.now_us < at:
            self.standby.pulse()
            return min(at, self.scheduler.now_us + self._beat_us)
        if self._fails:
            self.why = "its start failed"
            self._ended(self)
        else:
            self._took_over(self)
        return None

    def close(self) -> None:
        self.standby.close("asked to stop")


class ClientProcess(Process):
    """A live subscriber.

    Args:
        open_: opens its subscription, with its clock, and a function to call when something arrives.
        changed: receives the changes. lost: the reason why none follow.

    Raises:
        LogError: the log cannot be read.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        open_: Callable[[Clock, Wake], LiveSubscription],
        changed: Callable[[Sequence[Change]], None],
        lost: Callable[[str], None],
        rng: random.Random,
    ) -> None:
        super().__init__(scheduler, name, rng, (200, 500))
        self._changed = changed
        self._lost = lost
        self._clock = LocalClock(scheduler, 5_000_000)
        try:
            self.subscription = open_(self._clock, self.wake)
        except LogError:
            self.ticker.stopped = True
            raise

    def turn(self) -> int | None:
        try:
            changes = self.subscription.poll()
        except (RetentionLost, LogError) as exc:  # an application would see it
            self.ticker.stopped = True
            self._lost(str(exc))
            return None
        if changes:
            self._changed(changes)
        due = self.subscription.next_wakeup()
        return None if due is None else due - self._clock.offset_us
