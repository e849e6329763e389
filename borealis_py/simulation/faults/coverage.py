"""Which cells (transition of a replica, active fault class) a world has covered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from borealis_py.protocol.states import TRANSITIONS, ReplicaState
from borealis_py.simulation.fault_kinds import CLASSES

AFTERMATH_US = 2_000_000
"""A fault counts as active until this long after its end: its consequences matter."""

CoverageCell = tuple[str, str, str]
"""From, to, fault class."""

IMPOSSIBLE: dict[CoverageCell, str] = {}
"""Cells that cannot occur, with the reason."""


def cells() -> list[CoverageCell]:
    """All cells."""
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
        """Count a replica's state transition."""
        for label, count in self._active.items():
            if count > 0 and label:
                self.hits[before.name, after.name, label] += 1


def covered(hits: Mapping[CoverageCell, int]) -> int:
    """How many cells were hit."""
    return sum(1 for cell in cells() if hits.get(cell))


def missing(hits: Mapping[CoverageCell, int]) -> list[CoverageCell]:
    """Cells that were not hit and are not known to be impossible."""
    return [cell for cell in cells() if not hits.get(cell) and cell not in IMPOSSIBLE]


def total(results: Iterable[Mapping[CoverageCell, int]]) -> Counter[CoverageCell]:
    """The sum over several worlds."""
    found: Counter[CoverageCell] = Counter()
    for hits in results:
        found.update(hits)
    return found
