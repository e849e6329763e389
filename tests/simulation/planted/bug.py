"""What a planted bug is: a rule of the protocol that is switched off in the product as long as a context lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from borealis_py.simulation.runner.scenario import Scenario


def unchanged(scenario: Scenario) -> Scenario:
    return scenario


SOURCES = ("source_cut", "source_failed")
"""What makes replicas diverge."""


@dataclass(frozen=True)
class Bug:
    """A rule, how to switch it off, and what that should look like.

    Attributes:
        effect: what suffers: "safety" (what is called stable), "liveness" (it comes too late or never), "quality" (it
            could be better).
        kinds: faults that bring it out, so that few seeds are needed (empty: all).
        oracles: which of them may be the one to find it.
        seeds: in how many worlds at most. nodes: of how many nodes (None: as drawn).
        change: makes each world one where it shows.

    A bug of quality without oracles breaks no promise: a few worlds must hold.
    """

    rule: str
    effect: str
    plant: Callable[[], Any]
    kinds: tuple[str, ...]
    oracles: tuple[str, ...]
    seeds: int = 12
    nodes: int | None = 1
    change: Callable[[Scenario], Scenario] = unchanged

    @contextmanager
    def planted(self) -> Iterator[None]:
        with self.plant():
            yield
