"""What a bug planted in an ingress is: a rule of it that is switched off in the product as long as a context lasts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from borealis_py.simulation.ingress.scenario import KINDS, draw_ingress
from borealis_py.simulation.ingress.world import run_ingress
from borealis_py.simulation.quiet import quiet
from tests.simulation.planted.bug import Shown


@dataclass(frozen=True)
class IngressBug:
    """A rule switched off, a word of what the oracle says, the fault kinds of the worlds in which it shows, and whether
    users set something in them. `seeds` and `found` are those of `Bug`."""

    rule: str
    plant: Callable[[], AbstractContextManager[object]]
    told: str
    kinds: tuple[str, ...] = KINDS
    settings: bool = False
    seeds: int = 40
    found: int = 0

    def shown(self, seed: int) -> Shown | None:
        """What the world of this seed shows of the bug. None: it holds."""
        scenario = draw_ingress(seed, self.kinds)
        if not self.settings:
            scenario = replace(scenario, settings=(), lasting=None)
        with quiet(), self.plant():
            violations = run_ingress(seed, scenario).violations
        if not violations:
            return None
        return Shown(violations[0], any(self.told in one for one in violations), "\n".join(violations[:3]))
