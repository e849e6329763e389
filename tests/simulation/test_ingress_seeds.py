"""Worlds of ingresses with faults: what they copy and promise holds in each; and each rule that is switched off in the
product is found there."""

from __future__ import annotations

import pytest

from borealis_py.simulation.ingress.world import run_ingress
from tests.planted.bug import Bug
from tests.planted.found import verify
from tests.planted.ingress import BUGS

pytestmark = pytest.mark.sim
SEEDS = 40
TOGETHER = 10


@pytest.mark.parametrize("first", range(1, SEEDS + 1, TOGETHER))
def test_no_seed_breaks_a_promise(first: int) -> None:
    outcomes = [run_ingress(seed) for seed in range(first, first + TOGETHER)]
    assert [(one.seed, one.violations[:2]) for one in outcomes if one.violations] == []
    assert sum(one.rows for one in outcomes) > 200 * TOGETHER  # the worlds must be rough enough to mean something
    assert sum(one.letters for one in outcomes) > 10 * TOGETHER
    assert sum(one.take_overs for one in outcomes) > TOGETHER  # the first of each world is one, too


def test_what_an_input_has_already_moves_nothing_when_it_is_read_again() -> None:
    """A row in the future, which had been refused, was so no longer: all that the input was yet to get was late."""
    assert run_ingress(642321).violations == ()


def test_the_same_seed_is_the_same_world() -> None:
    assert run_ingress(5) == run_ingress(5)


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.worlds], ids=lambda bug: bug.rule)
def test_a_rule_that_is_switched_off_is_found(bug: Bug) -> None:
    verify(bug)
