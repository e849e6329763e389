"""Operator classes: what a replica that restarts with empty state can still promise (Hwang et al., ICDE 2005, 3).

Ordered from the least general to the most; a fragment has the class of its most general operator, which determines the
ways of recovery available to a query. Union is arbitrary in that paper because its result depends on arrival; behind an
SUnion it does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class OperatorClass(StrEnum):
    """What the result of an operator depends on, apart from the input tuples it is computed from."""

    REPEATABLE = "repeatable"
    """Nothing: each result is computed from at most one input tuple. Filter, map, and a union in total order; a Python
    function of rows, if it keeps what it must promise: `borealis check` tries it, R15.2 tells when replicas differ.
    """
    CONVERGENT = "convergent-capable"
    """Nothing eventually: started anywhere with empty state, it gives the same results after a while. Windows by stime:
    they end at multiples of `every` since 1970, wherever reading starts.
    """
    DETERMINISTIC = "deterministic"
    """Its initial state: equal input from equal state gives equal results. Look-ups in a table that changes: its rows
    may be of any age. Count windows and sessions: where one begins depends on where those before it did, and they need
    never come to the same alignment."""
    ARBITRARY = "arbitrary"
    """Time, chance or arrival order. No operator that can be written today is in this class."""


def most_general(classes: Iterable[OperatorClass]) -> OperatorClass:
    """The class of a fragment with operators of these classes."""
    order = list(OperatorClass)
    return max(classes, key=order.index, default=OperatorClass.REPEATABLE)
