"""Links that are cut, one-way, slow, lossy, throttled or clogged (F4, F5, F6, F10, F13)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from borealis_py.log.base import NewRecord
from borealis_py.log.records import BatchHeader, EnvelopeError, pack, unpack_source
from borealis_py.simulation.cluster.processes import Machine
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.faults.base import (
    Doing,
    UndoFault,
    again_and_again,
    chance,
    node_of,
    of_all,
    replica_of,
    some,
    source_of,
)
from borealis_py.simulation.latency import Delay, Latencies, between
from borealis_py.simulation.log.network import Cut, CutDirection, cut_of
from borealis_py.simulation.scenario import Fault

_THROTTLED_US = 1_000_000
_THROTTLED = between(300_000, _THROTTLED_US)


def _cut(machines: Sequence[Machine], cut: Cut) -> UndoFault:
    for machine in machines:
        machine.cut(cut)
    return of_all(machines, lambda machine: machine.mend(cut))


def _cut_replica(world: SimulatedWorld, fault: Fault) -> UndoFault:
    machine = replica_of(world, fault)
    spec = machine.spec
    control = {spec.control_feed.topic}
    makes: dict[str, Callable[[], Cut]] = {
        "cut_all": lambda: cut_of(),
        "cut_control": lambda: cut_of(control),
        "cut_but_control": lambda: cut_of(control, but=True),
        "cut_own": lambda: cut_of({spec.own_feeds[0].topic}),
        "cut_input": lambda: cut_of(machine.input_topics(int(fault.detail or 0) % len(spec.inputs))),
        "cut_corrected": lambda: cut_of(machine.corrected),
        "cut_some": lambda: cut_of(some(machine.topics, chance(world, fault))),
        "one_way": lambda: cut_of(None, CutDirection.IN if fault.detail == "in" else CutDirection.OUT),
        "beats_lost": lambda: cut_of(control, CutDirection.OUT),
    }
    return _cut([machine], makes[fault.kind]())


def _cut_node(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _cut(node_of(world, fault), cut_of())


def _source_cut(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _cut([source_of(world, fault)], cut_of())


def _broker_gone(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _cut([*world.sources, *world.replicas, world.clients], cut_of())


def _resets(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The connection breaks repeatedly: records in flight wait, and commits get no answer."""
    return _off_and_on(world, fault, replica_of(world, fault), (20_000, 250_000), 700_000)


def _source_flaps(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Cut off and reconnected, faster than any timeout."""
    return _off_and_on(world, fault, source_of(world, fault), (50_000, 600_000), 400_000)


def _off_and_on(
    world: SimulatedWorld, fault: Fault, machine: Machine, lasts_us: tuple[int, int], pause_us: int
) -> UndoFault:
    def once(rng: random.Random) -> tuple[UndoFault, int]:
        cut = cut_of()
        machine.cut(cut)
        return partial(machine.mend, cut), rng.randrange(*lasts_us)

    return again_and_again(world, fault, once, pause_us)


def _slowed(
    world: SimulatedWorld, machine: Machine, make: Callable[[Latencies], Latencies], on_its_way_us: int = 0
) -> UndoFault:
    """`on_its_way_us`: how long answers are still on their way when it is over."""
    slow = make(world.scenario.latencies)
    machine.disturb()
    names = [process.name for process in machine.processes]
    for name in names:
        world.log.link(name).slow(slow)

    def undo() -> None:
        for name in names:
            world.log.link(name).fast(slow)
        if on_its_way_us:
            world.scheduler.after(on_its_way_us, machine.settle)
        else:
            machine.settle()

    return undo


def _quota(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The broker throttles: every answer waits, up to a second."""
    return _slowed(world, replica_of(world, fault), lambda d: _every(d, _THROTTLED), _THROTTLED_US)


def _source_quota(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _slowed(world, source_of(world, fault), lambda d: _every(d, _THROTTLED), _THROTTLED_US)


def _every(delays: Latencies, one: Delay) -> Latencies:
    return Latencies(append=one, ack=one, fetch=one, ends=one, fence=delays.fence, commit=one)


def _loss(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """One message in five is sent again, after 0.2 or 0.6 s."""

    def lossy(usual: Delay) -> Delay:
        return lambda rng: usual(rng) + (rng.choice((200_000, 200_000, 600_000)) if rng.random() < 0.2 else 0)

    return _slowed(world, replica_of(world, fault), lambda d: _every(d, lossy(d.append)))


def _slow(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _slowed(world, replica_of(world, fault), lambda d: _every(d, between(30_000, 150_000)))


def _source_slow(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _slowed(world, source_of(world, fault), lambda d: _every(d, between(50_000, 500_000)))


def _reorder(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Every message has its own latency: topics overtake each other."""
    return _slowed(world, replica_of(world, fault), lambda d: _every(d, between(200, 120_000)))


def _clogged(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Nothing passes, then everything at once."""
    machine = replica_of(world, fault)
    machine.disturb()
    undo = _cut([machine], cut_of(None, CutDirection.IN))

    def release() -> None:
        undo()
        machine.settle()

    return release


def _late_requests(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The process dies, and the records it had sent arrive much later."""
    machine = replica_of(world, fault)
    for process in machine.processes:
        world.log.late(process.name, 3_000_000)
    machine.crash()
    return machine.restart


def _source_mute(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Its boundaries are lost, but not its tuples."""
    machine = source_of(world, fault)
    machine.disturb()
    world.log.alter(machine.feed, _without_boundary)

    def undo() -> None:
        world.log.alter(machine.feed, None)
        machine.settle()

    return undo


def _without_boundary(record: NewRecord) -> NewRecord:
    try:
        header, payload = unpack_source(record.value)
    except EnvelopeError:
        return record
    if not isinstance(header, BatchHeader):
        return record
    mute = msgspec.structs.replace(header, boundary=None)
    return type(record)(record.feed, pack(mute, bytes(payload)), record.key, record.timestamp_ms, record.headers)


FAULTS: dict[str, Doing] = {
    "cut_all": _cut_replica,
    "cut_control": _cut_replica,
    "cut_but_control": _cut_replica,
    "cut_own": _cut_replica,
    "cut_input": _cut_replica,
    "cut_corrected": _cut_replica,
    "cut_some": _cut_replica,
    "one_way": _cut_replica,
    "beats_lost": _cut_replica,
    "cut_node": _cut_node,
    "source_cut": _source_cut,
    "broker_gone": _broker_gone,
    "quota": _quota,
    "source_quota": _source_quota,
    "resets": _resets,
    "loss": _loss,
    "slow": _slow,
    "source_slow": _source_slow,
    "source_flaps": _source_flaps,
    "reorder": _reorder,
    "clogged": _clogged,
    "late_requests": _late_requests,
    "source_mute": _source_mute,
}
