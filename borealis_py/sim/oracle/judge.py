"""Every process of a world, judged by its witness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from borealis_py.sim.kernel import QUERY
from borealis_py.sim.oracle.incarnations import number_is_new
from borealis_py.sim.oracle.place import Place
from borealis_py.sim.oracle.witness import Witness
from borealis_py.sim.truth import SourceTruth, Truth

if TYPE_CHECKING:
    from borealis_py.sim.world import World


def judge_processes(world: World, sources: Mapping[str, SourceTruth], nodes: Mapping[str, Truth]) -> None:
    """Raises Violation."""
    for heard in world.wiring.heard:
        place = place_of(world, sources, nodes, heard.node, heard.replica)
        number_is_new(place, heard)
        Witness(place, heard).judge()


def place_of(
    world: World, sources: Mapping[str, SourceTruth], nodes: Mapping[str, Truth], node: str, replica: int
) -> Place:
    """Where a process of this index runs. `nodes`: the failure-free output of each."""
    wiring = world.wiring
    parts = {
        other.name: nodes[other.name].part(world.scenario.partition(node, other.name), other.exchange)
        for other in world.scenario.nodes
    }
    spec = wiring.spec(node, replica)
    return Place(
        world.scenario,
        wiring.app_uid,
        node,
        replica,
        world.origin,
        [(of.name, spec.feeds(i)) for i, of in enumerate(spec.inputs)],
        wiring.origins,
        sources,
        parts,
        spec.own_feeds,
        spec.control_feed,
        spec.settings_feed,
        spec.status_feed,
        QUERY,
        wiring.hops[node],
        wiring.depth,
        wiring.positions[node],
    )
