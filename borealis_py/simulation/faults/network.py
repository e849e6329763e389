"""Links that are cut, one-way, slow, lossy, or clogged, and a log that refuses or does not answer (F4, F5, F6, F10,
F11, F13).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from functools import partial

import msgspec

from borealis_py.log.base import NewRecord
from borealis_py.log.records import BatchHeader, EnvelopeError, pack, unpack_source
from borealis_py.log.topics import transactional_id
from borealis_py.simulation.cluster.processes import Machine
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.faults.base import (
    Doing,
    UndoFault,
    again_and_again,
    chance,
    disturbed,
    node_of,
    nothing,
    of_all,
    replica_of,
    source_of,
)
from borealis_py.simulation.latency import Delay, Latencies, between
from borealis_py.simulation.log.broker import Partition
from borealis_py.simulation.log.connection import Refusal
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
        "cut_some": lambda: cut_of(_some(machine.topics, chance(world, fault))),
        "one_way": lambda: cut_of(None, CutDirection.IN if fault.detail == "in" else CutDirection.OUT),
        "beats_lost": lambda: cut_of(control, CutDirection.OUT),
    }
    return _cut([machine], makes[fault.kind]())


def _some(topics: frozenset[str], rng: random.Random) -> frozenset[str]:
    return frozenset(t for t in sorted(topics) if rng.random() < 0.5)


def _cut_node(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _cut(node_of(world, fault), cut_of())


def _source_cut(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _cut([source_of(world, fault)], cut_of())


def _broker_gone(world: SimulatedWorld, fault: Fault) -> UndoFault:
    return _cut([*world.sources, *world.replicas, world.clients], cut_of())


def _leader(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Some topics lose their leader for a while: appends wait, and reads return nothing."""
    rng = chance(world, fault)
    topics = _some(_topics(world), rng)
    settle = disturbed([*world.sources, *world.replicas])
    world.log.depose(sorted(topics))

    def undo() -> None:
        world.log.elect(sorted(topics))
        settle()

    return undo


def _lagging(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The followers of some topics fall behind; "truncated": they become leaders in the end."""
    topics = _some(_topics(world), chance(world, fault))
    truncated = fault.detail == "truncated"
    if truncated:
        topics &= _sent(world)
    settle = disturbed([*world.sources, *world.replicas])
    release = world.log.hold(sorted(topics))

    def undo() -> None:
        release(truncated)
        settle()

    return undo


def _coordinator(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The coordinators of transactions move: for a while none answers, but to the neighbour, which suffers no fault.
    The first fence after that meets one that moves again, halfway.
    """
    settle, prefix = disturbed(world.replicas), f"{world.wiring.app}."
    world.log.coordinators_away.append(prefix)

    def undo() -> None:
        world.log.coordinators_away.remove(prefix)
        world.log.fences_unwritten.add(prefix)
        settle()

    return undo


def _open_transaction(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Somebody else has written into some topics, and neither commits nor aborts."""
    broker, stranger = world.log.broker, f"stranger {len(world.struck)} of {world.wiring.app_uid}"
    topics = _some(_topics(world), chance(world, fault))
    feeds = [partition.feed for topic in sorted(topics) for partition in broker.partitions(topic)]
    settle = disturbed([*world.sources, *world.replicas])
    epoch = broker.init_producer(stranger)
    partitions = [broker.partition(feed) for feed in feeds]
    broker.write(stranger, epoch, [NewRecord(feed, b"a stranger's", b"key") for feed in feeds])

    def undo() -> None:
        broker.abort(stranger, epoch)
        for partition in partitions:
            if stranger in partition.undecided and not partition.deleted:  # even this marker may have been lost
                partition.finish(stranger, False, world.scheduler.now_us)
        settle()

    return undo


def _id_expired(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The broker forgets the transactional id of a node."""
    plan = world.scenario.nodes[fault.index % len(world.scenario.nodes)]
    world.log.broker.forget(transactional_id(world.wiring.app, plan.name))
    return nothing


def _topics(world: SimulatedWorld) -> frozenset[str]:
    return frozenset(t for t in world.log.broker.topics() if t.startswith(f"{world.wiring.app}."))


def _sent(world: SimulatedWorld) -> frozenset[str]:
    """The topics whose writers wait for each record to be acknowledged: not those written in transactions, nor those of
    which this world only keeps that something was said in the end."""
    own = {
        topic
        for replica in world.replicas
        for topic in (replica.spec.own_feeds[0].topic, replica.spec.control_feed.topic)
    }
    return frozenset(own | {source.feed.topic for source in world.sources})


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


def _refused(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The log refuses a record of the replica's stream with an error code."""
    machine = replica_of(world, fault)
    for process in machine.processes:
        world.log.refuse(process.name, machine.spec.own_feeds[0].topic, Refusal("NOT_ENOUGH_REPLICAS"))
    return nothing


def _sends(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """A send is reported as timed out although it has happened."""
    machine = replica_of(world, fault)
    for process in machine.processes:
        world.log.refuse(process.name, machine.spec.own_feeds[0].topic, Refusal("REQUEST_TIMED_OUT", landed=True))
    return nothing


def _source_sends(world: SimulatedWorld, fault: Fault) -> UndoFault:
    machine = source_of(world, fault)
    landed = chance(world, fault).random() < 0.7
    for process in machine.processes:
        world.log.refuse(process.name, machine.feed.topic, Refusal("REQUEST_TIMED_OUT", landed))
    return nothing


def _commits(world: SimulatedWorld, fault: Fault) -> UndoFault:
    world.commits_unknown += 1

    def undo() -> None:
        world.commits_unknown -= 1

    return undo


def _markers_lost(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The broker marks transactions as ended without writing their markers into some, or any, partitions.

    Those of the neighbour are written: it suffers no fault.
    """
    rng, broker = chance(world, fault), world.log.broker
    spared = "" if world.neighbour is None else f"{world.neighbour.app}."

    def losing(partitions: Sequence[Partition]) -> Collection[Partition]:
        ours = [p for p in partitions if not (spared and p.feed.topic.startswith(spared))]
        if not ours or rng.random() < 0.5:
            return ()
        return [p for p in ours if fault.detail == "all" or rng.random() < 0.6]

    broker.losing.append(losing)
    return lambda: broker.losing.remove(losing)


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
    "leader": _leader,
    "lagging": _lagging,
    "coordinator": _coordinator,
    "open_transaction": _open_transaction,
    "id_expired": _id_expired,
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
    "refused": _refused,
    "sends": _sends,
    "source_sends": _source_sends,
    "commits": _commits,
    "markers_lost": _markers_lost,
    "source_mute": _source_mute,
}
