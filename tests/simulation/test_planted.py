"""The oracles are worth something: each rule that is switched off in the product is found, by an oracle with a name.

Each bug in the world that is known to show it (`found`); where that one holds now, the message tells which other does.
"""

from __future__ import annotations

import pytest

from tests.simulation.planted import BUGS, Bug
from tests.simulation.planted.found import verify

pytestmark = pytest.mark.sim
HOLDS = 3
"""Worlds that a bug of quality without oracles leaves as they are."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.effect}: {bug.rule}")
def test_a_planted_bug_is_found(bug: Bug) -> None:
    if bug.oracles:
        verify(bug)
        return
    assert bug.effect == "quality"
    assert [shown for seed in range(1, HOLDS + 1) if (shown := bug.shown(seed)) is not None] == []


def test_there_are_enough_of_them() -> None:
    assert len(BUGS) >= 30
    assert len({bug.rule for bug in BUGS}) == len(BUGS)
    assert {bug.effect for bug in BUGS} == {"safety", "liveness", "quality"}
