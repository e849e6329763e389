"""What a world that has healed is: one in which nothing fails any more, its sources by the data included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py.protocol.settings import DelayPolicy, Delays
from borealis_py.simulation.runner.generator import draw
from borealis_py.simulation.runner.run import run_scenario
from borealis_py.simulation.runner.shrink import Edits
from borealis_py.simulation.scenario import SECOND, Fault, Scenario, SimulatedNode

pytestmark = pytest.mark.sim
CHAIN = (
    SimulatedNode("n1", ("s0", "s1"), 1),
    SimulatedNode("n2", ("n1",), 1),
    SimulatedNode("n3", ("n2",), 1),
    SimulatedNode("q", ("n3",), 1),
)
NEEDED_US = 475_000 + 3 * 100_000 + 150_000 + SECOND + 50_000 + 100_000
"""Slack and hops of four nodes; lateness, five rows at five a second, a bucket, and the way."""


def rare(threshold_us: int = SECOND) -> Scenario:
    """A chain that leaves its first node D = 225 ms of X = 1 s, where a source by the data has a row each 200 ms, up to
    150 ms late; few corrections are done in a turn. Nothing else goes wrong."""
    drawn = Edits(keep=(), heal_s=3.0).apply(draw(1, nodes=1))
    return replace(
        drawn,
        sources=2,
        nodes=CHAIN,
        width_us=50_000,
        span=3,
        rate=5,
        delays=Delays(threshold_us, DelayPolicy.PROCESS, DelayPolicy.PROCESS),
        timing=replace(drawn.timing, inline_us=0, buffer_rows_max=2_000_000),
        latecomer=False,
        lost=(),
        bad=0.0,
        lateness_us=150_000,
        by_data=frozenset({1}),
    )


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_where_a_source_stands_for_longer_than_d_all_heals_once_x_has_room_for_it(seed: int) -> None:
    result = run_scenario(replace(rare(), seed=seed), digest=False)
    assert result.ok, result.failure()
    assert result.reconciliations > 0


def test_x_is_raised_when_all_heals_and_not_before() -> None:
    world = rare()
    assert world.healed_threshold_us == NEEDED_US
    assert world.threshold_us(0) == world.threshold_min_us(world.heal_us) == SECOND
    assert world.threshold_us(world.heal_us) == world.threshold_max_us == NEEDED_US
    assert f"heals at 3 s with X {NEEDED_US / 1e6} s" in str(world)


def test_x_stays_where_it_has_room_or_a_life_ends_unhealed() -> None:
    assert rare(NEEDED_US).healed_threshold_us is None
    assert replace(rare(), by_data=frozenset()).healed_threshold_us is None
    assert replace(rare(), reset="all").healed_threshold_us is None


def test_what_counts_is_the_threshold_that_was_set_last() -> None:
    lowered = Fault("threshold", 0, SECOND, SECOND, str(SECOND))
    raised = Fault("threshold", 0, 2 * SECOND, 2 * SECOND, str(3 * SECOND))
    assert replace(rare(3 * SECOND), faults=(lowered,)).healed_threshold_us == NEEDED_US
    assert replace(rare(), faults=(lowered, raised)).healed_threshold_us is None


def test_a_source_by_the_data_does_not_wait_for_items_that_a_stranger_told_of() -> None:
    forged, crash = Fault("big", 1, SECOND, SECOND), Fault("source_crashes", 1, 2 * SECOND, 3 * SECOND)
    result = run_scenario(replace(rare(5 * SECOND), faults=(forged, crash), heal_us=4 * SECOND), digest=False)
    assert result.ok, result.failure()
