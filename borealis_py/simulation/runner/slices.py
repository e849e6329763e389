"""How much a replica of a world runs in one turn, drawn from one bucket to what is usual."""

from __future__ import annotations

import random
from dataclasses import replace

from borealis_py.simulation.scenario import Scenario

SHORT_TURN_US = 5_000
"""Worlds of such turns catch up bucket by bucket."""


def sliced(scenario: Scenario) -> Scenario:
    """The least and the most that a turn runs, from one bucket to what is usual. Drawn separately, so that the rest of
    the world stays the same. A replica must catch up: no less than four times as much as its longest turn takes."""
    rng, a_second = random.Random(f"slice sizes {scenario.seed}"), scenario.rate * scenario.sources
    least_us = rng.choice((0, scenario.width_us, 500_000))
    longest_us = scenario.turn_us[1]
    timing = replace(
        scenario.timing,
        slice_least_us=least_us if longest_us <= SHORT_TURN_US else max(least_us, 4 * longest_us),
        slice_rows=rng.choice((a_second, 20 * a_second, 20_000)),
    )
    return replace(scenario, timing=timing)
