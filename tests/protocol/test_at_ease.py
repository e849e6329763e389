"""When heartbeats, progress, acknowledgements and commits may wait for the next turn (R7.4)."""

from __future__ import annotations

from borealis_py.protocol.states import ReplicaState
from tests.protocol.toy import make_world

S = 1_000_000


def test_a_stable_replica_is_at_ease() -> None:
    world = make_world()
    world.run(until=1 * S)
    manager = world.replicas[0].manager
    assert (manager.state, manager.at_ease) == (ReplicaState.STABLE, True)


def test_a_replica_that_recovers_is_not() -> None:
    assert not make_world().replicas[0].manager.at_ease


def test_a_replica_that_lacks_an_input_is_not() -> None:
    world = make_world()
    world.run(until=1 * S)
    world.replicas[0].cut.add(0)
    world.run(until=6 * S)
    manager = world.replicas[0].manager
    assert (manager.state, manager.at_ease) == (ReplicaState.UPSTREAM_FAILURE, False)


def test_a_replica_that_asks_for_the_ends_of_its_inputs_is_not() -> None:
    world = make_world()
    world.run(until=1 * S)
    replica = world.replicas[0]
    replica.cut.add(0)
    replica.ends = False
    world.run(until=6 * S)
    assert (replica.manager.state, replica.manager.at_ease) == (ReplicaState.STABLE, False)


def test_a_replica_whose_checkpoint_or_outbox_awaits_acknowledgements_is_not() -> None:
    world = make_world()
    world.run(until=1 * S)
    replica = world.replicas[0]
    replica.acks = False
    world.run(until=5 * S)
    assert replica.manager.checkpointing.pending
    assert (replica.manager.state, replica.manager.at_ease) == (ReplicaState.STABLE, False)


def test_a_writer_at_work_is_at_ease_only_if_nothing_waits_for_its_commit() -> None:
    world = make_world()
    world.run(until=1 * S)
    replica = world.replicas[0]
    replica.writer = "hold"
    world.run(until=1 * S + 50_000)
    world.run(until=3 * S)
    assert (replica.manager.state, replica.manager.at_ease) == (ReplicaState.STABLE, False)
