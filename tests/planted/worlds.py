"""Simulated worlds that show a planted bug, and by which of their oracles."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from borealis_py.query.recovery import ACTIVE
from borealis_py.simulation.ingress.scenario import KINDS, draw_ingress
from borealis_py.simulation.ingress.world import run_ingress
from borealis_py.simulation.runner.generator import draw
from borealis_py.simulation.runner.run import run_scenario
from borealis_py.simulation.scenario import Scenario

SOURCES = ("source_cut", "source_failed")
"""What makes replicas diverge."""
HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
MISFITS = ("AttributeError", "NameError", "TypeError")
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


def unchanged(scenario: Scenario) -> Scenario:
    return scenario


@dataclass(frozen=True)
class Worlds:
    """Worlds of replicas.

    Attributes:
        kinds: faults that bring it out, so that few seeds are needed (empty: all).
        oracles: which of them may be the one to find it; none: the bug breaks no promise, and the worlds hold.
        found: the seed whose world shows it, so that no other need be run: `python -m tests.planted --rewrite` writes
            it. 0: of a new bug, and where the worlds hold.
        seeds: in how many worlds at most. nodes: of how many nodes (None: as drawn).
        change: makes each world one where it shows.
    """

    kinds: tuple[str, ...]
    oracles: tuple[str, ...]
    found: int = 0
    seeds: int = 12
    nodes: int | None = 1
    change: Callable[[Scenario], Scenario] = unchanged

    def shown(self, seed: int, effect: str) -> Shown | None:
        """What the world of this seed shows of a bug of this effect, which is planted. None: it holds."""
        result = run_scenario(self._world(seed), digest=False)
        if result.oracle is None:
            return None
        expected = result.oracle in (*self.oracles, *ANY[effect]) and not _misfits(result.detail)
        return Shown(result.oracle, expected, result.failure())

    def _world(self, seed: int) -> Scenario:
        """Trimmed, and with standbys, only where that shows the bug: elsewhere it might be found by something else."""
        drawn = draw(seed, self.kinds, nodes=self.nodes)
        nodes = tuple(replace(plan, recovery=ACTIVE) for plan in drawn.nodes)
        return self.change(replace(drawn, retain=None, nodes=nodes))


def _misfits(detail: str) -> bool:
    """Whether an exception says that a patch does not fit the product any more: then it is not the rule that is off."""
    error, _, _ = detail.partition("\n")
    if not error.startswith(MISFITS):
        return False
    files = [Path(file) for file in re.findall(r'File "([^"]+)"', detail)]
    ours = [file for file in files if file.is_relative_to(ROOT) and ".venv" not in file.parts]
    return "<locals>" in error or (bool(ours) and ours[-1].is_relative_to(HERE))


@dataclass(frozen=True)
class IngressWorlds:
    """Worlds of ingresses. `told`: a part of what the oracle says; `settings`: users set something in them;
    `made_again`: their topics may be made again; `jumps`: their clocks may jump; `kinds`, `found` and `seeds` as above.
    """

    told: str
    kinds: tuple[str, ...] = KINDS
    found: int = 0
    settings: bool = False
    made_again: bool = False
    jumps: bool = False
    seeds: int = 40

    @property
    def oracles(self) -> tuple[str, ...]:
        return (self.told,)

    def shown(self, seed: int, effect: str) -> Shown | None:
        """What the world of this seed shows of a bug, which is planted. None: it holds."""
        scenario = draw_ingress(seed, self.kinds)
        if not self.settings:
            scenario = replace(scenario, settings=(), lasting=None)
        if not self.made_again:
            scenario = replace(scenario, made_again=None)
        if not self.jumps:
            scenario = replace(scenario, jumps=())
        violations = run_ingress(seed, scenario).violations
        if not violations:
            return None
        return Shown(violations[0], any(self.told in one for one in violations), "\n".join(violations[:3]))
