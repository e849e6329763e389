"""What a drill runs: which app, how many replicas, with which settings."""

from __future__ import annotations

from dataclasses import dataclass

from tests.drills.network import NODE, QUERY

SLACK = ("slack_us", 1_500_000)
"""Of the threshold, for a machine that runs a dozen processes on two cores while some of them start."""


@dataclass(frozen=True)
class Member:
    """Replica `k` of a node."""

    node: str
    k: int

    def __str__(self) -> str:
        return f"{self.node}.r{self.k}"


@dataclass(frozen=True)
class Plan:
    """How a drill's app runs. `spark`: members that have a session; `timing` as `--timing` takes it."""

    name: str
    chain: bool
    threshold_us: int = 3_000_000
    replicas: int = 2
    spark: tuple[Member, ...] = ()
    timing: tuple[tuple[str, int], ...] = (SLACK,)
    period_us: int = 50_000

    @property
    def members(self) -> tuple[Member, ...]:
        """Sources first."""
        nodes = (NODE, QUERY) if self.chain else (QUERY,)
        return tuple(Member(n, k) for n in nodes for k in range(self.replicas))

    @property
    def cut(self) -> str:
        """The node that reads the sources."""
        return NODE if self.chain else QUERY
