"""One life of a Spark application: its tasks, the redos they request, and the detection of its failure.

It holds no state of the data path. If it ends without being told to, its host (`driver.py`) starts another one, whose
replicas resume from their checkpoints.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import structlog

from borealis_py.log.base import Log
from borealis_py.log.clock import SystemClock
from borealis_py.log.topics import redo_feeds
from borealis_py.runtime.ends import ALONE
from borealis_py.runtime.restarting import TaskDied, supervise
from borealis_py.runtime.spark.cluster import UI_PORT, executor_hosts, free_slots
from borealis_py.runtime.spark.proxy_status import ProxyStatus
from borealis_py.runtime.spark.replica_task import NodeTask, TaskEnd, run_tasks, unpack_snapshot
from borealis_py.runtime.spark.seating import Seating
from borealis_py.runtime.spark.seats import Seat
from borealis_py.runtime.spark.session import ReplicaSession
from borealis_py.runtime.spark.slot_monitor import SlotDecision, SlotMonitor, SlotUsage
from borealis_py.runtime.spark.slot_plan import SlotPlan, slots_there, waiting
from borealis_py.runtime.spark.standby_orders import Orders, StandbyOrders
from borealis_py.runtime.spark.standby_task import NAME as STANDBYS
from borealis_py.runtime.spark.standby_task import StandbyTask
from reconcile.redo_server import RedoServer, TaskChannel
from reconcile.spark_executor import SparkExecutor, explain

log = structlog.get_logger(__package__)

LOOK_S = 0.5
TURN_S = 0.1
"""How often to look whether all is over, and at jobs while some wait for a slot."""
STOP_S = 5.0
"""Tasks that have not ended this long after being told to are ended with Spark."""


class Application:
    """Runs tasks on a warm session until `stop`, or until the session has failed.

    Args:
        tasks: one for each replica; their `session` is this application's.
        works: packed replay context of each node, for redo jobs.
        ended: exit codes of nodes that cannot continue; updated here.
        shortage, notices: like `ended`, shared by all lives of the application.
    """

    def __init__(
        self,
        session: ReplicaSession,
        plan: SlotPlan,
        tasks: list[NodeTask],
        works: Mapping[str, bytes],
        rpc_log: Log,
        stop: threading.Event,
        ended: MutableMapping[str, int],
        shortage: SlotMonitor,
        notices: ProxyStatus,
    ) -> None:
        self._session = session
        self._plan = plan
        self._stop = stop
        self._ended = ended
        self._context: Any = session.context
        self._tasks = [task for task in tasks if task.name not in ended]
        self._shortage = shortage
        self._notices = notices
        self._over = threading.Event()
        self._done = {task.name: threading.Event() for task in self._tasks}
        """Set of a replica that has ended for good, and of all when the application ends."""
        self._news = threading.Event()
        self._ailing: str | None = None
        self._short: str | None = None
        slots = SparkExecutor(self._context, works, self._news.set, session.warm_soon)
        channels = [_channel(task) for task in self._tasks]
        self._standbys = StandbyOrders(self._run_standbys, self._order_standbys, self._over)
        runs = {Seat.OWN: self._run, Seat.SHARED: lambda task, moves: self._standbys.run(task.name, moves)}
        self._seating = Seating(self._tasks, plan.shares, plan.redos, runs)
        self._server = RedoServer(
            rpc_log,
            channels,
            tasks[0].session,
            slots,
            plan.redos,
            self._news.set,
            SystemClock(),
            self._told,
            self._standbys.reported,
        )

    def run(self) -> str | None:
        """Run; blocks. Returns why the application failed; None: it was stopped, or nothing is left to run."""
        if self._stop.is_set():  # stopped while starting
            self._session.stop()
            self._server.close()
            return None
        self._shortage.begin()
        serving = threading.Thread(target=self._serve, name="redo RPC", daemon=True)
        looking = threading.Thread(target=self._look, name="watch Spark", daemon=True)
        threads = [
            threading.Thread(target=self._keep, args=(task, seat), name=task.name, daemon=True)
            for task in self._tasks
            for seat in self._seating.used
        ]
        for thread in (serving, looking, *threads):
            thread.start()
        while any(t.is_alive() for t in threads) and not self._stop.is_set() and not (self._ailing or self._short):
            self._stop.wait(TURN_S)
        ailing, short = (None, None) if self._stop.is_set() else (self._ailing, self._short)
        self._end_all()
        if ailing is None:
            self._stop_tasks(threads)
        self._session.stop()
        for thread in (serving, *threads):
            thread.join(2 * LOOK_S)
        self._server.close()
        return ailing or short

    def _end_all(self) -> None:
        self._over.set()
        self._news.set()
        for done in self._done.values():
            done.set()
        self._seating.ended()

    def _stop_tasks(self, threads: list[threading.Thread]) -> None:
        """Tell the tasks to stop, repeatedly: one that is just starting does not receive the first message."""
        deadline = time.monotonic() + STOP_S
        while any(t.is_alive() for t in threads) and time.monotonic() < deadline:
            self._server.stop_tasks()
            for thread in threads:
                thread.join(LOOK_S / len(threads))

    # A replica --------------------------------------------------------------------------------------------------------

    def _keep(self, task: NodeTask, seat: Seat) -> None:
        """Run a replica at one of its seats, whenever it is there, until it ends for good; an end that concerns the
        whole process ends the others, too."""
        done = self._done[task.name]
        code = supervise(partial(self._seating.sit, task, seat, done), task.spec, done)
        if code:
            self._ended[task.name] = code
            done.set()
            self._seating.ended(task.name)
        if code and code not in ALONE:
            self._stop.set()

    def _run(self, task: NodeTask, moves: bool) -> None:
        """One incarnation in a slot of its own: a Spark job of one task."""
        self._submit(self._group(task), replace(task, moves=moves)).reraise()
        if not self._over.is_set():
            raise TaskDied("its Spark task was ended from outside")

    def _run_standbys(self) -> None:
        """One life of the standby task."""
        self._submit(self._standbys_group, StandbyTask(tuple(self._tasks)))

    def _submit(self, group: str, task: NodeTask | StandbyTask) -> TaskEnd:
        """Run a Spark job of one task. Raises TaskDied."""
        context = self._context
        try:
            context.setJobGroup(group, group.rpartition(" ")[0], False)
            (answer,) = context.parallelize([task.pack()], 1).mapPartitions(run_tasks).collect()
        except Exception as exc:
            raise TaskDied(f"its Spark task died.  {explain(exc)}") from exc
        return msgspec.msgpack.decode(bytes(answer), type=TaskEnd)

    def _order_standbys(self, orders: Orders) -> None:
        self._server.order_standbys(_channel(self._tasks[0]), orders)

    @staticmethod
    def _group(task: NodeTask) -> str:
        return f"replica {task.name} {task.session}"

    @property
    def _standbys_group(self) -> str:
        return f"{STANDBYS} {self._tasks[0].session}"

    # Helpers ----------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            self._news.wait(TURN_S if self._server.waits else LOOK_S)
            self._news.clear()
            if self._over.is_set():
                return
            try:
                self._server.turn()
            except Exception as exc:
                log.error("serving redos failed: tasks redo inline", why=str(exc), exc_info=exc)
                self._over.wait(LOOK_S)

    def _told(self, body: bytes) -> None:
        snapshot = unpack_snapshot(body)
        if snapshot is not None:
            self._seating.told(snapshot.status)
            self._notices.see(snapshot)

    def _look(self) -> None:
        """Poll Spark from a thread, since a hanging JVM does not answer."""
        told = False
        while not self._over.wait(LOOK_S):
            try:
                self._ailing = self._session.ailing or self._stopped()
                self._look_for_slots()
                self._standbys.turn()
            except Exception as exc:
                self._ailing = self._session.ailing
                if not told:
                    log.warning("Spark does not answer", why=explain(exc))
                    told = True

    def _stopped(self) -> str | None:
        return "Spark has stopped the application" if self._context._jsc.sc().isStopped() else None

    def _look_for_slots(self) -> None:
        context = self._context
        starving = tuple(task.name for task in self._tasks if waiting(context, self._group(task)))
        given = slots_there(context)
        for name in self._seating.look(given, starving):
            context.cancelJobGroup(self._group(next(task for task in self._tasks if task.name == name)))
        shared = self._seating.sharing
        starved = (*starving, *(shared if shared and waiting(context, self._standbys_group) else ()))
        tasks = self._seating.taken if self._plan.shares else None
        advice = self._shortage.look(time.monotonic(), SlotUsage(given, starved, tasks), self._free)
        if advice is not None:
            self._tell(advice, starved)

    def _tell(self, advice: SlotDecision, starved: tuple[str, ...]) -> None:
        log.warning("Spark application's slots changed", said=advice.said)
        self._notices.stopped(starved, advice.said)
        if advice.again:
            self._short = advice.said

    def _free(self) -> int | None:
        """Number of slots that the cluster could give in addition to those there."""
        context = self._context
        port = int(context.getConf().get("spark.master.ui.port", str(UI_PORT)))
        return free_slots(self._plan.master, port, int(context._jsc.sc().executorMemory()), executor_hosts(context))


def new_session() -> str:
    """Name of one life of an application."""
    return uuid.uuid4().hex[:8]


def _channel(task: NodeTask) -> TaskChannel:
    spec = task.spec
    return TaskChannel(spec.node, *redo_feeds(spec.app, spec.node, spec.replica))
