"""The list of slow tests names tests that exist, and no tier takes longer than its budget when last measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiers import durations
from tests.tiers.plan import BUDGETS, LONGEST_S, SHARED, SLOW, THIRDS, TIERS, thirds

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("entry", [*SLOW, *SHARED])
def test_every_slow_test_is_there(entry: str) -> None:
    file, _, name = entry.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {name.partition('[')[0]}" in text


RECORD = durations.load()
UNMEASURED = {"tests/mutants/test_ledger.py"}
"""Needs what only `make mutants` installs."""
OF = {tier: {file: taken[tier] for file, taken in RECORD.items() if tier in taken} for tier in TIERS}


def test_every_test_file_is_measured() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert files - RECORD.keys() == UNMEASURED, "python -m tests.tiers record FILES"


@pytest.mark.parametrize("tier", TIERS)
def test_make_test_keeps_to_its_budget(tier: str) -> None:
    budget = BUDGETS[tier]
    assert sum(taken.wall_s for taken in OF[tier].values()) <= (budget.wall_s or float("inf"))
    assert sum(taken.cpu_s for taken in OF[tier].values()) <= (budget.cpu_s or float("inf"))


@pytest.mark.parametrize("tier", TIERS)
def test_every_third_of_the_slow_tests_keeps_to_its_budget(tier: str) -> None:
    budget, of = BUDGETS[tier], thirds(tier, RECORD)
    for third in range(THIRDS):
        assert sum(OF[tier][file].slow_wall_s for file in of if of[file] == third) <= (
            budget.third_wall_s or float("inf")
        )
    assert sum(taken.slow_cpu_s for taken in OF[tier].values()) / THIRDS <= (budget.third_cpu_s or float("inf"))


def test_no_pure_test_takes_long() -> None:
    assert {file: taken.longest_s for file, taken in OF["pure"].items() if taken.longest_s > LONGEST_S} == {}
