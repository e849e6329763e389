"""The ways of recovery, and what each can promise for which operators (Hwang et al., ICDE 2005, 4 to 6)."""

from __future__ import annotations

from borealis_py.engine.classes import OperatorClass
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
