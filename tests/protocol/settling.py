"""Worlds that lose an input and settle."""

from __future__ import annotations

from borealis_py.protocol.states import ReplicaState
from tests.protocol.toy import ToyWorld

R, S, U, Z = (
    ReplicaState.RECOVERING,
    ReplicaState.STABLE,
    ReplicaState.UPSTREAM_FAILURE,
    ReplicaState.STABILIZATION,
)


def settled(world: ToyWorld) -> bool:
    return all(r.manager.state is S and r.manager.f_s == r.manager.f_l for r in world.replicas.values())


def cut(world: ToyWorld, first: int, end: int, *inputs: int) -> None:
    """Run to `first`, cut the inputs off from everybody until `end`."""
    world.run(first)
    for replica in world.replicas.values():
        replica.cut |= set(inputs)
    world.run(end)
    for replica in world.replicas.values():
        replica.cut -= set(inputs)
