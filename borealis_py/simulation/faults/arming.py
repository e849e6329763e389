"""How each kind of fault is inflicted on a world, and undone.

A fault is a function of (world, fault) that inflicts it and returns a function that undoes it. It acts on machines,
links, disks, the log or the settings topic; it touches no product code.
"""

from __future__ import annotations

from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.fault_kinds import KINDS
from borealis_py.simulation.faults import bad_input, broker, network, processes, storage, topics
from borealis_py.simulation.faults.base import Doing
from borealis_py.simulation.faults.coverage import AFTERMATH_US, Coverage
from borealis_py.simulation.faults.failpoints import Failpoints
from borealis_py.simulation.scenario import Fault

FAULTS: dict[str, Doing] = {
    **processes.FAULTS,
    **network.FAULTS,
    **broker.FAULTS,
    **storage.FAULTS,
    **bad_input.FAULTS,
    **topics.FAULTS,
}
assert FAULTS.keys() == KINDS.keys(), FAULTS.keys() ^ KINDS.keys()


def arm(world: SimulatedWorld, fault: Fault, failpoints: Failpoints, coverage: Coverage) -> None:
    """Schedule a fault's beginning and end as in the scenario; an aimed one waits for its failpoint."""
    at = world.start_us + fault.at_us
    if fault.aim is None:
        world.scheduler.at(at, lambda: strike(world, coverage, fault))
    else:
        world.scheduler.at(at, lambda: failpoints.arm(fault, lambda happening: strike(world, coverage, happening)))


def strike(world: SimulatedWorld, coverage: Coverage, fault: Fault) -> None:
    """Inflict a fault now."""
    world.trace("fault", str(fault))
    world.struck.append(fault)
    label = KINDS[fault.kind].fault_class
    coverage.begin(label)
    undo = FAULTS[fault.kind](world, fault)

    def end() -> None:
        undo()
        world.trace("over", f"{fault.kind}({fault.index})")
        world.scheduler.after(AFTERMATH_US, lambda: coverage.end(label))

    world.scheduler.at(world.start_us + fault.until_us, end)
