"""The app is begun anew while processes of its former life live on (F9).

`cluster.resets` does it. This fault is over when those that were away meet the topics that were made again.
"""

from __future__ import annotations

from borealis_py.simulation.checkers.violation import Violation
from borealis_py.simulation.cluster.world import World
from borealis_py.simulation.faults.base import Doing, UndoFault, nothing
from borealis_py.simulation.runner.scenario import SECOND, Fault

LEARN_US = 2 * SECOND
"""Who can read all topics knows within this that they are another life's, where somebody writes into them: a replica
does once a source may have closed a bucket."""


def _reset(world: World, fault: Fault) -> UndoFault:
    past = world.past
    if past is None:
        return nothing

    learn_us = LEARN_US + world.scenario.lag_us

    def must_know() -> None:
        why = past.unaware()
        if why is not None and not world.over:
            raise Violation("life", f"{learn_us / 1e6:g} s after it could, {why}")

    def undo() -> None:
        past.meet()
        if len(world.scenario.faults) == 1:  # nothing else goes wrong: everybody writes
            world.scheduler.after(learn_us, must_know)

    return undo


FAULTS: dict[str, Doing] = {"reset": _reset}
