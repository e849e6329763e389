"""Disks, redo jobs and retention (F8, F9, F10, F12)."""

from __future__ import annotations

from borealis_py.client.tail import fold_at_end
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.description import Life
from borealis_py.log.source_tail import TailEntry, entry_of
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.checkpoints import File
from borealis_py.simulation.cluster.machines import ReplicaMachine, SourceMachine
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.faults.base import Doing, UndoFault, chance, node_of, nothing, replica_of, source_of
from borealis_py.simulation.scenario import Fault
from borealis_py.simulation.toy_query import QUERY


def _disk_full(world: SimulatedWorld, fault: Fault) -> UndoFault:
    disk = replica_of(world, fault).disk
    disk.broken += 1

    def undo() -> None:
        disk.broken -= 1

    return undo


def _disk_torn(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The machine crashes, and its newest checkpoint turns out to be truncated, or the base that it builds on."""
    machine = replica_of(world, fault)
    machine.crash()
    machine.disk.tear(a_base=fault.detail == "base")
    return machine.restart


def _disk_zombie(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A process that was replaced overwrites its successor's checkpoints with its own."""
    machine = replica_of(world, fault)
    old = list(machine.disk.files.values())
    machine.crash()

    def undo() -> None:
        machine.restart()
        machine.disk.put_back(old)

    return undo


def _redos(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _mode([replica_of(world, fault)], fault.detail)


def _redo_zombie(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Redo jobs answer late, even after they were cancelled."""
    return _mode(node_of(world, fault), "late")


def _mode(machines: list[ReplicaMachine], mode: str) -> UndoFault:
    for machine in machines:
        machine.spark.modes.append(mode)

    def undo() -> None:
        for machine in machines:
            machine.spark.modes.remove(mode)

    return undo


def _jvm(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The JVM dies: running jobs are lost, and every job fails until it is back."""
    machines = node_of(world, fault)
    for machine in machines:
        machine.spark.gone += 1

    def undo() -> None:
        for machine in machines:
            machine.spark.gone -= 1

    return undo


def _kernel(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The engine fails, and no row is to blame: now and then, or at every step."""
    engine, share = replica_of(world, fault).engine, 1.0 if fault.detail == "always" else 0.05
    engine.shares.append(share)

    def undo() -> None:
        engine.shares.remove(share)

    return undo


def _trim(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Correct retention: it deletes what no process can need any more."""
    log, wiring = world.log, world.wiring
    for source in world.sources:
        marks = [_mark(world, machine, source.name) for machine in world.replicas if _reads(machine, source.name)]
        if marks and min(marks) > 0:
            log.delete_before(source.feed, min(min(marks), _determined(world, source)))
    for plan in world.scenario.nodes:
        bucket = min(_needed(world, plan.name), world.progress(plan.name))
        for k in range(plan.replicas):
            for feed in topics.own_feeds(APP, plan.name, k, plan.exchange):
                at = log.broker.partition(feed).find(wiring.buckets.timestamp_ms(max(world.origin, bucket - 1)))
                log.delete_before(feed, at)
    return nothing


def _reads(machine: ReplicaMachine, source: str) -> bool:
    return any(of.name == source and not of.replicas for of in machine.spec.inputs)


def _mark(world: SimulatedWorld, machine: ReplicaMachine, source: str) -> int:
    """The lowest offset of this source from which a checkpoint of this replica resumes."""
    sources = [of.name for of in machine.spec.inputs if not of.replicas]
    return min((file.marks[sources.index(source)].offset for file in _sound(world, machine)), default=0)


def _oldest(world: SimulatedWorld, machine: ReplicaMachine) -> int:
    """The lowest bucket from which a checkpoint of this replica resumes."""
    return min((file.bucket for file in _sound(world, machine)), default=world.origin)


def _sound(world: SimulatedWorld, machine: ReplicaMachine) -> list[File]:
    """Checkpoints to rely on: none if the torn ones of this world might be all there are."""
    tears = sum(f.kind == "disk_torn" for f in world.scenario.faults)
    found = machine.disk.starts
    return found if len(found) > tears else []


def _needed(world: SimulatedWorld, node: str) -> int:
    """The lowest bucket of a node's stream that a process may still need."""
    readers = [machine for machine in world.replicas if any(of.name == node for of in machine.spec.inputs)]
    found = [_oldest(world, machine) for machine in (*readers, *world.of_node(node))]
    if node == QUERY:
        found.append(world.picture.stable)
        late = world.latecomer
        found.append(max(world.origin, world.picture.stable - world.scenario.late_by) if late is None else late.stable)
    return min(found)


def _last(world: SimulatedWorld, feed: Feed) -> int:
    """The offset of the last record: a source keeps at least that."""
    return max(0, world.log.broker.partition(feed).stable_end - 1)


def _determined(world: SimulatedWorld, source: SourceMachine) -> int:
    """The highest offset from which the log tells the next publisher how far its source was published."""
    partition, life = world.log.broker.partition(source.feed), Life(world.wiring.app_uid)
    entries: list[TailEntry] = []
    for begin in range(partition.stable_end - 1, partition.start - 1, -1):
        found = (entry_of(record, life) for record in partition.read(begin, begin + 1))
        entries = [*(entry for entry in found if entry is not None), *entries]
        if fold_at_end(entries, begin, world.wiring.target(source.index)) is not None:
            return begin
    return partition.start


def _retention(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Some replicas stand still, and retention deletes the source's records that they have not read yet."""
    source = source_of(world, fault)
    rng = chance(world, fault)
    readers = [machine for machine in world.replicas if _reads(machine, source.name)]
    still = [machine for machine in readers if rng.random() < 0.6] or readers[:1]
    for machine in still:
        machine.pause()

    def undo() -> None:
        world.log.delete_before(source.feed, _last(world, source.feed))
        for machine in still:
            machine.resume()

    return undo


FAULTS: dict[str, Doing] = {
    "disk_full": _disk_full,
    "disk_torn": _disk_torn,
    "disk_zombie": _disk_zombie,
    "redos": _redos,
    "redo_zombie": _redo_zombie,
    "jvm": _jvm,
    "kernel": _kernel,
    "trim": _trim,
    "retention": _retention,
}
