"""How a node survives the crash of a replica: `recovery=`, and its words (Hwang et al., ICDE 2005, 4 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SYNC_US = 500_000


class RecoveryWay(StrEnum):
    """Who runs a node, and what a standby has when who runs dies."""

    ACTIVE = "active"
    """All run and speak: readers change over to another one."""
    ACTIVE_STANDBY = "active-standby"
    """All compute, one speaks."""
    PASSIVE_STANDBY = "passive-standby"
    """One computes, and writes its state."""
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


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """How one node recovers.

    Attributes:
        way: who runs it, and what a standby has.
        sync_us: how old the state of a passive standby is at most, in microseconds of the machine's clock.
    """

    way: RecoveryWay = RecoveryWay.ACTIVE
    sync_us: int = SYNC_US

    @property
    def stands_by(self) -> bool:
        """Whether one replica runs and the others stand by."""
        return self.way is not RecoveryWay.ACTIVE

    @property
    def idles(self) -> bool:
        """Whether a standby reads no input."""
        return self.stands_by and self.way is not RecoveryWay.ACTIVE_STANDBY


ACTIVE = RecoveryPlan()
