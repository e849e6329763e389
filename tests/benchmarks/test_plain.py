"""`make bench NAME=plain`: what its hand loop counts, which goals are named, what is compared."""

from __future__ import annotations

import orjson
import pytest

from benchmarks.experiments.plain import PlainPoint, ProcessCost, outcome
from benchmarks.plain.hand_loop import SECOND_US, OpenWindows
from benchmarks.plain.systems import HAND_LOOP, OURS, PATHWAY, app
from borealis_py.bench import events
from borealis_py.bench.figures import Percentiles

T0 = 1_800_000_000 * SECOND_US


def point(
    system: str, cpu: float, broker: float = 40.0, p50: float = 210.0, threads: int = 6, rate: int = 900
) -> PlainPoint:
    delay = Percentiles(20, p50, 1.1 * p50, 1.2 * p50) if rate else None
    processes = (ProcessCost(role="a", cpu_percent=cpu, pss_mb=100.0, threads=threads),) * 2
    return PlainPoint(
        system=system, rate_per_s=rate, processes=processes, broker_percent=broker, delay=delay, windows=20, tentative=0
    )  # fmt: skip


def test_each_goal_that_was_missed_is_named() -> None:
    told = outcome([point(HAND_LOOP, 2.0), point(OURS, 20.0, broker=50.0, p50=240.0, threads=30)]).worse
    assert told.endswith(
        "Over the goal at 900 events/s: CPU 40 % (30), broker 50 % (46), threads 60 (48), p50 240 ms (220), longest "
        "delay 288 ms (280)."
    )
    assert "goal" not in outcome([point(HAND_LOOP, 2.0), point(OURS, 14.0)]).worse


def test_where_pathway_runs_beside_it_half_as_much_again_is_the_goal() -> None:
    told = outcome([point(HAND_LOOP, 2.0), point(PATHWAY, 8.0), point(OURS, 14.0)]).worse
    assert told.endswith("CPU 28 % (24).")


def test_ratios_are_to_the_hand_loop_at_the_same_rate() -> None:
    found = outcome([point(HAND_LOOP, 2.0), point(HAND_LOOP, 0.5, rate=0), point(OURS, 20.0), point(OURS, 4.0, rate=0)])
    assert found.ratios == {
        "900/s: hand loop's CPU to ours": 0.1,
        "900/s: broker's CPU beside the hand loop to that beside ours": 1.0,
        "900/s: hand loop's delay to ours, p50": 1.0,
        "0/s: hand loop's CPU to ours": 0.125,
        "0/s: broker's CPU beside the hand loop to that beside ours": 1.0,
    }


class Written:
    """In place of a producer: the results."""

    def __init__(self) -> None:
        self.results: list[dict[str, object]] = []

    def produce(self, _: str, value: bytes) -> None:
        self.results.append(orjson.loads(value))

    def poll(self, _: float) -> None:
        pass


def test_the_hand_loop_writes_a_window_once_the_lateness_has_passed_and_drops_what_is_late() -> None:
    written = Written()
    loop = OpenWindows(written, "results", 200_000)
    for n in range(200):
        loop.add(events.event_json(n, T0 + n))
    loop.close_until(T0 + SECOND_US + 199_999)
    assert written.results == []
    loop.close_until(T0 + SECOND_US + 200_000)
    assert [result["n"] for result in written.results] == [2] * events.CUSTOMERS
    assert sum(result["total"] for result in written.results) == sum(events.values(n)[1] for n in range(200))
    loop.add(events.event_json(0, T0 + 5))
    loop.close_until(T0 + 3 * SECOND_US)
    assert len(written.results) == events.CUSTOMERS


def test_it_waits_until_the_next_window_is_to_be_closed() -> None:
    loop = OpenWindows(Written(), "results", 200_000)
    assert loop.due_s(T0 + 200_000) == 1.0
    assert loop.due_s(T0 + 1_199_000) == pytest.approx(0.001)


def test_the_app_reads_each_topic() -> None:
    spec = app(["orders", "returns"]).describe()
    assert [one.topic for one in spec.ingresses.values()] == ["orders", "returns"]
