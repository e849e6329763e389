"""Sees to it that each replica of an application has an incarnation at its seat: what `Seats` decides, with threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from borealis_py.app.replica_health import STANDBY, all_compute, idles
from borealis_py.log.messages import Status
from borealis_py.node.endings import Superseded
from borealis_py.node.spec import ReplicaSpec
from borealis_py.query.recovery import RecoveryWay
from borealis_py.runtime.spark.replica_task import NodeTask
from borealis_py.runtime.spark.seats import Activity, Seat, Seats

log = structlog.get_logger(__package__)

WAIT_S = 0.5
COMPUTING = ("STABLE", "UPSTREAM_FAILURE", "STABILIZATION")

Run = Callable[[NodeTask, bool], None]
"""Runs one incarnation; the flag: it takes the place of one at the other seat. Blocks until it ends."""


class Seating:
    """The seats of one life of an application, and who waits for them. Thread-safe.

    Args:
        tasks: its replicas. shares, redos: as of `Seats`.
        runs: how to run an incarnation at each seat.
    """

    def __init__(self, tasks: Sequence[NodeTask], shares: bool, redos: int, runs: Mapping[Seat, Run]) -> None:
        self._runs = runs
        self._changed = threading.Condition()
        begins = {task.name: begins_shared(task.spec) for task in tasks}
        alone = sum(begins.values()) == 1  # it has a slot for itself wherever it is
        self._seats = Seats(dict.fromkeys(begins, False) if alone else begins, shares, redos)
        self._idle = {task.name for task in tasks if shares and task.spec.recovery.idles}
        """Replicas whose standbys do not compute, as far as is known."""
        self._waited: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[Seat, ...]:
        """Which seats there are."""
        return tuple(Seat) if self._seats.shares else (Seat.OWN,)

    @property
    def taken(self) -> int:
        """How many slots the replicas take, now or soon."""
        with self._changed:
            return self._seats.taken

    @property
    def sharing(self) -> tuple[str, ...]:
        """Names of those in the standby task."""
        with self._changed:
            return self._seats.sharing

    def sit(self, task: NodeTask, seat: Seat, done: threading.Event) -> None:
        """Wait until this is the replica's seat, and run one incarnation there; return at once if `done` is set.
        One that was superseded because its replica has moved ends quietly. Raises what ends others."""
        name = task.name
        with self._changed:
            while not done.is_set() and self._seats.seat(name) is not seat:
                self._changed.wait(WAIT_S)
            if done.is_set():
                return
            moves = self._seats.sat_down(name, seat)
        try:
            self._runs[seat](task, moves)
        except Superseded:
            with self._changed:
                moved = self._seats.superseded(name, seat)
            if not moved:
                raise
            log.info("replica has moved", node=task.spec.node, replica=task.spec.replica, left=seat.value)
        finally:
            with self._changed:
                self._seats.left(name, seat)

    def told(self, status: Status) -> None:
        """Take a replica's status."""
        name, now_s = f"{status.node}.r{status.replica}", time.monotonic()
        with self._changed:
            if self._seats.shares:
                (self._idle.discard if all_compute(status) else self._idle.add)(name)
            self._seats.told(now_s, name, status.inc, activity_of(status), status.recovery != RecoveryWay.AMNESIA.value)

    def look(self, given: int, starving: Collection[str]) -> list[str]:
        """Decide who moves.

        Args:
            given: slots that the application has. starving: names of those whose own tasks wait for one.

        Returns:
            Names of those whose own tasks are to wait no longer: they go to the standby task.
        """
        with self._changed:
            now_s = time.monotonic()
            found = self._seats.starved(now_s, starving, self._idle)
            moved = self._seats.decide(now_s, given)
            seats = {name: self._seats.seat(name).value for name in (*found, *moved)}
            waiting, before = self._seats.waiting, self._waited
            self._waited = waiting
            self._changed.notify_all()
        for name, seat in seats.items():
            log.info("replica moves", replica=name, to=seat)
        if waiting and waiting != before:
            log.info("replicas that run share the standby task until slots of their own are free", replicas=waiting)
        return found

    def ended(self, *names: str) -> None:
        """These replicas have ended for good: whoever waits for a seat sees whether it is to end."""
        with self._changed:
            for name in names:
                self._seats.gone(name)
            self._changed.notify_all()


def begins_shared(spec: ReplicaSpec) -> bool:
    """Whether a replica begins in the standby task, if there is one: all but the one that would run first."""
    return spec.recovery.idles and spec.replica > 0


def activity_of(status: Status) -> Activity | None:
    """What a replica does by its status; None: it starts, or has ended. Where all compute, one that starts needs a slot
    of its own as soon as there is one: it may have much to read, and delays whom it shares a process with."""
    if status.event == "STOPPED":
        return None
    if idles(status):
        return Activity.IDLES
    starts = status.state == "RECOVERING" and all_compute(status)
    return Activity.COMPUTES if starts or status.state in (*COMPUTING, STANDBY) else None
