"""The standby task in its worker: it runs what is ordered in threads, and one that ends does not end the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from borealis_py.log.topics import redo_feeds
from borealis_py.runtime.spark import standby_task
from borealis_py.runtime.spark.replica_task import NodeTask, TaskEnd
from borealis_py.runtime.spark.standby_task import StandbyTask
from reconcile import rpc
from tests.harness.waiting import PATIENCE_S, until
from tests.reconcile.rpc_log import RpcLog

ASK, ANSWER = redo_feeds("app", "a", 0)


class _Spec:
    """As much of a ReplicaSpec."""

    app, replica = "app", 0

    def __init__(self, node: str) -> None:
        self.node, self.name = node, f"{node}.r0"


class Worker:
    """A worker in which the task runs, with incarnations that end when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(NodeTask, "run_until", lambda task, stop, shared: self.incarnation(task, stop))
        monkeypatch.setattr(standby_task, "AGAIN_S", 0.05)
        self.log = RpcLog(ASK)
        specs: list[Any] = [_Spec("a"), _Spec("b")]
        log: Any = self.log
        self.task = StandbyTask(tuple(NodeTask(spec, "s", (), log) for spec in specs))
        self.running: dict[str, list[NodeTask]] = {"a.r0": [], "b.r0": []}
        self.ends: dict[str, Callable[[], TaskEnd]] = {}
        self.stopped: list[str] = []
        self.thread = threading.Thread(target=self.task.run, daemon=True)
        monkeypatch.setattr(standby_task, "ended_with_host", lambda stop: _Nothing())
        self.thread.start()
        until(lambda: self.reports() != [], "it is there")

    def incarnation(self, task: NodeTask, stop: threading.Event) -> TaskEnd:
        self.running[task.name].append(task)
        while not stop.wait(0.01):
            if task.name in self.ends:
                return self.ends.pop(task.name)()
        self.stopped.append(task.name)
        return TaskEnd()

    def order(self, session: str = "s", **orders: rpc.IncarnationOrder) -> None:
        named = {f"{node}.r0": order for node, order in orders.items()}
        self.log.put(rpc.to_record(ANSWER, rpc.StandbysOrder(session, named)))

    def reports(self) -> list[rpc.StandbysReport]:
        found = [rpc.decode(value) for value in self.log.values(ASK)]
        return [message for message in found if isinstance(message, rpc.StandbysReport)]

    def until_reported(self, begun: dict[str, int], **ended: str) -> None:
        """Until its last report has these numbers, and ends of these kinds."""

        def there() -> bool:
            last = self.reports()[-1]
            kinds = {name: end.kind for name, end in last.ended.items()}
            return last.begun == begun and kinds == {f"{node}.r0": kind for node, kind in ended.items()}

        until(there, f"{begun} and {ended} are reported")


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    it = Worker(monkeypatch)
    yield it
    it.log.put(rpc.to_record(ANSWER, rpc.Shutdown("s")))
    it.thread.join(PATIENCE_S)
    assert not it.thread.is_alive()


def test_one_that_ends_is_reported_and_the_others_go_on(worker: Worker) -> None:
    first = rpc.IncarnationOrder(1), rpc.IncarnationOrder(2, moves=True)
    worker.order(a=first[0], b=first[1])
    worker.until_reported({"a.r0": 1, "b.r0": 2})
    assert [task.moves for name in worker.running for task in worker.running[name]] == [False, True]
    worker.ends["a.r0"] = lambda: TaskEnd("retention", "records are gone")
    worker.until_reported({"a.r0": 1, "b.r0": 2}, a="retention")
    worker.order(b=first[1])
    worker.until_reported({"b.r0": 2})
    worker.order(a=rpc.IncarnationOrder(3), b=first[1])
    worker.until_reported({"a.r0": 3, "b.r0": 2})
    assert {name: len(tasks) for name, tasks in worker.running.items()} == {"a.r0": 2, "b.r0": 1}


def raises() -> TaskEnd:
    raise SystemExit("whatever it is")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_one_whose_thread_dies_has_failed(worker: Worker) -> None:
    worker.order(a=rpc.IncarnationOrder(1))
    worker.until_reported({"a.r0": 1})
    worker.ends["a.r0"] = raises
    worker.until_reported({"a.r0": 1}, a="failed")


def test_a_repeated_order_begins_nothing_and_is_answered(worker: Worker) -> None:
    for times in (2, 3):
        worker.order(a=rpc.IncarnationOrder(1))
        until(lambda n=times: len(worker.reports()) >= n, f"{times} reports")
    assert len(worker.running["a.r0"]) == 1


def test_what_another_session_orders_and_who_is_unknown_do_not_count(worker: Worker) -> None:
    worker.order("before", a=rpc.IncarnationOrder(9))
    worker.order(c=rpc.IncarnationOrder(1), b=rpc.IncarnationOrder(2))
    worker.until_reported({"b.r0": 2})
    assert worker.running["a.r0"] == []


def test_with_nothing_ordered_it_ends_and_with_it_all_in_order(worker: Worker) -> None:
    worker.order(a=rpc.IncarnationOrder(1))
    worker.until_reported({"a.r0": 1})
    worker.order()
    worker.thread.join(PATIENCE_S)
    assert not worker.thread.is_alive()
    assert worker.stopped == ["a.r0"]
