"""The way of recovery of a node changes while it runs (R17.17); with each, a query may name what it lacks (R18)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.simulation.checkers.gaps import published_gaps
from borealis_py.simulation.fault_kinds import WAYS_SET, Failpoint
from borealis_py.simulation.runner.run import run_scenario
from borealis_py.simulation.runner.simulation import Simulation
from borealis_py.simulation.scenario import SECOND, Fault, Retention, Scenario
from tests.simulation.calm import calm

pytestmark = pytest.mark.sim


def world(way: RecoveryWay, *changes: Fault) -> Scenario:
    drawn = calm(seconds=16)
    (node,) = drawn.nodes
    nodes = (replace(node, recovery=RecoveryPlan(way)),)
    gap = "amnesia" in (way, *(fault.detail for fault in changes))
    return replace(drawn, nodes=nodes, faults=changes, retain=Retention(0, SECOND), gap=gap)


def change(at_s: float, way: str, aim: Failpoint | None = None) -> Fault:
    return Fault("recovery", 0, int(at_s * SECOND), int(at_s * SECOND) + 1, way, aim)


@pytest.mark.parametrize("to", WAYS_SET)
@pytest.mark.parametrize("way", WAYS_SET)
def test_each_way_changes_to_each_other_and_back(way: str, to: str) -> None:
    """Sources and topics are trimmed by then: who begins with nothing finds it in no log."""
    result = run_scenario(world(RecoveryWay(way), change(8, to), change(12, way)), digest=False)
    assert result.ok, result.failure()


@pytest.mark.parametrize("to", ["active", "active-standby"])
def test_a_change_while_who_took_over_starts_is_obeyed_once_it_has_started(to: str) -> None:
    """It reads the setting before its first turn, and nothing follows."""
    changed = replace(world(RecoveryWay.PASSIVE_STANDBY, change(0, to, Failpoint.TAKE_OVER)), starts_us=2 * SECOND)
    result = run_scenario(changed, digest=False)
    assert result.ok, result.failure()


@pytest.mark.parametrize("way", WAYS_SET)
def test_by_any_way_a_query_may_name_what_its_logs_have_lost(way: str) -> None:
    """Both replicas stand still while a source deletes what neither has read."""
    pauses = tuple(Fault("pause", k, 6 * SECOND, 9 * SECOND) for k in range(2))
    lossy = replace(world(RecoveryWay(way)), faults=(*pauses, Fault("retention", 0, 6 * SECOND, 9 * SECOND)), gap=True)
    simulation = Simulation(lossy)
    simulation.run()
    assert simulation.world.ended_by_retention is None
    assert published_gaps(simulation.world, "q")
