"""What a replica is told of trimming when it starts (R16). Pure: a value, sent to the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from borealis_py.protocol.trimming.fold import SILENCE_US
from borealis_py.protocol.trimming.limit import Graph, Retain

EVERY_US = 10_000_000
"""How often a replica trims, and the least time between two of its acknowledgements."""


@dataclass(frozen=True, slots=True)
class Trimming:
    """Who may read what, and how much is kept beyond that.

    Attributes:
        graph: all nodes of the app as it runs, with what they read.
        retain: what is kept of each source and of each node's stream, by its name as it runs; of others all is.
        audits: for each source, the queries, as written, that its rows come to.
        every_us: how often a replica trims, in microseconds. silence_us: after how long others may stand for one.
    """

    graph: Graph
    retain: Mapping[str, Retain] = field(default_factory=dict)
    every_us: int = EVERY_US
    silence_us: int = SILENCE_US
    audits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def trimmed_by(self, node: str) -> tuple[str, ...]:
        """The sources that the replicas of a node trim: those that no earlier node reads."""
        return tuple(s for s in self.graph.nodes[node].sources if self.graph.readers_of_source(s)[0] == node)
