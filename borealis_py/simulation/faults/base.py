"""Shared by all faults: resolving the target machine, and repeating an action."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from borealis_py.simulation.cluster.machines import ReplicaMachine, SourceMachine
from borealis_py.simulation.cluster.processes import Machine
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.scenario import Fault

UndoFault = Callable[[], object]
Doing = Callable[["SimulatedWorld", Fault], UndoFault]


def replica_of(world: SimulatedWorld, fault: Fault) -> ReplicaMachine:
    """The target replica, counted through all nodes."""
    return world.replicas[fault.index % len(world.replicas)]


def node_of(world: SimulatedWorld, fault: Fault) -> list[ReplicaMachine]:
    """The replicas of the target node."""
    return world.of_node(world.scenario.nodes[fault.index % len(world.scenario.nodes)].name)


def source_of(world: SimulatedWorld, fault: Fault) -> SourceMachine:
    """The target source."""
    return world.sources[fault.index % len(world.sources)]


def chance(world: SimulatedWorld, fault: Fault) -> random.Random:
    """This fault's own random generator, so that removing another fault does not change its draws."""
    return random.Random(f"{fault.kind} {world.scenario.seed} {fault.at_us}")


def again_and_again(
    world: SimulatedWorld, fault: Fault, do: Callable[[random.Random], tuple[UndoFault, int]], pause_us: int
) -> UndoFault:
    """Repeat `do` until the fault ends, with pauses. `do` begins something and returns (how to end it, how long it
    lasts).
    """
    rng = chance(world, fault)
    over = False
    ends: list[UndoFault] = []

    def begin() -> None:
        if over:
            return
        undo, lasts_us = do(rng)
        ends.append(undo)
        world.scheduler.after(lasts_us, finish)

    def finish() -> None:
        while ends:
            ends.pop()()
        world.scheduler.after(1 + rng.randrange(pause_us), begin)

    def end() -> None:
        nonlocal over
        over = True
        while ends:
            ends.pop()()

    begin()
    return end


def of_all(machines: Sequence[Machine], do: Callable[[Machine], object]) -> UndoFault:
    """Apply the action to each machine."""

    def all_of_them() -> None:
        for machine in machines:
            do(machine)

    return all_of_them


def disturbed(machines: Sequence[Machine]) -> UndoFault:
    """Something is wrong on these machines from now on, until the result is called."""
    for machine in machines:
        machine.disturb()
    return of_all(machines, lambda machine: machine.settle())


def nothing() -> None:
    """Undo nothing."""


def some(topics: frozenset[str], rng: random.Random) -> frozenset[str]:
    """About half of them, in an order that does not depend on hashes."""
    return frozenset(t for t in sorted(topics) if rng.random() < 0.5)
