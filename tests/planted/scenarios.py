"""Worlds as planted bugs want them: drawn ones with these nodes, settings and faults instead."""

from __future__ import annotations

from dataclasses import replace

from borealis_py.protocol.settings import Delays
from borealis_py.simulation.scenario import Fault, Scenario, SimulatedNode
from borealis_py.simulation.toy_query import QUERY


def ms(*times: int) -> tuple[int, ...]:
    """These times, given in milliseconds."""
    return tuple(1_000 * t for t in times)


def one_node(scenario: Scenario, sources: int, faults: tuple[Fault, ...], **timing: int) -> Scenario:
    """One replica that reads so many sources, and nothing but these faults."""
    names = tuple(f"s{i}" for i in range(sources))
    return replace(
        scenario,
        sources=sources,
        nodes=(SimulatedNode(QUERY, names, 1),),
        lost=(),
        delays=Delays(1_000_000),
        timing=replace(scenario.timing, **timing),
        faults=faults,
    )


def small_jobs(scenario: Scenario) -> Scenario:
    """Nothing is redone inline, and at first little in one job."""
    timing = replace(scenario.timing, inline_us=0, inline_buckets=1, redo_rows=4 * scenario.rate)
    return replace(scenario, timing=timing)


def pairs(scenario: Scenario) -> Scenario:
    """Likewise, by two replicas of each node."""
    nodes = tuple(replace(node, replicas=2) for node in scenario.nodes)
    return replace(small_jobs(scenario), nodes=nodes, lost=())
