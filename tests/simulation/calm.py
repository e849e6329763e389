"""A scenario in which nothing happens, to add a fault to."""

from __future__ import annotations

from dataclasses import replace

from borealis_py.protocol.settings import Delays
from borealis_py.simulation.runner.generator import draw
from borealis_py.simulation.runner.shrink import Edits
from borealis_py.simulation.scenario import Scenario, SimulatedNode


def calm(replicas: int = 2, sources: int = 2, seconds: int = 12) -> Scenario:
    """A world of one node in which nothing goes wrong yet."""
    drawn = Edits(keep=(), heal_s=seconds).apply(draw(1, nodes=1))
    node = SimulatedNode("q", tuple(f"s{i}" for i in range(sources)), replicas)
    timing = replace(drawn.timing, buffer_rows_max=2_000_000)
    return replace(
        drawn, sources=sources, nodes=(node,), lost=(), delays=Delays(1_000_000), timing=timing, latecomer=False
    )
