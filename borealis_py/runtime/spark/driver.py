"""The process of one replica index whose replicas are Spark tasks: starts an application, and restarts it on failure.

Started as `borealis_py.runtime.process` with host "spark"; arguments, files and exit codes are those of the process
host. There is no fallback to replicas without Spark: failing to start the first application is an error; one that dies
later is restarted until it succeeds.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.supervisor.exit_codes import FAILED
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import LogError
from borealis_py.node.reporter import StatusListener, ignore_status
from borealis_py.node.spec import ReplicaSpec
from borealis_py.runtime.spark.application import Application, new_session
from borealis_py.runtime.spark.proxy_status import ProxyStatus
from borealis_py.runtime.spark.replica_task import NodeTask
from borealis_py.runtime.spark.seating import begins_shared
from borealis_py.runtime.spark.session import ReplicaSession, SparkSettings, SparkUnavailable
from borealis_py.runtime.spark.slot_monitor import SlotMonitor
from borealis_py.runtime.spark.slot_plan import LATER_SLOTS_S, SlotPlan, await_slots, reach, redos_for
from borealis_py.runtime.specs import work_of

log = structlog.get_logger(__package__)

PAUSE_S = 1.0
PAUSE_MAX_S = 30.0
"""Limit of the pause between restart attempts, which doubles each time."""
SLOT_WAIT_S = 30.0
"""Without `slot_wait_us`. Spark replaces a lost executor within a few seconds if it can."""
LOCAL = "local"
"""Without `master`: Spark on this machine, with as many slots as replicas and redos need."""


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """Files of this driver, whose paths only its process knows; how to request the application is in `ProcessSpec`.

    Args:
        output: file for Spark's output.
        log: the file that is this process's standard error, if it may be rotated; empty: it may not.
    """

    output: Path
    log: str = ""


class SparkDriver:
    """Runs all replicas of one process as tasks of its application.

    Args:
        process: what this process was told; master, slots and properties of the application are in it.
        fingerprints: kernels that may run the app.
        seen: called with each status of a replica.
    """

    def __init__(
        self,
        specs: list[ReplicaSpec],
        process: ProcessSpec,
        fingerprints: tuple[str, ...],
        files: DriverFiles,
        seen: StatusListener = ignore_status,
    ) -> None:
        self.stop = threading.Event()
        self._notices = ProxyStatus(specs, seen)
        self._specs = [replace(spec, pid=os.getpid(), host=platform.node()) for spec in specs]
        self._fingerprints = fingerprints
        self._files = files
        self._extra = tuple(process.spark_properties.items())
        self._plan = _plan_of(process, specs)
        self._shortage = SlotMonitor(self._plan, _slot_wait_s(process))
        self._works = {spec.node: work_of(spec).pack() for spec in specs}
        self._rpc_log = _patient(process.log)
        self._ended: dict[str, int] = {}

    def run(self) -> int:
        """Run until stopped; returns the exit code."""
        pause_s, started = PAUSE_S, False
        while not self.stop.is_set():
            try:
                application = self._start(again=started)
            except (SparkUnavailable, LogError) as exc:
                if self.stop.is_set():
                    break
                if not started:
                    reason = str(exc).rstrip(".")
                    log.error("replicas not started", why=f"{reason}. --host process runs them without Spark")
                    return FAILED.code
                log.warning("Spark restart failed", why=str(exc), next_try_s=pause_s)
                self.stop.wait(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
                continue
            pause_s, started = PAUSE_S, True
            why = application.run()
            if why is None:
                break
            log.warning("restarting replicas in another Spark application", why=why)
        return max(self._ended.values(), default=0)

    def _start(self, again: bool) -> Application:
        """Start one life of the application, ready to run. Raises SparkUnavailable, LogError."""
        session = self._open_session(again)
        try:
            return self._application(session)
        except BaseException:
            session.stop()
            raise

    def _open_session(self, again: bool) -> ReplicaSession:
        """A session whose workers run. What redos need is opened once replicas run: they come first, and only the
        workers that redo need it. Raises SparkUnavailable.

        Args:
            again: not the first session: it accepts fewer slots than it needs rather than run nothing.
        """
        plan = self._plan
        reach(plan.master)
        if plan.widened:
            log.info("Spark master widened", asked=plan.asked_master, given=plan.master, why=f"it runs {plan}")
        name = f"{self._specs[0].app} {', '.join(plan.tasks)}"
        spark = SparkSettings(plan.asked_master, plan.least, extra=(*plan.properties, *self._extra))
        session = ReplicaSession.start_spark(name, spark, self._files.output)
        try:
            if again:
                await_slots(session.context, plan, self.stop, LATER_SLOTS_S, least=1)
            else:
                await_slots(session.context, plan, self.stop)
            if not self.stop.is_set():
                session.warm()
        except BaseException:
            session.stop()
            raise
        if plan.redos:
            session.keep_warm(workers=plan.redos, works=self._works.values())  # the others become replicas
        return session

    def _application(self, session: ReplicaSession) -> Application:
        name, bounded = new_session(), self._plan.local and bool(self._files.log)
        log_file = self._files.log if bounded else _shared_log() if self._plan.local else ""
        tasks = [NodeTask(spec, name, self._fingerprints, self._rpc_log, log_file, bounded) for spec in self._specs]
        log.info("submitting replicas as Spark tasks", session=name, slots=str(self._plan))
        return Application(
            session,
            self._plan,
            tasks,
            self._works,
            self._rpc_log,
            self.stop,
            self._ended,
            self._shortage,
            self._notices,
        )


def _plan_of(process: ProcessSpec, specs: Sequence[ReplicaSpec]) -> SlotPlan:
    """The slots that the application needs to run these replicas and redos."""
    master = process.master or LOCAL
    redos = redos_for(master, len(specs)) if process.redo_slots is None else process.redo_slots
    idle = [spec for spec in specs if spec.recovery.idles]
    return SlotPlan(tuple(spec.name for spec in specs), redos, master, len(idle), sum(map(begins_shared, idle)))


def _slot_wait_s(process: ProcessSpec) -> float:
    return SLOT_WAIT_S if process.slot_wait_us is None else process.slot_wait_us / 1e6


def _shared_log() -> str:
    """This process's standard error as a path that tasks on this machine can open for appending."""
    try:
        handle = sys.stderr.fileno()
        fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) | os.O_APPEND)
        path = f"/proc/{os.getpid()}/fd/{handle}"
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except (OSError, ValueError):  # no /proc here, or a socket
        return ""
    return path


def _patient(kafka: KafkaLog) -> KafkaLog:
    """The log for RPC messages: one topic per client, so that long polls delay nothing and save work on both sides."""
    return KafkaLog.of(kafka.bootstrap, {"fetch.wait.max.ms": "500", **dict(kafka.properties)})
