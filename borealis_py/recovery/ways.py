"""The ways of recovery, and what each can promise for which operators (Hwang et al., ICDE 2005, 4 to 6)."""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.engine.classes import OperatorClass
from borealis_py.query.errors import QueryError
from borealis_py.query.recovery import Guarantee, RecoveryWay


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


def check_way(
    way: RecoveryWay, least: Guarantee, operators: OperatorClass, unbounded: Sequence[str], where: str
) -> None:
    """Check that a node can recover in this way.

    Args:
        least: the guarantee that its readers are to have. operators: its operator class.
        unbounded: its operators, as its user wrote them, whose results may depend on any earlier bucket.
        where: names the node in messages.

    Raises:
        QueryError: the way promises less for this class; or it begins with an empty state, and there is no bucket from
            which the node would come to the state that its peers have.
    """
    promised, order = guarantee(way, operators), list(Guarantee)
    because = f": its {' and its '.join(unbounded)} may stand on any earlier row" if unbounded else ""
    others = (
        "Choose passive-standby, active-standby or active, or cut the rest off with .node() and choose for it alone"
    )
    if order.index(promised) > order.index(least):
        raise QueryError(
            f"{where}: {way} of a node that is {operators} gives {promised}, not {least}{because}. {others}"
        )
    if way is RecoveryWay.UPSTREAM_BACKUP and (unbounded or operators is OperatorClass.DETERMINISTIC):
        raise QueryError(
            f"{where}: {way} begins with an empty state{because}. Its rows would differ from those of its peers, and "
            f'replicas must give equal bits, so guarantee="{least}" does not help. {others}'
        )
