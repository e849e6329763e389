"""How long nodes and readers of results wait (D), by the thresholds (X) and policies of queries. Pure.

Threshold and policies belong to a query; a node combines those of all queries that read it (`as_enforced`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from borealis_py.protocol.settings import DelayPolicy, Delays, NodeDelays, Timing, budget
from borealis_py.query.spec import AppSpec, QuerySpec, Serves

_EAGER_FIRST = (DelayPolicy.PROCESS, DelayPolicy.DELAY, DelayPolicy.SUSPEND)


def declared(query: QuerySpec) -> Delays:
    """Threshold and policies as the app's file declares them, in force until a settings record changes them."""
    return Delays(query.threshold_us, DelayPolicy(query.on_failure), DelayPolicy(query.on_stabilization))


def wait_us(timing: Timing, serves: Serves, threshold_us: int) -> int:
    """D of a node that a query reads, under the query's threshold X (R13), in microseconds.

    Args:
        serves: the way from the node to the query's result.

    Raises:
        SettingsError: X is too small for the query's chain, at all nodes of it or at none.
    """
    return budget(timing, threshold_us, serves.hops, serves.depth)


def first_wait_us(spec: AppSpec, query: str, timing: Timing, threshold_us: int) -> int:
    """D of the first node of a query's longest chain, which waits least. See `wait_us`."""
    depth = spec.position(query)
    return wait_us(timing, Serves(query=query, hops=depth - 1, depth=depth), threshold_us)


def reader_wait_us(spec: AppSpec, query: str, timing: Timing, threshold_us: int) -> int:
    """D of a live reader of a query's result, which is that of its last node (R5). See `wait_us`."""
    return wait_us(timing, Serves(query=query, depth=spec.position(query)), threshold_us)


def as_enforced(serves: Sequence[Serves], delays: Mapping[str, Delays], timing: Timing) -> NodeDelays:
    """Combine the settings of the queries that read a node: the shortest wait and the most eager policies (R13, B11).

    Args:
        serves: the queries, at least one, each with the way from the node to its result.
        delays: the settings of each of them, by name.

    Raises:
        SettingsError: a threshold is too small for its query's chain.
    """
    return combined((wait_us(timing, s, delays[s.query].threshold_us) for s in serves), delays)


def combined(waits_us: Iterable[int], delays: Mapping[str, Delays]) -> NodeDelays:
    """The same of waits that are known. `waits_us`: D by each of the queries, at least one."""
    return NodeDelays(min(waits_us), *_most_eager(delays))


def as_configured(node: str, delays: Mapping[str, Delays]) -> Delays:
    """As users set them, for status: the query's own, or the strictest of the queries that read the node."""
    return delays.get(node) or Delays(min(d.threshold_us for d in delays.values()), *_most_eager(delays))


def _most_eager(delays: Mapping[str, Delays]) -> tuple[DelayPolicy, DelayPolicy]:
    """The policies on failure and on stabilization under which no query waits longer than it asked to."""
    failure = min((d.failure for d in delays.values()), key=_EAGER_FIRST.index)
    return failure, min((d.stabilization for d in delays.values()), key=_EAGER_FIRST.index)
