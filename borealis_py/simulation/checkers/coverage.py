"""Which (transition of a replica, fault class at work) cells a world has been through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from borealis_py.protocol.states import TRANSITIONS, ReplicaState
from borealis_py.simulation.faults.catalogue import CLASSES

AFTERMATH_US = 2_000_000
"""A fault is at work until so long after its end: its consequences are what counts."""

CoverageCell = tuple[str, str, str]
"""From, to, fault class."""

IMPOSSIBLE: dict[CoverageCell, str] = {}
"""Cells that cannot be, with the reason."""


def cells() -> list[CoverageCell]:
    """All there are."""
    return [(a.name, b.name, label) for a, b in TRANSITIONS for label in CLASSES]


class Coverage:
    """Counts cells while a world runs."""

    def __init__(self) -> None:
        self.hits: Counter[CoverageCell] = Counter()
        self._active: Counter[str] = Counter()

    def begin(self, fault_class: str) -> None:
        self._active[fault_class] += 1

    def end(self, fault_class: str) -> None:
        self._active[fault_class] -= 1

    def step(self, before: ReplicaState, after: ReplicaState) -> None:
        """A replica has gone from one state to another."""
        for label, count in self._active.items():
            if count > 0 and label:
                self.hits[before.name, after.name, label] += 1


def missing(hits: Mapping[CoverageCell, int]) -> list[CoverageCell]:
    """Cells that were not hit and are not known to be impossible."""
    return [cell for cell in cells() if not hits.get(cell) and cell not in IMPOSSIBLE]


def total(results: Iterable[Mapping[CoverageCell, int]]) -> Counter[CoverageCell]:
    """Of several worlds."""
    found: Counter[CoverageCell] = Counter()
    for hits in results:
        found.update(hits)
    return found
