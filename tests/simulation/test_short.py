"""A few worlds, in seconds: what `make mutants` runs beside the tests of the code it changes."""

from __future__ import annotations

import pytest

from borealis_py.simulation.runner.run import run_seed

pytestmark = pytest.mark.sim
SEEDS = (1, 2, 3, 5, 7, 8, 12, 20)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world_keeps_every_promise(seed: int) -> None:
    result = run_seed(seed)
    assert result.ok, result.failure()
