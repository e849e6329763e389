"""The oracles are worth something: each rule that is switched off in the product is found, by an oracle with a name.

`pytest tests/simulation/test_planted.py -rP` prints how many seeds each took.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py.query.recovery import ACTIVE
from borealis_py.simulation.runner.generator import draw
from borealis_py.simulation.runner.run import run_scenario
from borealis_py.simulation.runner.scenario import Scenario
from tests.simulation.planted import BUGS, Bug

pytestmark = pytest.mark.sim
ANY = {"safety": ("diverged", "input"), "liveness": (), "quality": ()}
"""What may be found first of a bug of this effect, whatever its rule: replicas that compare what they emitted (R15),
and stop; items told nowhere, or twice, as dead letters.
"""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.effect}: {bug.rule}")
def test_a_planted_bug_is_found(bug: Bug) -> None:
    if not bug.oracles:
        return _holds(bug)
    with bug.planted():
        for seed in range(1, bug.seeds + 1):
            result = run_scenario(_world(bug, seed), digest=False)
            if not result.ok:
                print(f"{bug.rule} | {bug.effect} | {result.oracle} | {seed} seeds")
                assert result.oracle in (*bug.oracles, *ANY[bug.effect]), result.failure()
                return
    pytest.fail(f"{bug.rule}: not found in {bug.seeds} seeds")


def _world(bug: Bug, seed: int) -> Scenario:
    """Trimmed, and with standbys, only where that shows the bug: elsewhere it might be found by something else."""
    drawn = draw(seed, bug.kinds, nodes=bug.nodes)
    nodes = tuple(replace(plan, recovery=ACTIVE) for plan in drawn.nodes)
    return bug.change(replace(drawn, retain=None, nodes=nodes))


def _holds(bug: Bug) -> None:
    assert bug.effect == "quality"
    with bug.planted():
        for seed in range(1, 4):
            result = run_scenario(_world(bug, seed), digest=False)
            assert result.ok, result.failure()


def test_there_are_enough_of_them() -> None:
    assert len(BUGS) >= 30
    assert len({bug.rule for bug in BUGS}) == len(BUGS)
    assert {bug.effect for bug in BUGS} == {"safety", "liveness", "quality"}
