"""The oracles are worth something: each rule that is switched off in the product is found, by an oracle with a name.

Each bug in the world that is known to show it (`found`); where that one holds now, the message tells which other does.
"""

from __future__ import annotations

import pytest

from tests.planted import BUGS
from tests.planted.bug import Bug
from tests.planted.found import verify
from tests.planted.worlds import Worlds

pytestmark = pytest.mark.sim
HOLDS = 3
"""Worlds that a bug of quality without oracles leaves as they are."""


@pytest.mark.parametrize(
    "bug", [bug for bug in BUGS if isinstance(bug.worlds, Worlds)], ids=lambda bug: f"{bug.effect}: {bug.rule}"
)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    if bug.worlds is not None and bug.worlds.oracles:
        verify(bug)
        return
    assert bug.effect == "quality"
    assert [shown for seed in range(1, HOLDS + 1) if (shown := bug.shown(seed)) is not None] == []
