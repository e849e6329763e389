"""The app is begun anew while processes of its previous life continue (F9).

`cluster.resets` implements it. The fault is over when the survivors that were away meet the recreated topics.
"""

from __future__ import annotations

from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.faults.base import Doing, UndoFault, nothing
from borealis_py.simulation.scenario import SECOND, Fault
from borealis_py.simulation.violation import Violation

LEARN_US = 2 * SECOND
"""Time within which a process that can read all topics knows that they belong to another life, once they are written: a
replica writes as soon as a source may have closed a bucket, and of standbys one as soon as it has started, perhaps
after one that failed.
"""


def _reset(world: SimulatedWorld, fault: Fault) -> UndoFault:
    past = world.past
    if past is None:
        return nothing

    learn_us = LEARN_US + world.scenario.lag_us + 2 * world.scenario.starts_us

    def must_know() -> None:
        why = past.unaware()
        if why is not None and not world.over:
            raise Violation("life", f"{learn_us / 1e6:g} s after it could, {why}")

    def undo() -> None:
        past.meet()
        if len(world.scenario.faults) == 1:  # nothing else goes wrong: every process writes
            world.scheduler.after(learn_us, must_know)

    return undo


FAULTS: dict[str, Doing] = {"reset": _reset}
