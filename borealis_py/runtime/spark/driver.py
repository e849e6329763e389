"""The process of one replica index whose replicas are Spark tasks: starts an application, and again when it failed.

Started as `borealis_py.runtime.process --host spark`, with the arguments, files and exit codes of the process host.
Replicas without Spark are not what was asked for: an application that cannot be started at first is an error, one that
dies later is started again until it comes.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from borealis_py.app.exit_codes import FAILED
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import LogError
from borealis_py.node.reporter import StatusListener, ignore_status
from borealis_py.node.spec import ReplicaSpec
from borealis_py.runtime.spark.application import Application, new_session
from borealis_py.runtime.spark.proxy_status import ProxyStatus
from borealis_py.runtime.spark.replica_task import NodeTask
from borealis_py.runtime.spark.session import ReplicaSession, SparkSettings, SparkUnavailable
from borealis_py.runtime.spark.slot_monitor import SlotMonitor
from borealis_py.runtime.spark.slot_plan import LATER_SLOTS_S, SlotPlan, await_slots, reach
from borealis_py.runtime.specs import work_of

log = structlog.get_logger("borealis.host")

PAUSE_S = 1.0
PAUSE_MAX_S = 30.0
"""Between two attempts to start again; each pause is twice the one before."""
SLOT_WAIT_S = 30.0
"""Spark replaces a lost executor within a few seconds where it can."""


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """How the application is asked for.

    Args:
        redos: slots for redo jobs.
        slot_wait_s: how long slots may be missing before the application is started again.
        extra: Spark properties of the user; they win.
        output: file for what Spark prints.
        log_file: that this process's standard error is, and may be turned over; empty: it is nobody's to turn over.
    """

    master: str
    redos: int
    output: Path
    slot_wait_s: float = SLOT_WAIT_S
    extra: tuple[tuple[str, str], ...] = ()
    log_file: str = ""


class SparkDriver:
    """All replicas of one process as tasks of its application.

    Args:
        fingerprints: kernels that may run the app.
        seen: is left what each replica says of itself.
    """

    def __init__(
        self,
        specs: list[ReplicaSpec],
        kafka: KafkaLog,
        fingerprints: tuple[str, ...],
        settings: DriverSettings,
        seen: StatusListener = ignore_status,
    ) -> None:
        self.stop = threading.Event()
        self._notices = ProxyStatus(specs, seen)
        self._specs = [replace(spec, pid=os.getpid(), host=platform.node()) for spec in specs]
        self._fingerprints = fingerprints
        self._settings = settings
        self._plan = SlotPlan(tuple(spec.name for spec in specs), settings.redos, settings.master)
        self._shortage = SlotMonitor(self._plan, settings.slot_wait_s)
        self._works = {spec.node: work_of(spec).pack() for spec in specs}
        self._letters = _patient(kafka)
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
                    log.error("replicas do not start", why=f"{reason}. --host process runs them without Spark")
                    return FAILED.code
                log.warning("Spark does not start again", why=str(exc), next_try_s=pause_s)
                self.stop.wait(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
                continue
            pause_s, started = PAUSE_S, True
            why = application.run()
            if why is None:
                break
            log.warning("the replicas start again in another Spark application", why=why)
        return max(self._ended.values(), default=0)

    def _start(self, again: bool) -> Application:
        """One life of the application, ready to run. Raises SparkUnavailable, LogError."""
        session = self._open_session(again)
        try:
            return self._application(session)
        except BaseException:
            session.stop()
            raise

    def _open_session(self, again: bool) -> ReplicaSession:
        """A session that is warm for every node. Raises SparkUnavailable.

        Args:
            again: not the first: it makes do with fewer slots than it needs, rather than run nothing.
        """
        plan, settings = self._plan, self._settings
        reach(plan.master)
        if plan.widened:
            log.info("Spark's master is widened", asked=plan.asked_master, given=plan.master, why=f"it runs {plan}")
        name = f"{self._specs[0].app} {', '.join(plan.tasks)}"
        spark = SparkSettings(plan.asked_master, plan.needed, extra=(*plan.properties, *settings.extra))
        session = ReplicaSession.start(name, spark, settings.output)
        try:
            if again:
                await_slots(session.context, plan, self.stop, LATER_SLOTS_S, least=1)
            else:
                await_slots(session.context, plan, self.stop)
            for work in self._works.values():
                if not self.stop.is_set():
                    session.warm(work)
        except BaseException:
            session.stop()
            raise
        if plan.redos:
            session.keep_warm(workers=plan.redos)  # the others have become replicas
        return session

    def _application(self, session: ReplicaSession) -> Application:
        name, bounded = new_session(), self._plan.local and bool(self._settings.log_file)
        log_file = self._settings.log_file if bounded else _shared_log() if self._plan.local else ""
        tasks = [NodeTask(spec, name, self._fingerprints, self._letters, log_file, bounded) for spec in self._specs]
        log.info("replicas are submitted as Spark tasks", session=name, slots=str(self._plan))
        return Application(
            session,
            self._plan,
            tasks,
            self._works,
            self._letters,
            self.stop,
            self._ended,
            self._shortage,
            self._notices,
        )


def _shared_log() -> str:
    """This process's standard error by a name that tasks on this machine can open, to write to its end, too."""
    try:
        handle = sys.stderr.fileno()
        fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) | os.O_APPEND)
        path = f"/proc/{os.getpid()}/fd/{handle}"
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except (OSError, ValueError):  # no /proc here, or a socket
        return ""
    return path


def _patient(kafka: KafkaLog) -> KafkaLog:
    """The same log for letters: one topic a client, so that a long poll delays nothing and saves both sides work."""
    return KafkaLog.of(kafka.bootstrap, {"fetch.wait.max.ms": "500", **dict(kafka.properties)})
