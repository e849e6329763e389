"""How many slots an application needs, how it requests them, and how many it has. Queries Spark, knows no replicas."""

from __future__ import annotations

import re
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

from borealis_py.runtime.spark.session import SparkUnavailable

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?")
REACH_S = 3.0
SLOTS_S = 60.0
"""A cluster with free slots gives them within a few seconds; a busy one needs a while to start an executor."""
LATER_SLOTS_S = 20.0
"""A restarted application waits no longer than this for all its slots."""
LOCAL_REDOS = 2
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """Slots of one application: one permanently for each of `tasks`, and `redos` for redo jobs (0: they run inline).

    Standbys that do not compute share one, several at a time (`seats.py`).

    Args:
        tasks: names of the permanent tasks.
        master: as given by the user.
        idle: how many of them may be such standbys, as the app begins. begin_shared: how many of these begin so.
    """

    tasks: tuple[str, ...]
    redos: int
    master: str
    idle: int = 0
    begin_shared: int = 0

    @property
    def shares(self) -> bool:
        """Whether there is a standby task when it is of use: how nodes recover may change while they run."""
        return len(self.tasks) > 1

    @property
    def _spare(self) -> bool:
        """Whether there is a slot more, so that the standby task can begin before the slots of those that go there are
        free. On this machine, where a slot is a thread; without it the task begins in one for redos."""
        return self.idle > 1 and self.local

    @property
    def needed(self) -> int:
        """With these every replica that runs has a slot of its own: the last one that runs in the standby task has
        that for itself."""
        return len(self.tasks) + self.redos + self._spare

    @property
    def least(self) -> int:
        """With these it can begin."""
        return len(self.tasks) - self.begin_shared + min(self.begin_shared, 1) + self.redos

    @property
    def local(self) -> bool:
        return _LOCAL.fullmatch(self.master) is not None

    @property
    def asked_master(self) -> str:
        """The master to request. The slots of local[n] are threads, not cores, so it gets as many as are needed."""
        found = _LOCAL.fullmatch(self.master)
        if found is None:
            return self.master
        given = int(found[1]) if found[1] and found[1] != "*" else 1
        return f"local[{max(given, self.needed)}]"

    @property
    def widened(self) -> bool:
        """Whether the user requested a number of threads that is too small."""
        found = _LOCAL.fullmatch(self.master)
        return found is not None and (found[1] or "").isdigit() and int(found[1]) < self.needed

    @property
    def properties(self) -> tuple[tuple[str, str], ...]:
        """The application's other Spark properties."""
        # Whatever ends a task, the driver decides what follows, and reports why.
        own = [("spark.task.maxFailures", "1"), ("spark.speculation", "false")]
        if not self.local:
            own += [
                ("spark.cores.max", str(self.needed)),
                ("spark.executor.memory", "512m"),
                ("spark.executor.extraJavaOptions", "-XX:+UseSerialGC"),
            ]
            if {host for host, _ in addresses(self.master)} & {"localhost", "127.0.0.1"}:
                own += [("spark.driver.host", "127.0.0.1"), ("spark.driver.bindAddress", "127.0.0.1")]
        return tuple(own)

    def __str__(self) -> str:
        redos = f" and {self.redos} for redos" if self.redos else ""
        slots = "slot" if self.needed == 1 else "slots"
        share = "; standbys share one more" if self._spare else ""
        return f"{self.needed} {slots}: {len(self.tasks)} for {', '.join(self.tasks)}{redos}{share}"


def redos_for(master: str, tasks: int) -> int:
    """Default number of redo slots: one; on this machine, where slots are threads, up to two, since a failure of one
    query often affects another, and both redo at the same time.
    """
    return min(tasks, LOCAL_REDOS) if _LOCAL.fullmatch(master) else 1


def addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of each standalone master in spark://a:7077,b:7077; empty for other masters."""
    if not master.startswith("spark://"):
        return []
    found = []
    for one in master.removeprefix("spark://").split(","):
        host, _, port = one.rpartition(":")
        if not host or not port.isdigit():
            raise SparkUnavailable(f"master {master!r} is not spark://host:port")
        found.append((host, int(port)))
    return found


def reach(master: str, timeout_s: float = REACH_S) -> None:
    """Raises SparkUnavailable if no standalone master listens there; Spark itself takes a minute to report that."""
    wanted = addresses(master)
    why = ""
    for address in wanted:
        try:
            socket.create_connection(address, timeout_s).close()
            return
        except OSError as exc:
            why = str(exc)
    if wanted:
        raise SparkUnavailable(f"no Spark master answers at {master} ({why}). Is the cluster up, the address right?")


def slots_there(context: Any) -> int:
    """Number of tasks that the application's current executors can run at a time."""
    spark = context._jsc.sc()
    return int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))


def await_slots(
    context: Any, plan: SlotPlan, stop: threading.Event, timeout_s: float = SLOTS_S, least: int | None = None
) -> None:
    """Wait until the application has the slots it needs, or `stop`.

    Args:
        least: this many suffice after the timeout; None: as many are needed as it can begin with.

    Raises:
        SparkUnavailable: it does not get them; the message has both numbers.
    """
    enough = plan.least if least is None else least
    deadline = time.monotonic() + timeout_s
    while (there := slots_there(context)) < plan.least:
        if stop.wait(LOOK_S) or (time.monotonic() > deadline and there >= enough):
            return
        if time.monotonic() > deadline:
            raise SparkUnavailable(
                f"too few slots at {plan.master}: this application needs {plan}; it was given {there} within "
                f"{timeout_s:g} s. Add a worker or cores, end what holds them"
                + (", or have fewer slots for redos" if plan.redos else "")
            )


def waiting(context: Any, group: str) -> bool:
    """Whether a job of this group has been submitted but none of its tasks runs."""
    tracker = context.statusTracker()
    active = set(tracker.getJobIdsForGroup(group)) & set(tracker.getActiveJobsIds())
    stages = [s for j in active if (job := tracker.getJobInfo(j)) for s in job.stageIds]
    return bool(stages) and not any((info := tracker.getStageInfo(s)) and info.numActiveTasks for s in stages)
