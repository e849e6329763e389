"""Judges the neighbour: the app beside the first one, to which nothing is done, is exact, stable and current."""

from __future__ import annotations

from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.records import TentativeHeader, unpack_stream
from borealis_py.simulation.checkers import oracles
from borealis_py.simulation.checkers.streams import stable_records
from borealis_py.simulation.cluster.neighbour import Neighbour
from borealis_py.simulation.reference_model import compute_all, read_source
from borealis_py.simulation.scenario import SECOND
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.violation import Violation

LAG_US = 2 * SECOND
"""Limit of the lag of two nodes on a slow machine."""


def judge_neighbour(neighbour: Neighbour) -> None:
    """Raises Violation."""
    s, wiring, log = neighbour.scenario, neighbour.wiring, neighbour.log
    app, app_uid, origin = neighbour.app, wiring.app_uid, wiring.origin
    how = s.width_us, origin, s.timing.ahead_max_us, app_uid
    read = {machine.name: read_source(machine.name, log.committed(machine.feed), *how) for machine in neighbour.sources}
    truths = compute_all(s, read, wiring.teller)
    current = wiring.buckets.of(neighbour.scheduler.now_us - LAG_US)
    for plan in s.nodes:
        for k in range(plan.replicas):
            name, records = f"{app}.{plan.name}.r{k}", log.committed(Feed(topics.replica(app, plan.name, k)))
            stable = stable_records(name, records, truths[plan.name], origin, app_uid)
            if stable < current:
                raise Violation("neighbour", f"{name} is stable only up to {stable}, it is {current}")
            if any(isinstance(unpack_stream(record.value)[0], TentativeHeader) for record in records):
                raise Violation("neighbour", f"{name} said something tentative, and nothing was done to it")
    oracles.corrected(log.committed(Feed(topics.stream(app, QUERY))), (), truths[QUERY], s.width_us)
    oracles.client(neighbour.picture, truths[QUERY])
    if neighbour.picture.stable < current:
        raise Violation("neighbour", f"its client is stable only up to {neighbour.picture.stable}, it is {current}")
