"""The surroundings of a process: what its node reads, and the facts about its world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from borealis_py.log.base import Feed
from borealis_py.protocol.settings import Timing
from borealis_py.simulation.reference_model import NodeTruth, SourceTruth
from borealis_py.simulation.scenario import Scenario
from borealis_py.simulation.witness.settings import Settings


@dataclass(frozen=True)
class ReplicaPlace:
    """One replica index of one node.

    Attributes:
        inputs: (name, feeds), for a stream one feed per replica. origins: the sources behind each input.
        truths: the content of each source's log. streams: the failure-free output of the nodes that it reads.
        hops: from the node to the query's result.
    """

    scenario: Scenario
    app_uid: str
    node: str
    replica: int
    origin: int
    inputs: Sequence[tuple[str, Sequence[Feed]]]
    origins: Mapping[str, Sequence[str]]
    truths: Mapping[str, SourceTruth]
    streams: Mapping[str, NodeTruth]
    own_feeds: Sequence[Feed]
    control_feed: Feed
    settings_feed: Feed
    status_feed: Feed
    query: str
    hops: int
    depth: int
    position: int

    @property
    def width_us(self) -> int:
        return self.scenario.width_us

    @property
    def span(self) -> int:
        return self.scenario.span

    @property
    def timing(self) -> Timing:
        return self.scenario.timing

    @property
    def last(self) -> int:
        """The bucket up to which END closes."""
        return 2**62 // self.scenario.width_us

    def rows(self, bucket: int) -> int:
        """Number of rows of all inputs in a complete bucket."""
        return sum(len(self._of(name).get(bucket, ())) for name, _ in self.inputs)

    def _of(self, name: str) -> Mapping[int, Sequence[object]]:
        return self.truths[name].rows if name in self.truths else self.streams[name].rows

    def settings(self) -> Settings:
        """The settings as the query declares them."""
        return Settings(self.scenario, self.query, self.hops, self.depth, self.position)
