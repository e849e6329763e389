"""Operator classes: what a replica that restarts with empty state can still promise (Hwang et al., ICDE 2005, 3).

From the least general to the most; a fragment's is its most general operator's. Which ways of recovery a query may use
depends on it. Union is arbitrary in that paper because its result depends on arrival; behind an SUnion it does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class OperatorClass(StrEnum):
    """What the result of an operator depends on, beside the input that it is made of."""

    REPEATABLE = "repeatable"
    """Nothing: one input tuple at most goes into each result. Filter, map, and a union in total order."""
    CONVERGENT = "convergent-capable"
    """Nothing in the end: started anywhere with empty state, it gives the same results after a while. Windows by stime:
    they end at multiples of `every` since 1970, wherever reading starts."""
    DETERMINISTIC = "deterministic"
    """The state it started with: alike for equal input from equal state."""
    ARBITRARY = "arbitrary"
    """Time, chance or arrival. Nothing that can be written today is."""


def most_general(classes: Iterable[OperatorClass]) -> OperatorClass:
    """The class of a fragment of such operators."""
    order = list(OperatorClass)
    return max(classes, key=order.index, default=OperatorClass.REPEATABLE)
