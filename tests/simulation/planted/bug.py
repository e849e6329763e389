"""What a planted bug is: a rule of the protocol that is switched off in the product as long as a context lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from borealis_py.query.recovery import ACTIVE
from borealis_py.simulation.runner.generator import draw
from borealis_py.simulation.runner.run import run_scenario
from borealis_py.simulation.runner.scenario import Scenario


def unchanged(scenario: Scenario) -> Scenario:
    return scenario


SOURCES = ("source_cut", "source_failed")
"""What makes replicas diverge."""
ANY = {"safety": ("diverged", "input"), "liveness": (), "quality": ()}
"""What may be found first of a bug of this effect, whatever its rule: replicas that compare what they emitted (R15),
and stop; items told nowhere, or twice, as dead letters.
"""


@dataclass(frozen=True)
class Shown:
    """What a world showed of a bug: the oracle that found it, whether it is an expected one, and what it told."""

    oracle: str
    expected: bool
    told: str


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
        found: the seed whose world shows it, so that no other need be run. `python -m tests.simulation.planted` writes
            it; of a new bug it is 0.

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
    found: int = 0

    @contextmanager
    def planted(self) -> Iterator[None]:
        with self.plant():
            yield

    def shown(self, seed: int) -> Shown | None:
        """What the world of this seed shows of the bug. None: it holds."""
        with self.planted():
            result = run_scenario(self._world(seed), digest=False)
        if result.oracle is None:
            return None
        return Shown(result.oracle, result.oracle in (*self.oracles, *ANY[self.effect]), result.failure())

    def _world(self, seed: int) -> Scenario:
        """Trimmed, and with standbys, only where that shows the bug: elsewhere it might be found by something else."""
        drawn = draw(seed, self.kinds, nodes=self.nodes)
        nodes = tuple(replace(plan, recovery=ACTIVE) for plan in drawn.nodes)
        return self.change(replace(drawn, retain=None, nodes=nodes))
