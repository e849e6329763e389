"""How a node survives the crash of a replica: `recovery=`, and its words (Hwang et al., ICDE 2005, 4 and 5)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from borealis_py.query.errors import QueryError, WrongValue, did_you_mean
from borealis_py.query.units import format_duration, parse_duration

SYNC_US = 500_000
SYNC_MAX_US = 3_600_000_000


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
WAYS = tuple(way.value for way in RecoveryWay)


@dataclass(frozen=True, slots=True)
class SaidRecovery:
    """What a query or node says itself.

    Attributes:
        plan: how it recovers; None: it says nothing.
        guarantee: the least that its readers are to have after a crash; None: it says nothing.
    """

    plan: RecoveryPlan | None = None
    guarantee: Guarantee | None = None

    def beside(self, readers: Collection[tuple[RecoveryPlan, Guarantee]]) -> tuple[RecoveryPlan, Guarantee]:
        """What holds for a node that these queries read, of each its plan and guarantee: what the node does not say is
        as they have it. With different ways it is active, and so with amnesia, which nobody may read; with several
        intervals the shortest holds, and of guarantees the strongest."""
        guarantee = min((one for _, one in readers), key=list(Guarantee).index, default=Guarantee.PRECISE)
        ways = {plan.way for plan, _ in readers}
        alike = len(ways) == 1 and RecoveryWay.AMNESIA not in ways
        shared = min((plan for plan, _ in readers), key=lambda plan: plan.sync_us) if alike else ACTIVE
        return self.plan or shared, self.guarantee or guarantee


def said_recovery(recovery: object, guarantee: object, sync: str | None, where: str) -> SaidRecovery:
    """What `recovery=`, `guarantee=` and `sync=` of a query or node mean.

    Args:
        where: names it in messages.

    Raises:
        QueryError: an unknown word, or an interval of another way than passive-standby.
    """
    least = None if guarantee is None else _guarantee(guarantee, where)
    if recovery is None and sync is not None:
        raise QueryError(f'{where}: sync={sync!r} goes with recovery="passive-standby": say both')
    return SaidRecovery(None if recovery is None else parse_recovery(recovery, sync, where), least)


def parse_recovery(word: object, sync: str | None, where: str) -> RecoveryPlan:
    """The plan of a way, and of how old the state of a passive standby is at most ("500ms"; None: that).

    Raises:
        QueryError: as `said_recovery`.
    """
    if word not in WAYS:
        hint = did_you_mean(str(word), WAYS) or ";"
        raise WrongValue(f"{where}: recovery={word!r}{hint} choose {', '.join(WAYS[:-1])} or {WAYS[-1]}")
    way = RecoveryWay(str(word))
    if sync is None:
        return RecoveryPlan(way)
    if way is not RecoveryWay.PASSIVE_STANDBY:
        raise WrongValue(
            f"{where}: sync={sync!r} is how old the state of a passive standby is at most, and {way} has none: leave "
            'it out, or choose "passive-standby"'
        )
    return RecoveryPlan(way, parse_duration(sync, f"sync of {where}"))


def plan_of(way: RecoveryWay, sync_us: int) -> RecoveryPlan:
    """The plan of a way, with the interval that it has."""
    return RecoveryPlan(way, sync_us) if way is RecoveryWay.PASSIVE_STANDBY else RecoveryPlan(way)


def _guarantee(word: object, where: str) -> Guarantee:
    known = [one.value for one in Guarantee]
    if word not in known:
        hint = did_you_mean(str(word), known) or ";"
        raise QueryError(f"{where}: guarantee={word!r}{hint} choose {', '.join(known[:-1])} or {known[-1]}")
    return Guarantee(str(word))


def check_plan(plan: RecoveryPlan, replicas: int, bucket_us: int, where: str) -> None:
    """Check a plan against what else is said of its node, whatever the node computes.

    Raises:
        QueryError: nobody would take over, or an interval that is too short or too long.
    """
    alone = plan.way is RecoveryWay.AMNESIA  # who starts again has as much as a standby: nothing
    if plan.stands_by and not alone and replicas < 2:
        raise QueryError(
            f"{where}: with {plan.way} one replica runs and another one takes over, and it has only one: set "
            'replicas=2, or recovery="active"'
        )
    if plan.way is not RecoveryWay.PASSIVE_STANDBY:
        return
    said, least, most = map(format_duration, (plan.sync_us, bucket_us, SYNC_MAX_US))
    if plan.sync_us < bucket_us:
        raise QueryError(
            f"{where}: sync={said!r} is shorter than a bucket of the app, {least}, and a state changes once a bucket: "
            f"choose {least} or more"
        )
    if plan.sync_us > SYNC_MAX_US:
        raise QueryError(
            f"{where}: sync={said!r} is longer than {most}, and after a crash a standby would compute all of that "
            f"again: choose {most} or less"
        )
