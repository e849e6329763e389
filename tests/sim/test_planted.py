"""The oracles are worth something: each rule that is switched off in the product is found, by an oracle with a name."""

from __future__ import annotations

import pytest

from borealis_py.sim.run import run_scenario
from borealis_py.sim.scenario import draw
from tests.sim.planted import BUGS, Bug

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.rule)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    with bug.planted():
        for seed in range(1, bug.seeds + 1):
            result = run_scenario(draw(seed, bug.kinds))
            if not result.ok:
                assert result.oracle in bug.oracles, result.story()
                return
    pytest.fail(f"{bug.rule}: not found in {bug.seeds} seeds")
