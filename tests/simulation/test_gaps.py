"""What the oracle of gaps says of ranges without an end."""

from __future__ import annotations

from borealis_py.simulation.checkers.gaps import first_outside
from sunion.model import FOREVER


def test_a_gap_that_was_told_lies_in_the_union_of_those_that_replicas_say() -> None:
    said = [range(10, 20), range(2, 5), range(18, 30)]
    assert first_outside(said, range(10, 30)) is None
    assert first_outside(said, range(3, 5)) is None
    assert first_outside(said, range(3, 11)) == 5
    assert first_outside(said, range(25, 31)) == 30
    assert first_outside([], range(1, 2)) == 1


def test_a_gap_up_to_the_end_of_all_is_looked_at_at_once() -> None:
    """Seed 99793722: amnesia began after END."""
    assert first_outside([range(10, FOREVER)], range(12, FOREVER)) is None
    assert first_outside([range(10, FOREVER - 1)], range(12, FOREVER)) == FOREVER - 1
