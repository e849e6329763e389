"""What a drill runs: which app, how many replicas, with which settings."""

from __future__ import annotations

from dataclasses import dataclass

from borealis_py.verify.network import Network
from tests.harness.network import CHAIN, FOREIGN, NODE, PARTED, PARTITIONS, QUERY, SINGLE, WITH_FOREIGN

INDEX = "replica"
"""Stands for all nodes where one process runs them: `Member(INDEX, 0)` is such a process."""
SLACK = ("slack_us", 1_500_000)
"""Of the threshold, for a machine that runs a dozen processes on two cores while some of them start."""


@dataclass(frozen=True)
class Member:
    """Replica `k` of a node, or of one of its partitions."""

    node: str
    k: int

    def __str__(self) -> str:
        return f"{self.node}.r{self.k}"


@dataclass(frozen=True)
class Plan:
    """How a drill's app runs. `timing`: what is not to be the default.

    `parted`: each node of the chain runs in partitions. `foreign`: so, and source c is a topic that a plain producer
    writes and ingresses copy. `host`: as `borealis up --host` takes it. `apart`: each replica
    of a node is a process of its own, as containers may be; else one runs its index of all of them, as `up` has it.
    `ready_s`: until when all must have started. `retain`: how much of the replicas' streams is kept.
    `recovery`: the way of each node, the query's last.
    """

    name: str
    chain: bool
    threshold_us: int = 3_000_000
    replicas: int = 2
    timing: tuple[tuple[str, int], ...] = (SLACK,)
    period_us: int = 50_000
    parted: bool = False
    foreign: bool = False
    host: str = "process"
    apart: bool = True
    ready_s: float = 150.0
    retain: str = "all"
    recovery: tuple[str, ...] = ("active",)

    @property
    def network(self) -> Network:
        """The same for the checker."""
        if self.foreign:
            return WITH_FOREIGN
        if self.parted:
            return PARTED
        return CHAIN if self.chain else SINGLE

    @property
    def sources(self) -> tuple[str, ...]:
        """The app's inputs; one that is a foreign topic is named by its partition."""
        return self.network.sources

    @property
    def published(self) -> tuple[str, ...]:
        """Those that have publishers."""
        return tuple(source for source in self.sources if source != FOREIGN)

    def stands_by(self, node: str) -> bool:
        """Whether one replica of this node runs and the others stand by."""
        return self.recovery[-1 if node.partition(".")[0] == QUERY else 0] != "active"

    @property
    def one_runs(self) -> frozenset[int]:
        """The stages of which one replica runs."""
        return frozenset(i for i, stage in enumerate(self.network.stages) if self.stands_by(stage.parts[0]))

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
        """Those that run them."""
        return tuple(dict.fromkeys(map(self.process, self.members)))

    def process(self, member: Member) -> Member:
        """Whose process runs it: one runs all partitions of a node. A process's own is itself."""
        return Member(member.node.partition(".")[0] if self.apart else INDEX, member.k)

    @property
    def results(self) -> tuple[str, ...]:
        """The query, or its partitions."""
        return tuple(self.network.stages[-1].parts)

    @property
    def cut(self) -> str:
        """The node that reads the sources."""
        return NODE if self.chain else QUERY
