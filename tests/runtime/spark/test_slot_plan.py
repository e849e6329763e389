"""Slots are counted before anything waits for them, and what is missing is said with numbers."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from borealis_py.runtime.spark.session import SparkUnavailable
from borealis_py.runtime.spark.slot_plan import SlotPlan, addresses, await_slots, reach, redos_for


class Executors:
    """As much of a SparkContext as is asked for its slots; they come one by one."""

    def __init__(self, *counts: int) -> None:
        self.counts = list(counts)

    @property
    def _jsc(self) -> Any:
        return self

    sc = resourceProfileManager = defaultResourceProfile = lambda self: self

    def maxNumConcurrentTasks(self, profile: Any) -> int:
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]


PLAN = SlotPlan(("sums.r0", "big.r0"), 1, "spark://there:7077")


def test_a_slot_for_each_task_and_those_for_redos() -> None:
    assert PLAN.needed == 3
    assert str(PLAN) == "3 slots: 2 for sums.r0, big.r0 and 1 for redos"
    assert str(SlotPlan(("q.r0",), 0, "local")) == "1 slot: 1 for q.r0"
    asked = dict(PLAN.properties)
    assert (asked["spark.cores.max"], asked["spark.task.maxFailures"]) == ("3", "1")
    assert "spark.driver.host" not in asked
    assert dict(SlotPlan(("q.r0",), 1, "spark://localhost:7077").properties)["spark.driver.host"] == "127.0.0.1"


def test_a_standby_task_may_always_come_and_has_a_slot_more_where_slots_cost_nothing() -> None:
    names = ("a.r1", "b.r1", "c.r1")
    assert [SlotPlan(names[:n], 1, "local").shares for n in (1, 2)] == [False, True]
    assert [SlotPlan(names, 1, "local", idle).needed for idle in (0, 1, 2)] == [4, 4, 5]
    assert [SlotPlan(names, 1, "spark://there:7077", idle).needed for idle in (0, 2)] == [4, 4]
    assert [SlotPlan(names, 1, "local", 3, shared).least for shared in (0, 1, 2, 3)] == [4, 4, 3, 2]
    assert (
        str(SlotPlan(names, 1, "local", 2))
        == "5 slots: 3 for a.r1, b.r1, c.r1 and 1 for redos; standbys share one more"
    )


@pytest.mark.parametrize(
    ("master", "tasks", "redos"), [("local", 1, 1), ("local[8]", 2, 2), ("local", 5, 2), ("spark://there:7077", 5, 1)]
)
def test_slots_for_redos_are_cheap_on_this_machine_alone(master: str, tasks: int, redos: int) -> None:
    assert redos_for(master, tasks) == redos


@pytest.mark.parametrize(
    ("given", "asked", "widened"),
    [
        ("local", "local[3]", False),
        ("local[2]", "local[3]", True),
        ("local[5]", "local[5]", False),
        ("local[*]", "local[3]", False),
        ("local[2,4]", "local[3]", True),
        ("spark://there:7077", "spark://there:7077", False),
        ("yarn", "yarn", False),
    ],
)
def test_a_local_master_gets_the_threads_it_needs(given: str, asked: str, widened: bool) -> None:
    plan = SlotPlan(PLAN.tasks, 1, given)
    assert (plan.asked_master, plan.widened) == (asked, widened)
    assert plan.local == given.startswith("local")
    assert ("spark.cores.max" in dict(plan.properties)) == (not plan.local)


def test_executors_that_come_late_are_waited_for() -> None:
    await_slots(Executors(0, 2, 3), PLAN, threading.Event(), 30)


def test_too_few_slots_are_told_with_what_is_needed_and_what_is_there() -> None:
    why = r"needs 3 slots: 2 for sums\.r0, big\.r0 and 1 for redos; it was given 2 within 0 s"
    with pytest.raises(SparkUnavailable, match=why):
        await_slots(Executors(2), PLAN, threading.Event(), 0.0)


def test_one_that_started_before_makes_do_with_fewer_but_not_with_none() -> None:
    await_slots(Executors(2), PLAN, threading.Event(), 0.0, least=1)
    with pytest.raises(SparkUnavailable, match="it was given 0"):
        await_slots(Executors(0), PLAN, threading.Event(), 0.0, least=1)


def test_nobody_waits_for_slots_after_a_stop() -> None:
    stop = threading.Event()
    stop.set()
    await_slots(Executors(0), PLAN, stop, 600)


def test_a_master_that_is_not_there_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach(f"spark://127.0.0.1:{port}")
        reach(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(SparkUnavailable, match=rf"no Spark master answers at spark://127\.0\.0\.1:{port}"):
        reach(f"spark://127.0.0.1:{port}")
    reach("local[2]")


@pytest.mark.parametrize("master", ["spark://there", "spark://:7077", "spark://there:x"])
def test_a_master_without_a_port_is_refused(master: str) -> None:
    with pytest.raises(SparkUnavailable, match="not spark://host:port"):
        addresses(master)
