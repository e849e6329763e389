"""What a drill runs: which app, how many replicas, with which settings."""

from __future__ import annotations

from dataclasses import dataclass

from tests.drills.checker.network import Network
from tests.drills.network import CHAIN, NODE, PARTED, PARTITIONS, QUERY, SINGLE

SLACK = ("slack_us", 1_500_000)
"""Of the threshold, for a machine that runs a dozen processes on two cores while some of them start."""


@dataclass(frozen=True)
class Member:
    """Replica `k` of a node, or of one of its partitions."""

    node: str
    k: int

    @property
    def process(self) -> Member:
        """Whose process runs it: one runs all partitions of a node."""
        return Member(self.node.partition(".")[0], self.k)

    def __str__(self) -> str:
        return f"{self.node}.r{self.k}"


@dataclass(frozen=True)
class Plan:
    """How a drill's app runs. `timing`: what is not to be the default.

    `parted`: each node of the chain runs in partitions. `host`: as `borealis up --host` takes it.
    `ready_s`: until when all must have started.
    """

    name: str
    chain: bool
    threshold_us: int = 3_000_000
    replicas: int = 2
    timing: tuple[tuple[str, int], ...] = (SLACK,)
    period_us: int = 50_000
    parted: bool = False
    host: str = "process"
    ready_s: float = 150.0

    @property
    def network(self) -> Network:
        """The same for the checker."""
        if self.parted:
            return PARTED
        return CHAIN if self.chain else SINGLE

    @property
    def partitions(self) -> int | None:
        return PARTITIONS if self.parted else None

    @property
    def members(self) -> tuple[Member, ...]:
        """Sources first."""
        parts = [part for stage in self.network.stages for part in stage.parts]
        return tuple(Member(part, k) for part in parts for k in range(self.replicas))

    @property
    def processes(self) -> tuple[Member, ...]:
        """Those that run them; the same without partitions."""
        return tuple(dict.fromkeys(member.process for member in self.members))

    @property
    def results(self) -> tuple[str, ...]:
        """The query, or its partitions."""
        return tuple(self.network.stages[-1].parts)

    @property
    def cut(self) -> str:
        """The node that reads the sources."""
        return NODE if self.chain else QUERY
