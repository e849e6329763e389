"""Judges every process of a world by its witness; also the number with which it starts (R11.1, B30), and that a
standby writes nothing to the stream of its node (R17.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated

import msgspec

from borealis_py.log.base import NewRecord
from borealis_py.simulation.clean import Clean
from borealis_py.simulation.cluster.recorder import Recording
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.reference_model import NodeTruth, SourceTruth
from borealis_py.simulation.scenario import SECOND
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.place import ReplicaPlace
from borealis_py.simulation.witness.queue import heartbeat
from borealis_py.simulation.witness.witness import Witness

ENOUGH_ROWS = 200_000
"""A replica with memory for fewer rows may stop reading its inputs for a while (R6.2)."""
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
            _silent_until_it_runs(place, heard)
            continue
        if not heard.stood_by:
            _number_is_new(place, heard)
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


class _Claim(msgspec.Struct, frozen=True):
    app_uid: str
    inc: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    uid: str


def _number_is_new(place: ReplicaPlace, heard: Recording) -> None:
    """Check the number that a process claims when it starts: it is above any in the log, since none is ever reused.

    Raises:
        Violation: settings or heartbeats that were in the log then have this number or a higher one.
    """
    key = f"incarnation/{place.node}/{place.replica}".encode()
    said = [d.value for d in heard.turns[0].done if isinstance(d, NewRecord) and d.key == key]
    mine = _numbers(place, said)
    if not mine:
        raise Violation("incarnation", f"{heard.name} starts without a number")
    kept = _numbers(place, (r.value for r in heard.opened[place.settings_feed].records if r.key == key))
    beats = [heartbeat(record, place) for record in heard.opened[place.control_feed].records]
    highest = max([0, *kept, *(b.inc for b in beats if b is not None and b.replica == place.replica)])
    if mine[0] <= highest:
        raise Violation("incarnation", f"{heard.name} takes number {mine[0]}, the log tells of {highest}")


def _numbers(place: ReplicaPlace, values: Iterable[bytes | None]) -> list[int]:
    found = []
    for value in values:
        try:
            claim = msgspec.json.decode(value or b"", type=_Claim)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            continue
        found += [claim.inc] if claim.app_uid == place.app_uid else []
    return found


class _Role(msgspec.Struct, frozen=True):
    runs: bool


def _silent_until_it_runs(place: ReplicaPlace, heard: Recording) -> None:
    """Raises Violation: a process that stood by wrote its stream before its first heartbeat that says that it runs."""
    for turn in heard.turns:
        sent = [done for done in turn.done if isinstance(done, NewRecord)]
        beats = [msgspec.json.decode(one.value or b"", type=_Role) for one in sent if one.feed == place.control_feed]
        if any(beat.runs for beat in beats):
            return
        if any(one.feed in place.own_feeds for one in sent):
            raise Violation("silence", f"{heard.name} stands by, and writes {place.own_feeds[0].topic}")
