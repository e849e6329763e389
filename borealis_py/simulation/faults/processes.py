"""Processes that die, stop, stand still, are doubled, or have a wrong clock (F1, F2, F3, F7, F9, F13)."""

from __future__ import annotations

import random
from functools import partial

from borealis_py.log.messages import SourceFailure, encode
from borealis_py.simulation.cluster.processes import Seat
from borealis_py.simulation.cluster.roles import ReplicaProcess
from borealis_py.simulation.cluster.world import World
from borealis_py.simulation.faults.base import (
    Doing,
    Undo,
    again_and_again,
    node_of,
    nothing,
    of_all,
    replica_of,
    source_of,
)
from borealis_py.simulation.log.network import Way, cut_of
from borealis_py.simulation.runner.scenario import SECOND, Fault

BETWEEN_US = 900_000
"""Longest time between two crashes of a loop."""


def _crash(world: World, fault: Fault) -> Undo:
    seat = replica_of(world, fault)
    seat.crash()
    return seat.restart


def _source_crashes(world: World, fault: Fault) -> Undo:
    seat = source_of(world, fault)
    seat.crash()
    return seat.restart


def _crash_loop(world: World, fault: Fault) -> Undo:
    seat = replica_of(world, fault)

    def once(rng: random.Random) -> tuple[Undo, int]:
        seat.crash()
        return seat.restart, rng.randrange(1_000, 300_000)

    return again_and_again(world, fault, once, BETWEEN_US)


def _crash_node(world: World, fault: Fault) -> Undo:
    seats = node_of(world, fault)
    for seat in seats:
        seat.crash()
    return of_all(seats, lambda seat: seat.restart())


def _pause(world: World, fault: Fault) -> Undo:
    return _standing_still(replica_of(world, fault))


def _source_hangs(world: World, fault: Fault) -> Undo:
    return _standing_still(source_of(world, fault))


def _client_pauses(world: World, fault: Fault) -> Undo:
    return _standing_still(world.clients)


def _standing_still(seat: Seat) -> Undo:
    seat.pause()
    return seat.resume


def _stop(world: World, fault: Fault) -> Undo:
    seat = replica_of(world, fault)
    seat.stop()
    return seat.restart


def _source_stops(world: World, fault: Fault) -> Undo:
    seat = source_of(world, fault)
    seat.stop()
    return seat.restart


def _rolling(world: World, fault: Fault) -> Undo:
    """One replica after the other is stopped and started again."""
    seats = node_of(world, fault)
    each_us = max(1, (fault.until_us - fault.at_us) // len(seats))

    def roll(at: int) -> None:
        seats[at].stop()
        world.scheduler.after(each_us * 2 // 3, seats[at].restart)
        if at + 1 < len(seats):
            world.scheduler.after(each_us, partial(roll, at + 1))

    roll(0)
    return nothing


def _zombie(world: World, fault: Fault) -> Undo:
    """A successor of the same index starts while the old process only cannot read the control log, and goes on."""
    seat = replica_of(world, fault)
    cut = cut_of({seat.spec.control_feed.topic})
    return partial(seat.reunite, seat.double(cut), cut)


def _sleeper(world: World, fault: Fault) -> Undo:
    """A successor starts while the old process is stopped; it wakes up again, and does not know."""
    seat = replica_of(world, fault)
    return partial(seat.reunite, seat.double(None), None)


def _twins(world: World, fault: Fault) -> Undo:
    """After a crash two processes of the index start in one instant: one number is both theirs until one of them has
    read of the other. "unheard": one of them cannot for as long as the fault lasts.
    """
    seat = replica_of(world, fault)
    seat.crash()
    seat.restart()
    cut = cut_of({seat.spec.control_feed.topic} if fault.detail else ())
    return partial(seat.reunite, seat.double(cut), cut)


def _source_duel(world: World, fault: Fault) -> Undo:
    """A successor starts while the publisher is only cut off; what that had on its way lands later, and is fenced."""
    seat = source_of(world, fault)
    seat.take_over = True
    cut = cut_of()
    return partial(seat.reunite, seat.double(cut), cut)


def _source_deaf(world: World, fault: Fault) -> Undo:
    """The same of one that hears nothing and writes on: a zombie between whose records the successor's lie."""
    seat = source_of(world, fault)
    seat.take_over = True
    cut = cut_of(way=Way.IN)
    return partial(seat.reunite, seat.double(cut), cut)


def _wall_clock(world: World, fault: Fault) -> Undo:
    """A replica's wall clock jumps, and back."""
    seat, jump = replica_of(world, fault), int(float(fault.detail) * SECOND)

    def move(by: int) -> None:
        seat.skew_us += by
        for process in seat.processes:
            if isinstance(process, ReplicaProcess):
                process.clock.skew_us += by
        (seat.disturb if by == jump else seat.settle)()

    move(jump)
    return partial(move, -jump)


def _source_clock(world: World, fault: Fault) -> Undo:
    """A publisher's clock jumps, and back: its stimes and boundaries with it."""
    return _source_off(world, fault, int(float(fault.detail) * SECOND))


def _source_off(world: World, fault: Fault, jump: int) -> Undo:
    seat = source_of(world, fault)

    def move(by: int) -> None:
        seat.clock.skew_us += by
        for process in seat.processes:
            process.wake()

    def back() -> None:
        move(-jump)
        world.scheduler.after(abs(jump), seat.settle)

    seat.disturb()
    move(jump)
    return back


def _source_drift(world: World, fault: Fault) -> Undo:
    """A publisher's clock runs too fast or too slow for a while, and is set right in the end."""
    seat, rate = source_of(world, fault), float(fault.detail)
    step_us, drifted, over = 100_000, 0, False
    seat.disturb()

    def drift() -> None:
        nonlocal drifted
        if not over:
            drifted += int(step_us * rate)
            seat.clock.skew_us += int(step_us * rate)
            world.scheduler.after(step_us, drift)

    def back() -> None:
        nonlocal over
        over = True
        seat.clock.skew_us -= drifted
        for process in seat.processes:
            process.wake()
        world.scheduler.after(abs(drifted), seat.settle)

    drift()
    return back


def _source_failed(world: World, fault: Fault) -> Undo:
    """The drill: replicas are told not to read the source until a time."""
    seat = source_of(world, fault)
    until = world.start_us + fault.until_us
    world.put_setting(f"fail/{seat.name}", encode(SourceFailure(until)))
    seat.failed += 1
    world.hooks.look()

    def undo() -> None:
        seat.failed -= 1
        world.hooks.look()

    return undo


def _burst(world: World, fault: Fault) -> Undo:
    """Tuples come faster for a while: the input has it from the beginning (`Wiring`)."""
    return nothing


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
    "burst": _burst,
}
