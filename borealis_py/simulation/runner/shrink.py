"""Makes a scenario smaller, by edits that fit on a command line, to reproduce a shrunk failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from borealis_py.simulation.scenario import SECOND, Scenario

LEAST_S = 3.0


@dataclass(frozen=True, slots=True)
class Edits:
    """What is kept of a scenario.

    Attributes:
        keep: only these faults (None: all).
        brief: fraction of each fault's duration.
        replicas: maximum number per node (None: as drawn).
        heal_s: when it heals (None: as drawn).
    """

    keep: tuple[int, ...] | None = None
    brief: float = 1.0
    replicas: int | None = None
    heal_s: float | None = None

    def apply(self, scenario: Scenario) -> Scenario:
        """The smaller scenario."""
        keep = range(len(scenario.faults)) if self.keep is None else self.keep
        heal_us = scenario.heal_us if self.heal_s is None else int(self.heal_s * SECOND)
        faults = [scenario.faults[i] for i in keep if i < len(scenario.faults)]
        short = [replace(f, until_us=f.at_us + int((f.until_us - f.at_us) * self.brief)) for f in faults]
        capped = tuple(replace(f, until_us=max(f.at_us, min(f.until_us, heal_us))) for f in short)
        nodes = tuple(replace(n, replicas=min(n.replicas, self.replicas or n.replicas)) for n in scenario.nodes)
        lost = scenario.lost if self.replicas is None else ()
        return replace(scenario, faults=capped, heal_us=heal_us, nodes=nodes, lost=lost)

    def options(self) -> str:
        """As options of `borealis sim`."""
        parts = []
        if self.keep is not None:
            parts.append(f"--keep {','.join(map(str, self.keep)) or 'none'}")
        if self.brief != 1.0:
            parts.append(f"--brief {self.brief:g}")
        if self.replicas is not None:
            parts.append(f"--most-replicas {self.replicas}")
        if self.heal_s is not None:
            parts.append(f"--heal {self.heal_s:g}")
        return " ".join(parts)


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], before: Edits | None = None) -> Edits:
    """The smallest scenario that still fails: fewer faults (halves first, then one by one), fewer replicas, shorter
    faults, an earlier end.

    Args:
        fails: whether it fails in the same way as before. before: edits already applied.
    """
    best = before or Edits()

    def try_(candidate: Edits) -> bool:
        nonlocal best
        if candidate != best and fails(candidate.apply(scenario)):
            best = candidate
            return True
        return False

    faults = list(range(len(scenario.faults))) if best.keep is None else list(best.keep)
    best = replace(best, keep=_fewer(faults, lambda keep: try_(replace(best, keep=tuple(keep)))))
    for count in (1, 2):
        if count < max(n.replicas for n in best.apply(scenario).nodes) and try_(replace(best, replicas=count)):
            break
    for brief in (0.25, 0.5):
        if try_(replace(best, brief=best.brief * brief)):
            break
    small = best.apply(scenario)
    last = max((f.until_us if f.aim is None else small.heal_us for f in small.faults), default=0)
    for after_s in (0.5, 2.0):
        heal_s = round(max(LEAST_S, last / SECOND + after_s), 1)
        if heal_s < small.heal_us / SECOND and try_(replace(best, heal_s=heal_s)):
            break
    return best


def _fewer(faults: list[int], fails: Callable[[list[int]], bool]) -> tuple[int, ...]:
    """Zeller's ddmin, greedy: leave out halves, quarters, ... as long as it still fails."""
    size = max(1, len(faults) // 2)
    while faults:
        left = False
        for start in range(len(faults) - size, -1, -size) or [0]:
            rest = faults[:start] + faults[start + size :]
            if fails(rest):
                faults, left = rest, True
                break
        if not left:
            if size == 1:
                break
            size = max(1, size // 2)
        else:
            size = min(size, max(1, len(faults)))
    return tuple(faults)
