"""Judges every process of a world by its witness."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from borealis_py.simulation.clean import Clean
from borealis_py.simulation.cluster.recorder import Recording
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.reference_model import NodeTruth, SourceTruth
from borealis_py.simulation.scenario import SECOND
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.witness.incarnations import number_is_new
from borealis_py.simulation.witness.place import ReplicaPlace
from borealis_py.simulation.witness.silence import silent_until_it_runs
from borealis_py.simulation.witness.witness import Witness

ENOUGH_ROWS = 200_000
"""A replica with memory for fewer rows may stop reading its inputs for a while (R6)."""
AWAY_US = 10 * SECOND
"""A process without a turn for this long is asleep, or has ended: longer than any pause."""


Readable = Mapping[tuple[str, int], Mapping[str, Clean]]
"""(node, replica) -> input -> when it could be read."""


def judge_processes(
    world: SimulatedWorld, readable: Readable, sources: Mapping[str, SourceTruth], nodes: Mapping[str, NodeTruth]
) -> None:
    """Raises Violation."""
    for heard in world.wiring.heard:
        place = place_of(world, sources, nodes, heard.node, heard.replica)
        if heard.computes_unheard:
            silent_until_it_runs(place, heard)
            continue
        if not heard.stood_by:
            number_is_new(place, heard)
        Witness(place, heard, partial(_well, world, readable, heard)).judge()


def _well(world: SimulatedWorld, readable: Readable, heard: Recording, first_us: int, until_us: int) -> bool:
    """Whether it was alone on its machine, reached the logs of all its inputs, and had enough memory to read them."""
    if world.scenario.timing.buffer_rows_max <= ENOUGH_ROWS:
        return False
    for other in world.wiring.heard:
        same = (other.node, other.replica) == (heard.node, heard.replica) and other is not heard
        if same and other.turns[0].now_us <= until_us and first_us <= other.turns[-1].now_us + AWAY_US:
            return False
    return all(clean.covers(first_us, until_us) for clean in readable[heard.node, heard.replica].values())


def place_of(
    world: SimulatedWorld, sources: Mapping[str, SourceTruth], nodes: Mapping[str, NodeTruth], node: str, replica: int
) -> ReplicaPlace:
    """The surroundings of a process of this index. `nodes`: the failure-free output of each."""
    wiring = world.wiring
    parts = {
        other.name: nodes[other.name].part(world.scenario.partition(node, other.name), other.exchange)
        for other in world.scenario.nodes
    }
    spec = wiring.spec(node, replica)
    return ReplicaPlace(
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
