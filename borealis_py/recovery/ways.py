"""The ways of recovery, and what each can promise for which operators (Hwang et al., ICDE 2005, 4 to 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.query.errors import QueryError
from borealis_py.query.recovery import Guarantee, RecoveryWay


class RecoveryType(StrEnum):
    """What a standby gives after it has taken over, beside what was given before (table 2)."""

    REPEATING = "repeating"
    """The same results again."""
    CONVERGENT = "convergent"
    """Other results for a while, then the same."""
    DIVERGENT = "divergent"
    """Other results, and never the same again."""


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


def recovery_type(way: RecoveryWay, operators: OperatorClass) -> RecoveryType | None:
    """The cell of table 2 for a way and an operator class. None: amnesia, which has none."""
    if way is RecoveryWay.AMNESIA:
        return None
    if operators is OperatorClass.ARBITRARY:
        return RecoveryType.DIVERGENT
    if way is not RecoveryWay.UPSTREAM_BACKUP or operators is OperatorClass.REPEATABLE:
        return RecoveryType.REPEATING
    return RecoveryType.CONVERGENT if operators is OperatorClass.CONVERGENT else RecoveryType.DIVERGENT


def refusal(
    way: RecoveryWay,
    operators: OperatorClass,
    read_by: Iterable[str] = (),
    unbounded: Sequence[str] = (),
    least: Guarantee = Guarantee.PRECISE,
) -> str:
    """Why a node cannot have this way; empty: it can.

    Args:
        read_by: the nodes that read its stream. unbounded, least: as `check_way`; what the file asks for counts for
            amnesia only, since all other ways must be precise.
    """
    readers = ", ".join(read_by)
    if way is RecoveryWay.AMNESIA:
        if _has_no_bound(operators, unbounded):
            names = _named(unbounded) if unbounded else "its results"
            return f"it begins with an empty state, and {names} may stand on any earlier row"
        if least is Guarantee.GAP and not readers:
            return ""
        lost = 'its guarantee is "gap": what comes while nobody runs is lost'
        return f"{lost}, and {readers} would read the gap" if readers else lost
    if guarantee(way, operators) is Guarantee.PRECISE:
        return ""
    diverges = f"{recovery_type(way, operators)} for {operators} nodes (table 2 of Hwang et al.)"
    return f"{diverges}: results after a crash may differ for ever"


def _has_no_bound(operators: OperatorClass, unbounded: Sequence[str]) -> bool:
    """Whether a node that begins with an empty state may never come to the state of its peers."""
    return bool(unbounded) or operators is OperatorClass.DETERMINISTIC


def _named(unbounded: Sequence[str]) -> str:
    return f"its {' and its '.join(unbounded)}"


def check_way(
    way: RecoveryWay,
    least: Guarantee,
    operators: OperatorClass,
    unbounded: Sequence[str],
    where: str,
    read_by: Sequence[str] = (),
) -> None:
    """Check that a node can recover in this way.

    Args:
        least: the guarantee that its readers are to have. operators: its operator class.
        unbounded: its operators, as its user wrote them, whose results may depend on any earlier bucket.
        where: names the node in messages. read_by: the nodes that read its stream.

    Raises:
        QueryError: the way promises less for this class; it begins with an empty state, and there is no bucket from
            which the node would come to the state that its peers have; or nodes would read what is lost.
    """
    promised, order = guarantee(way, operators), list(Guarantee)
    because = f": {_named(unbounded)} may stand on any earlier row" if unbounded else ""
    stateless = way in (RecoveryWay.UPSTREAM_BACKUP, RecoveryWay.AMNESIA)
    unbound = stateless and _has_no_bound(operators, unbounded)
    others = "Choose passive-standby, active-standby or active"
    apart = f"{others}, or cut the rest off with .node() and choose for it alone"
    if way is RecoveryWay.AMNESIA and read_by:
        raise QueryError(
            f"{where}: {way} loses what comes while no replica runs, and {', '.join(read_by)} would read the gap. "
            f"{others}; only a query that nobody but clients reads may have {way}"
        )
    if order.index(promised) > order.index(least):
        if way is RecoveryWay.AMNESIA:
            allow = "" if unbound else ', or say guarantee="gap" if results may be lost'
            raise QueryError(
                f"{where}: {way} gives {promised}, not {least}: what comes while no replica runs is lost. "
                f"{others}{allow}"
            )
        raise QueryError(
            f"{where}: {way} of a node that is {operators} gives {promised}, not {least} ({_cell(way, operators)})"
            f"{because}. {apart}"
        )
    if unbound:
        raise QueryError(
            f"{where}: {way} begins with an empty state{because}. Its rows would differ from those of its peers, and "
            f'replicas must give equal bits, so guarantee="{least}" does not help. {apart}'
        )


def _cell(way: RecoveryWay, operators: OperatorClass) -> str:
    return f"{recovery_type(way, operators)}, table 2 of Hwang et al."
