"""Faults of the brokers: leaders and coordinators move, followers fall behind, requests are refused, and commits have
unknown outcomes, lose their markers, or take longer the more they hold (F10, F11).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from borealis_py.log.base import NewRecord
from borealis_py.log.topics import progress, stream, transactional_id
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.faults.base import (
    Doing,
    UndoFault,
    chance,
    disturbed,
    nothing,
    replica_of,
    some,
    source_of,
)
from borealis_py.simulation.log.broker import Partition
from borealis_py.simulation.log.connection import Refusal
from borealis_py.simulation.log.content import rows_by_bucket
from borealis_py.simulation.scenario import ROWS_MAX, Fault
from borealis_py.simulation.toy_query import QUERY


def _leader(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Some topics lose their leader for a while: appends wait, and reads return nothing."""
    rng = chance(world, fault)
    topics = some(_topics(world), rng)
    settle = disturbed([*world.sources, *world.replicas])
    world.log.depose(sorted(topics))

    def undo() -> None:
        world.log.elect(sorted(topics))
        settle()

    return undo


def _lagging(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """The followers of some topics fall behind; "truncated": they become leaders in the end."""
    topics = some(_topics(world), chance(world, fault))
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
    topics = some(_topics(world), chance(world, fault))
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


def too_large(records: Sequence[NewRecord]) -> bool:
    """Whether a transaction never commits within the limit: by its rows and dead letters, counted by bucket."""
    found = rows_by_bucket(records)
    return found.total() - max(found.values(), default=0) > ROWS_MAX


def _commits_grow(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Lasts until the end, even after everything has healed: commits are like that."""
    world.log.too_large = too_large
    return nothing


def _corrected_away(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """No replica can write the corrected stream: its partitions have no leader."""
    away = [stream(APP, QUERY), progress(APP, QUERY)]
    world.log.depose(away)
    return lambda: world.log.elect(away)


FAULTS: dict[str, Doing] = {
    "leader": _leader,
    "lagging": _lagging,
    "coordinator": _coordinator,
    "open_transaction": _open_transaction,
    "id_expired": _id_expired,
    "refused": _refused,
    "sends": _sends,
    "source_sends": _source_sends,
    "commits": _commits,
    "markers_lost": _markers_lost,
    "commits_grow": _commits_grow,
    "corrected_away": _corrected_away,
}
