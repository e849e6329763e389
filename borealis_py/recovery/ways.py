"""The ways of recovery, and what each can promise for which operators (Hwang et al., ICDE 2005, 4 to 6)."""

from __future__ import annotations

from enum import StrEnum

from borealis_py.engine.classes import OperatorClass


class RecoveryWay(StrEnum):
    """Who runs a node, and what a standby has when who runs dies."""

    ACTIVE = "active"
    """All run and speak: readers change over to another one."""
    ACTIVE_STANDBY = "active-standby"
    """All compute, one speaks."""
    PASSIVE_STANDBY = "passive-standby"
    """One computes, and writes what changes in its state."""
    UPSTREAM_BACKUP = "upstream-backup"
    """One computes; another begins with nothing and reads again what the state stood on."""
    AMNESIA = "amnesia"
    """One computes; another begins with nothing and with what comes then."""


class Guarantee(StrEnum):
    """What readers have after a crash (section 3.1)."""

    PRECISE = "precise"
    """The same as without it."""
    ROLLBACK = "rollback"
    """Nothing is lost, but results may differ from those of a run without a crash."""
    GAP = "gap"
    """Something may be lost."""


def guarantee(way: RecoveryWay, operators: OperatorClass) -> Guarantee:
    """The strongest guarantee of a way for a node of this operator class.

    With an arbitrary node two runs differ, so that no way is precise (H 227 logs each choice, which nothing here does).
    Upstream backup begins with an empty state, from which a deterministic node need not come back to the same results
    (H 201).
    """
    if way is RecoveryWay.AMNESIA:
        return Guarantee.GAP
    if operators is OperatorClass.ARBITRARY:
        return Guarantee.ROLLBACK
    if way is RecoveryWay.UPSTREAM_BACKUP and operators is OperatorClass.DETERMINISTIC:
        return Guarantee.ROLLBACK
    return Guarantee.PRECISE
