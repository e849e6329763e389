"""Processes that die, stop, stand still, are doubled, outlive their app, or have a wrong clock (F1, F2, F3, F7, F9,
F13).
"""

from __future__ import annotations

import random
from functools import partial

from borealis_py.log.messages import SourceFailure, encode
from borealis_py.node.starting import may_move
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.simulation.cluster.processes import Machine
from borealis_py.simulation.cluster.roles import ReplicaProcess
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.faults.base import (
    Doing,
    UndoFault,
    again_and_again,
    node_of,
    nothing,
    of_all,
    replica_of,
    source_of,
)
from borealis_py.simulation.log.network import CutDirection, cut_of
from borealis_py.simulation.scenario import SECOND, Fault
from borealis_py.simulation.violation import Violation

DEAF = 4
"""One in so many that a successor might catch up with hears nothing of it."""
BETWEEN_US = 900_000
"""Longest time between two crashes of a loop."""
HOURS = 3_600 * SECOND
"""A wall clock that is further ahead is one that Kafka would not believe."""
LEARN_US = 2 * SECOND
"""Time within which a process that can read all topics knows that they belong to another life, once they are written: a
replica writes as soon as a source may have closed a bucket, and of standbys one as soon as it has started, perhaps
after one that failed.
"""


def _crash(world: SimulatedWorld, fault: Fault) -> UndoFault:
    machine = replica_of(world, fault)
    machine.crash()
    return machine.restart


def _source_crashes(world: SimulatedWorld, fault: Fault) -> UndoFault:
    machine = source_of(world, fault)
    machine.crash()
    return machine.restart


def _crash_loop(world: SimulatedWorld, fault: Fault) -> UndoFault:
    machine = replica_of(world, fault)

    def once(rng: random.Random) -> tuple[UndoFault, int]:
        machine.crash()
        return machine.restart, rng.randrange(1_000, 300_000)

    return again_and_again(world, fault, once, BETWEEN_US)


def _crash_node(world: SimulatedWorld, fault: Fault) -> UndoFault:
    machines = node_of(world, fault)
    for machine in machines:
        machine.crash()
    return of_all(machines, lambda machine: machine.restart())


