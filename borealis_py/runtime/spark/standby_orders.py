"""The driver's side of the standby task: starts it when a replica is to run there, orders incarnations, and learns how
they end. Knows no Spark: it is given what runs the task.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import structlog

from borealis_py.runtime.restarting import TaskDied
from borealis_py.runtime.spark.replica_task import TaskEnd
from reconcile.rpc import IncarnationEnd, IncarnationOrder, StandbysReport

log = structlog.get_logger(__package__)

AGAIN_S = 1.0
"""How often orders are sent again until the task has reported them."""
UNUSED_S = 5.0
"""How long the task goes on with nothing to run: a replica that failed is ordered again a second later."""
PAUSE_S = 0.1
"""Each order is answered by a report; a report that lags behind is answered no sooner than this by an order."""
WAIT_S = 0.5

Orders = Mapping[str, IncarnationOrder]


class _Job:
    """One life of the standby task. `why`: why it is over."""

    def __init__(self) -> None:
        self.over = False
        self.why = ""
        self.closing = False
        self.begun: dict[str, int] = {}
        self.ended: dict[str, IncarnationEnd] = {}
        self.sent_s = 0.0
        self.unused_since_s: float | None = None


class StandbyOrders:
    """Runs incarnations in the standby task, which it starts and ends. Thread-safe.

    Args:
        run_task: runs the task; blocks until it ends. Raises TaskDied.
        send: sends orders to it. May not arrive.
        over: set when the application ends; then all ends in order.
    """

    def __init__(self, run_task: Callable[[], None], send: Callable[[Orders], None], over: threading.Event) -> None:
        self._run_task = run_task
        self._send = send
        self._over = over
        self._changed = threading.Condition()
        self._orders: dict[str, IncarnationOrder] = {}
        self._job: _Job | None = None
        self._last = 0

    @property
    def active(self) -> bool:
        """Whether the task runs, or waits for a slot."""
        with self._changed:
            return self._job is not None and not self._job.over

    def run(self, name: str, moves: bool) -> None:
        """Run one incarnation of a replica there. Blocks until it ends.

        Args:
            moves: it takes the place of one elsewhere.

        Raises:
            TaskDied: the task ended. The named errors of `TaskEnd.reraise`.
        """
        with self._changed:
            job = self._join()
            if job is None:
                return
            self._last += 1
            number = self._last
            self._orders[name] = IncarnationOrder(number, moves)
            self._tell(job)
            try:
                end = self._wait(job, name, number)
            finally:
                del self._orders[name]
                self._tell(job)
        TaskEnd(end.kind, end.why).reraise()
        if not self._over.is_set():
            raise TaskDied("its place in the standby task was ended from outside")

    def _join(self) -> _Job | None:
        """The task, which is started if need be; None: the application ends."""
        while self._job is not None and self._job.closing and not self._job.over:
            if self._over.is_set():
                return None
            self._changed.wait(WAIT_S)
        if self._job is None or self._job.over:
            self._job = _Job()
            threading.Thread(target=self._keep, args=(self._job,), name="standby task", daemon=True).start()
        return self._job

    def _keep(self, job: _Job) -> None:
        try:
            self._run_task()
            why = "the standby task was ended from outside"
        except Exception as exc:
            why = str(exc)
        with self._changed:
            job.over, job.why = True, why
            self._changed.notify_all()

    def _wait(self, job: _Job, name: str, number: int) -> IncarnationEnd:
        while True:
            if job.begun.get(name) == number and name in job.ended:
                return job.ended[name]
            if job.over and self._over.is_set():
                return IncarnationEnd()
            if job.over:
                raise TaskDied(job.why)
            self._changed.wait(WAIT_S)

    def reported(self, report: StandbysReport) -> None:
        """Take what the task has reported."""
        with self._changed:
            job = self._job
            if job is None or job.over:
                return
            job.begun, job.ended = report.begun, report.ended
            self._changed.notify_all()
            if self._orders and not self._known(job) and time.monotonic() - job.sent_s >= PAUSE_S:
                self._tell(job)

    def _known(self, job: _Job) -> bool:
        """Whether the task has begun all that is ordered, and forgotten what is not."""
        return job.begun == {name: order.number for name, order in self._orders.items()}

    def _tell(self, job: _Job) -> None:
        if self._orders and not job.over:
            job.sent_s, job.unused_since_s = time.monotonic(), None
            self._send(self._orders)

    def turn(self) -> None:
        """Repeat orders that may not have arrived; end a task that has nothing to run. Call it every second or so."""
        with self._changed:
            job, now_s = self._job, time.monotonic()
            if job is None or job.over or now_s - job.sent_s < AGAIN_S:
                return
            if self._orders:
                if not self._known(job):
                    self._tell(job)
            elif job.unused_since_s is None:
                job.unused_since_s = now_s
            elif now_s - job.unused_since_s >= UNUSED_S:
                job.closing, job.sent_s = True, now_s
                self._send({})
