"""The states of a replica: the table is all there is."""

from __future__ import annotations

from itertools import product

import pytest

from borealis_py.protocol.states import TRANSITIONS, ReplicaState, check, derive
from sunion.errors import IllegalTransition

R, S, U, Z = (
    ReplicaState.RECOVERING,
    ReplicaState.STABLE,
    ReplicaState.UPSTREAM_FAILURE,
    ReplicaState.STABILIZATION,
)
B = ReplicaState.STANDBY
LISTED = {(R, B), (B, S), (R, S), (R, U), (R, Z), (S, U), (U, Z), (U, S), (Z, S), (Z, U)}


@pytest.mark.parametrize(("before", "after"), list(product(ReplicaState, repeat=2)))
def test_every_step_is_listed_or_raises(before: ReplicaState, after: ReplicaState) -> None:
    if before is after or (before, after) in LISTED:
        check(before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"{before.value} -> {after.value}"):
            check(before, after)


def test_the_table_says_when() -> None:
    assert set(TRANSITIONS) == LISTED
    assert all(TRANSITIONS.values())


@pytest.mark.parametrize(
    ("recovering", "diverged", "granted", "state"),
    [
        (True, False, False, R),
        (True, True, True, R),
        (False, False, False, S),
        (False, True, False, U),
        (False, True, True, Z),
    ],
)
def test_the_state_follows_from_the_frontiers_and_the_grant(
    recovering: bool, diverged: bool, granted: bool, state: ReplicaState
) -> None:
    assert derive(recovering, diverged, granted) is state


def test_people_read_the_papers_spelling() -> None:
    assert U.value == "UPSTREAM_FAILURE"