def _pause(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _standing_still(replica_of(world, fault))


def _source_hangs(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _standing_still(source_of(world, fault))


def _client_pauses(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _standing_still(world.clients)


def _standing_still(machine: Machine) -> UndoFault:
    machine.pause()
    return machine.resume


def _stop(world: SimulatedWorld, fault: Fault) -> UndoFault:
    machine = replica_of(world, fault)
    machine.stop()
    return machine.restart


def _source_stops(world: SimulatedWorld, fault: Fault) -> UndoFault:
    machine = source_of(world, fault)
    machine.stop()
    return machine.restart


def _rolling(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Replicas are stopped and restarted one after the other."""
    machines = node_of(world, fault)
    each_us = max(1, (fault.until_us - fault.at_us) // len(machines))

    def roll(at: int) -> None:
        machines[at].stop()
        world.scheduler.after(each_us * 2 // 3, machines[at].restart)
        if at + 1 < len(machines):
            world.scheduler.after(each_us, partial(roll, at + 1))

    roll(0)
    return nothing


def _zombie(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A successor of the same index starts while the old process continues, unable to read the control log; where a
    successor may be one that moves, mostly able to."""
    machine = replica_of(world, fault)
    deaf = fault.at_us % DEAF == 0 or not may_move(machine.spec)
    cut = cut_of({machine.spec.control_feed.topic} if deaf else ())
    return partial(machine.reunite, machine.double(cut), cut)


def _sleeper(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A successor starts while the old process is paused; it resumes without knowing."""
    machine = replica_of(world, fault)
    return partial(machine.reunite, machine.double(None), None)


def _twins(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """After a crash, two processes of the index start at once: both have the same number until one has read of the
    other. "unheard": one of them cannot while the fault lasts.
    """
    machine = replica_of(world, fault)
    machine.crash()
    machine.restart()
    cut = cut_of({machine.spec.control_feed.topic} if fault.detail else ())
    return partial(machine.reunite, machine.double(cut), cut)


def _source_duel(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A successor starts while the publisher is only cut off; records that it had in flight arrive later, and are
    fenced.
    """
    machine = source_of(world, fault)
    machine.take_over = True
    cut = cut_of()
    return partial(machine.reunite, machine.double(cut), cut)


def _source_deaf(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The same for a publisher that hears nothing but keeps writing: a zombie whose records interleave with the
    successor's.
    """
    machine = source_of(world, fault)
    machine.take_over = True
    cut = cut_of(way=CutDirection.IN)
    return partial(machine.reunite, machine.double(cut), cut)


def _wall_clock(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A replica's wall clock jumps, and later back; hours ahead it stays, and all must end right with it. No promise is
    weaker meanwhile, unless it counts how long a source is to be lost."""
    machine, jump = replica_of(world, fault), int(float(fault.detail) * SECOND)
    counts = any(other.kind in ("source_failed", "source_flaps") for other in world.scenario.faults)

    def move(by: int) -> None:
        machine.skew_us += by
        for process in machine.processes:
            if isinstance(process, ReplicaProcess):
                process.clock.skew_us += by
        if counts:
            (machine.disturb if by == jump else machine.settle)()

    move(jump)
    return nothing if jump > HOURS and not counts else partial(move, -jump)


def _source_clock(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A publisher's clock jumps, and later back: its stimes and boundaries with it."""
    return _source_off(world, fault, int(float(fault.detail) * SECOND))


def _source_off(world: SimulatedWorld, fault: Fault, jump: int) -> UndoFault:
    machine = source_of(world, fault)

    def move(by: int) -> None:
        machine.clock.skew_us += by
        for process in machine.processes:
            process.wake()

    def back() -> None:
        move(-jump)
        world.scheduler.after(abs(jump), machine.settle)

    machine.disturb()
    move(jump)
    return back


def _source_drift(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A publisher's clock runs too fast or too slow for a while, and is corrected at the end."""
    machine, rate = source_of(world, fault), float(fault.detail)
    step_us, drifted, over = 100_000, 0, False
    machine.disturb()

    def drift() -> None:
        nonlocal drifted
        if not over:
            drifted += int(step_us * rate)
            machine.clock.skew_us += int(step_us * rate)
            world.scheduler.after(step_us, drift)

    def back() -> None:
        nonlocal over
        over = True
        machine.clock.skew_us -= drifted
        for process in machine.processes:
            process.wake()
        world.scheduler.after(abs(drifted), machine.settle)

    drift()
    return back


def _source_failed(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A drill: replicas are told not to read the source until a given time."""
    machine = source_of(world, fault)
    until = world.start_us + fault.until_us
    world.put_setting(f"fail/{machine.name}", encode(SourceFailure(until)))
    machine.failed += 1
    world.hooks.look()

    def undo() -> None:
        machine.failed -= 1
        world.hooks.look()

    return undo


def _recovery(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A node is told to recover in another way: each of its replicas begins again once it has read that."""
    node = world.scenario.changed_by(fault)
    if node is not None:
        world.set_way(node, RecoveryPlan(RecoveryWay(fault.detail)))
    return nothing


def _burst(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Tuples come faster for a while; the input contains that from the beginning (`Builder`)."""
    return nothing


def _reset(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The app is begun anew while processes of its previous life continue (`cluster.resets`). The fault is over when
    the survivors that were away meet the recreated topics.
    """
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


FAULTS: dict[str, Doing] = {
    "crash": _crash,
    "crash_loop": _crash_loop,
    "crash_node": _crash_node,
    "source_crashes": _source_crashes,
    "pause": _pause,
    "source_hangs": _source_hangs,
    "client_pauses": _client_pauses,
    "stop": _stop,
    "source_stops": _source_stops,
    "rolling": _rolling,
    "zombie": _zombie,
    "sleeper": _sleeper,
    "twins": _twins,
    "source_duel": _source_duel,
    "source_deaf": _source_deaf,
    "wall_clock": _wall_clock,
    "source_clock": _source_clock,
    "source_drift": _source_drift,
    "source_failed": _source_failed,
    "recovery": _recovery,
    "reset": _reset,
    "burst": _burst,
}
