"""The standby task: a Spark task that runs, each in a thread, the standbys of an application that do not compute.

Its driver orders incarnations, and is told how each one ended (`standby_orders.py`): it decides whether there is
another, as with tasks of one replica. One that takes over runs here, too, until the driver has moved it.
"""

from __future__ import annotations

import os
import pickle
import platform
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

import structlog

from borealis_py.log.base import Log
from borealis_py.log.topics import redo_feeds
from borealis_py.runtime.spark.parent_watchdog import ended_with_host
from borealis_py.runtime.spark.replica_task import NodeTask, TaskEnd
from reconcile import rpc
from reconcile.redo_client import ReplyReader

log = structlog.get_logger(__package__)

LOOK_S = 0.5
"""How long nothing is looked at if nothing arrives."""
AGAIN_S = 1.0
"""How often it reports again that an incarnation has ended, until the driver orders another one or none."""
NAME = "standbys"


@dataclass(frozen=True, slots=True)
class StandbyTask:
    """The standby task of one application.

    Args:
        tasks: the replicas that may ever be in it, as tasks of their own would be. It reads its orders where the first
            of them would get answers. session, rpc_log, log_file, log_bounded: as theirs.
    """

    tasks: tuple[NodeTask, ...]

    @property
    def session(self) -> str:
        return self.tasks[0].session

    @property
    def rpc_log(self) -> Log:
        return self.tasks[0].rpc_log

    @property
    def log_file(self) -> str:
        return self.tasks[0].log_file

    @property
    def log_bounded(self) -> bool:
        return self.tasks[0].log_bounded

    def pack(self) -> bytes:
        return pickle.dumps(self)

    def run(self) -> TaskEnd:
        """Run what is ordered, until nothing is. Blocks the worker's main thread."""
        from borealis_py.engine.sql.duck_connection import open_default  # here: drivers load no engine

        stop = threading.Event()
        open_default()
        with ended_with_host(stop), closing(_Standbys(self)) as standbys:
            while not stop.is_set() and not standbys.over:
                standbys.turn()
        return TaskEnd()


@dataclass(slots=True)
class _Incarnation:
    """One that was ordered. `end`: None: it runs."""

    number: int
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread = field(default_factory=threading.Thread)
    end: TaskEnd | None = None


class _Standbys:
    """What the task does in the worker. Its methods are called in one thread."""

    def __init__(self, task: StandbyTask) -> None:
        self._tasks = {one.name: one for one in task.tasks}
        self._session = task.session
        self._woken = threading.Event()
        self._there: dict[str, _Incarnation] = {}
        self._orders: dict[str, rpc.IncarnationOrder] | None = None
        self._reported: tuple[dict[str, int], dict[str, rpc.IncarnationEnd]] | None = None
        self._reported_s = 0.0
        self.over = False
        """The driver has said that nothing is to run here."""
        spec = task.tasks[0].spec
        self._to, answers = redo_feeds(spec.app, spec.node, spec.replica)
        with ExitStack() as opened:
            self._inbox = ReplyReader(task.rpc_log, answers, self._woken.set)
            opened.callback(self._inbox.close)
            self._appender = task.rpc_log.appender(lambda: None)
            opened.callback(self._appender.close)
            self._opened = opened.pop_all()
        log.info("standby task runs", worker_pid=os.getpid(), may_run=sorted(self._tasks))

    def turn(self) -> None:
        """Take orders, begin what is new, report what has changed, and wait for more."""
        self._woken.clear()
        for _, message in rpc.decode_all(self._inbox.poll(), self._session):
            if isinstance(message, rpc.StandbysOrder):
                self._orders = message.orders
                self._reported_s = 0.0  # it is sent again until a report has come
            elif isinstance(message, rpc.Shutdown):
                self.over = True
        if self._orders is not None:
            self._obey(self._orders)
        self._report()
        if not self.over:
            self._woken.wait(LOOK_S)

    def _obey(self, orders: dict[str, rpc.IncarnationOrder]) -> None:
        self.over = self.over or not orders
        for name, order in orders.items():
            there = self._there.get(name)
            if name in self._tasks and (there is None or (there.number < order.number and not there.thread.is_alive())):
                self._begin(name, order)
        for name in [name for name, one in self._there.items() if name not in orders and not one.thread.is_alive()]:
            del self._there[name]

    def _begin(self, name: str, order: rpc.IncarnationOrder) -> None:
        task = replace(self._tasks[name], moves=order.moves)
        self._there[name] = there = _Incarnation(order.number)
        there.thread = threading.Thread(target=self._run, args=(task, there), name=name, daemon=True)
        there.thread.start()

    def _run(self, task: NodeTask, there: _Incarnation) -> None:
        end = TaskEnd("failed", "its thread ended")
        try:
            end = task.run_until(there.stop, NAME)
        finally:
            there.end = end
            self._woken.set()

    def _report(self) -> None:
        begun = {name: one.number for name, one in self._there.items()}
        ended: dict[str, rpc.IncarnationEnd] = {
            name: one.end for name, one in self._there.items() if one.end is not None and not one.thread.is_alive()
        }
        due = bool(ended) and time.monotonic() - self._reported_s >= AGAIN_S
        if (begun, ended) == self._reported and self._reported_s and not due:
            return
        self._reported, self._reported_s = (begun, ended), time.monotonic()
        told = rpc.StandbysReport(self._session, os.getpid(), platform.node(), begun, ended)
        self._appender.append(rpc.to_record(self._to, told))

    def close(self) -> None:
        """End all incarnations in order, and close the clients."""
        for one in self._there.values():
            one.stop.set()
        for one in self._there.values():
            one.thread.join()
        self._report()
        self._opened.close()
