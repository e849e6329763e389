"""200 worlds with faults: every oracle holds in each, and the same seed is the same history in another process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from borealis_py.sim.run import Options, run_seed, run_seeds

pytestmark = pytest.mark.sim
SEEDS = 200


@pytest.mark.timeout(600)
def test_no_seed_breaks_an_oracle() -> None:
    results = list(run_seeds(SEEDS, first=1, processes=2))
    assert [r.story() for r in results if not r.ok] == []
    assert len(results) == SEEDS
    # The worlds must be rough enough to mean something.
    assert sum(r.tentative for r in results) > 10 * SEEDS
    assert sum(r.reconciliations for r in results) > SEEDS // 2
    assert sum(r.asked for r in results) > 20 * SEEDS
    assert max(r.worst_us for r in results) > 500_000


def test_the_same_seed_is_the_same_history_in_another_process() -> None:
    """String hashes differ from process to process; nothing may depend on them."""
    here = [run_seed(seed).digest for seed in (3, 4)]
    code = "from borealis_py.sim.run import run_seed; print(*(run_seed(s).digest for s in (3, 4)))"
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert there.stdout.split() == here


def test_a_failure_is_told_with_what_repeats_it() -> None:
    result = run_seed(7, Options(keep=(), trace=True))
    assert result.ok
    assert result.trace
    assert "heals at" in result.scenario
    assert f"seed {result.seed}" in result.story()
