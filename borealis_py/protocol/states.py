"""The states of a replica and the only transitions between them (A11; DPC, SIGMOD 2005).

The state is derived from the frontiers and the grant; the table is there to reject any other transition.
"""

from __future__ import annotations

from enum import Enum

from sunion.errors import IllegalTransition


class ReplicaState(Enum):
    """The state that a replica reports. The values are the papers' names, as users see them."""

    RECOVERING = "RECOVERING"
    STANDBY = "STANDBY"
    STABLE = "STABLE"
    UPSTREAM_FAILURE = "UPSTREAM_FAILURE"
    STABILIZATION = "STABILIZATION"


_R, _S, _U, _Z = ReplicaState.RECOVERING, ReplicaState.STABLE, ReplicaState.UPSTREAM_FAILURE, ReplicaState.STABILIZATION
_B = ReplicaState.STANDBY

#: (from, to): guard.
TRANSITIONS: dict[tuple[ReplicaState, ReplicaState], str] = {
    (_R, _B): "R11.3 holds, another replica runs",
    (_B, _S): "takes over (R17.4)",
    (_R, _S): "R11.3 holds, F_s = F_l",
    (_R, _U): "R11.3 holds, F_s < F_l",
    (_R, _Z): "R11.3 holds, F_s < F_l and granted",
    (_S, _U): "a bucket ran live without being complete",
    (_U, _Z): "bucket F_s is complete and the grant is held",
    (_U, _S): "a redo result after the grant was lost, or an adopted checkpoint, closed the gap",
    (_Z, _S): "F_s reached F_l: L := S, REC_DONE",
    (_Z, _U): "bucket F_s incomplete for a while, or the grant was lost: REC_DONE",
}


def derive(recovering: bool, diverged: bool, granted: bool, runs: bool = True) -> ReplicaState:
    """The state that the frontiers, the grant and the role imply. `diverged`: F_s < F_l. `runs`: or it stands by."""
    if recovering:
        return ReplicaState.RECOVERING
    if not runs:
        return ReplicaState.STANDBY
    if not diverged:
        return ReplicaState.STABLE
    return ReplicaState.STABILIZATION if granted else ReplicaState.UPSTREAM_FAILURE


def check(before: ReplicaState, after: ReplicaState) -> None:
    """Raises IllegalTransition for a step that is not in the table."""
    if before is not after and (before, after) not in TRANSITIONS:
        raise IllegalTransition(f"{before.value} -> {after.value} is not a transition of a replica")
