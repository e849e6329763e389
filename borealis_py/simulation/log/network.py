"""The link between one client and the simulated log: cuts, their directions, and latencies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from borealis_py.simulation.latency import Latencies


class CutDirection(Enum):
    """Directions of a cut, as the client sees them."""

    BOTH = "both"
    OUT = "what it sends does not leave"
    IN = "nothing comes to it, not even an answer"


@dataclass(frozen=True, eq=False, slots=True)
class Cut:
    """Cut off from `topics` (None: from all; `but`: from all others), in one direction or both."""

    topics: frozenset[str] | None = None
    way: CutDirection = CutDirection.BOTH
    but: bool = False

    def blocks(self, topic: str | None, out: bool) -> bool:
        """Whether a message about `topic` (None: about the log as a whole) cannot pass, out or in."""
        if self.way is (CutDirection.IN if out else CutDirection.OUT):
            return False
        if self.topics is None:
            return True
        return (topic in self.topics) is not self.but


def cut_of(topics: Collection[str] | None = None, way: CutDirection = CutDirection.BOTH, but: bool = False) -> Cut:
    """A distinct cut: two equal ones are still two."""
    return Cut(None if topics is None else frozenset(topics), way, but)


class Link:
    """One client name's link to the log; it outlives the client."""

    __slots__ = ("_base", "_slow", "cuts", "delays")

    def __init__(self, delays: Latencies) -> None:
        self.cuts: list[Cut] = []
        self.delays = delays
        self._base = delays
        self._slow: list[Latencies] = []

    def sends(self, topic: str | None) -> bool:
        """Whether the client's requests about this topic arrive."""
        return not self.cuts or not any(cut.blocks(topic, True) for cut in self.cuts)

    def hears(self, topic: str | None) -> bool:
        """Whether the log's answers and records arrive."""
        return not self.cuts or not any(cut.blocks(topic, False) for cut in self.cuts)

    def reaches(self, topic: str | None) -> bool:
        """Whether a request and its answer arrive."""
        return not self.cuts or (self.sends(topic) and self.hears(topic))

    def slow(self, delays: Latencies) -> None:
        """Set the latencies from now on, until `fast` with the same ones."""
        self._slow.append(delays)
        self.delays = delays

    def fast(self, delays: Latencies) -> None:
        self._slow = [d for d in self._slow if d is not delays]
        self.delays = self._slow[-1] if self._slow else self._base
