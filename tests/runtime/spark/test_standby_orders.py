"""The driver's side of the standby task: lost orders are repeated, each incarnation's end comes to whoever waits for
it, and the task's end to all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from borealis_py.node.endings import Superseded
from borealis_py.runtime.restarting import TaskDied
from borealis_py.runtime.spark import standby_orders
from borealis_py.runtime.spark.standby_orders import StandbyOrders
from reconcile.rpc import IncarnationEnd, IncarnationOrder, StandbysReport
from tests.harness.waiting import PATIENCE_S, until


class Task:
    """A standby task as a test plays it. Orders arrive unless it is `deaf`."""

    def __init__(self) -> None:
        self.lives = 0
        self.deaf = False
        self.orders: dict[str, IncarnationOrder] | None = None
        self.over = threading.Event()
        self.dies: Exception | None = None
        self.application_over = threading.Event()
        self.driver = StandbyOrders(self.run, self.take, self.application_over)
        self.ends: dict[str, Any] = {}
        """How each run ended: None or the error."""

    def run(self) -> None:
        self.lives += 1
        assert self.over.wait(PATIENCE_S)
        self.over.clear()
        self.orders = None
        if self.dies is not None:
            raise self.dies

    def take(self, orders: Any) -> None:
        if not self.deaf:
            self.orders = dict(orders)

    def report(self, **ended: IncarnationEnd) -> None:
        """It has begun what is ordered."""
        begun = {name: order.number for name, order in (self.orders or {}).items()}
        self.driver.reported(StandbysReport("s", 1, "here", begun, ended))

    def runs(self, name: str, moves: bool = False) -> threading.Thread:
        """A replica that runs an incarnation there, until it ends."""
        self.ends.pop(name, None)

        def run() -> None:
            try:
                self.driver.run(name, moves)
                self.ends[name] = None
            except Exception as exc:
                self.ends[name] = exc

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def ordered(self, *names: str) -> Callable[[], bool]:
        return lambda: self.orders is not None and self.orders.keys() == set(names)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    for name in ("AGAIN_S", "UNUSED_S", "PAUSE_S", "WAIT_S"):
        monkeypatch.setattr(standby_orders, name, 0.01)
    it = Task()
    yield it
    it.application_over.set()
    it.over.set()


def test_incarnations_are_ordered_of_one_task_and_each_end_comes_to_its_own(task: Task) -> None:
    a, b = task.runs("a"), task.runs("b", moves=True)
    until(task.ordered("a", "b"), "both are ordered")
    assert task.orders is not None
    assert task.orders["b"].moves
    assert task.lives == 1
    task.report(a=IncarnationEnd("superseded", "it runs elsewhere"))
    a.join(PATIENCE_S)
    assert isinstance(task.ends["a"], Superseded)
    until(task.ordered("b"), "a is ordered no more")
    assert b.is_alive()
    first = task.orders["b"].number
    task.report(b=IncarnationEnd("failed", "no broker"))
    b.join(PATIENCE_S)
    assert str(task.ends["b"]) == "no broker"
    task.runs("b")
    until(lambda: task.orders is not None and task.orders["b"].number > first, "another incarnation")


def test_an_end_of_an_earlier_incarnation_is_none_of_the_next(task: Task) -> None:
    task.runs("a")
    until(task.ordered("a"), "it is ordered")
    task.driver.reported(StandbysReport("s", 1, "here", {"a": 0}, {"a": IncarnationEnd("superseded", "before")}))
    task.report()
    assert task.ends == {}


def test_orders_are_repeated_until_they_are_reported(task: Task) -> None:
    task.deaf = True
    task.runs("a")
    until(lambda: task.lives == 1, "the task runs")
    task.deaf = False

    def repeated() -> bool:
        task.driver.turn()
        return task.ordered("a")()

    until(repeated, "the order is repeated")
    task.report()
    task.orders = None
    for _ in range(5):
        task.driver.turn()
    assert task.orders is None, "it is known"


def test_the_task_s_end_is_that_of_all_and_they_share_the_next_one(task: Task) -> None:
    threads = [task.runs("a"), task.runs("b")]
    until(task.ordered("a", "b"), "both are ordered")
    task.dies = TaskDied("its worker was killed")
    task.over.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [str(task.ends[name]) for name in "ab"] == ["its worker was killed"] * 2
    task.runs("a")
    task.runs("b")
    until(task.ordered("a", "b"), "both are ordered again")
    assert task.lives == 2


def test_a_task_with_nothing_to_run_ends_and_another_one_begins_when_it_is_needed(task: Task) -> None:
    a = task.runs("a")
    until(task.ordered("a"), "it is ordered")
    task.report(a=IncarnationEnd("superseded", "it has moved"))
    a.join(PATIENCE_S)

    def told_to_end() -> bool:
        task.driver.turn()
        return task.orders == {}

    until(told_to_end, "it is told to end")
    late = task.runs("a")
    task.over.set()
    until(task.ordered("a"), "it is ordered of another one")
    assert late.is_alive()
    assert task.lives == 2


def test_when_the_application_ends_nobody_fails(task: Task) -> None:
    a = task.runs("a")
    until(task.ordered("a"), "it is ordered")
    task.application_over.set()
    task.over.set()
    a.join(PATIENCE_S)
    assert task.ends == {"a": None}
