"""The report of `make bench NAME=retention`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean

from benchmarks.measure.volume import CONTROL_CLASS, NODE_CLASS, QUERY_CLASS
from benchmarks.report.outcome import Curve, Outcome, Panel

INTERNAL = (NODE_CLASS, QUERY_CLASS, CONTROL_CLASS)
"""What no user reads."""
SETTLED = 1 / 3
"""Share of the time after which sizes are to stand still."""
STRETCH_S = 150.0
"""Sizes are compared by their means over so long: the broker looks every 30 s for segments to free, and means of two
looks go up and down with how the segments of several topics happen to fill between them."""
GOAL = 0.15


@dataclass(frozen=True, slots=True)
class TopicSizes:
    """Sizes of the topics at `at_s` (seconds since the first tuple), by class, in bytes. `tentative`: buckets."""

    rate: int
    seconds: int
    at_s: list[float]
    sizes: dict[str, list[int]]
    tentative: int

    def together(self, names: Sequence[str]) -> list[int]:
        """Of several classes."""
        return [sum(each) for each in zip(*(self.sizes[name] for name in names), strict=True)]

    def means(self, sizes: Sequence[int]) -> list[float]:
        """Means of whole stretches, once sizes are to stand still.

        Raises:
            ValueError: there is no whole stretch.
        """
        first, found = self.seconds * SETTLED, []
        while first + STRETCH_S <= self.seconds:
            own = [size for at, size in zip(self.at_s, sizes, strict=True) if first <= at < first + STRETCH_S]
            found.append(mean(own))
            first += STRETCH_S
        if not found:
            raise ValueError(f"{self.seconds} s are too short")
        return found

    def spread(self, sizes: Sequence[int]) -> float:
        """By how much the largest of these means exceeds the least, as a share of it."""
        means = self.means(sizes)
        return max(means) / min(means) - 1


def outcome(growth: TopicSizes, retain: str, segment_bytes: int, host: str) -> Outcome:
    """All of it."""
    internal = growth.together(INTERNAL)
    spread = growth.spread(internal)
    met = spread <= GOAL
    rows = [_row(growth, name, growth.sizes[name], "") for name in growth.sizes]
    rows.append(_row(growth, "internal topics together", internal, f"<= {GOAL:.0%} {'met' if met else 'MISSED'}"))
    settled_s = growth.seconds * SETTLED
    return Outcome(
        name="retention",
        title="Topics that are kept for a while",
        published="Nothing comparable is published.",
        setup=(
            f"A node and a query behind it, two replicas each, host {host}, {growth.rate:,} tuples/s for "
            f"{growth.seconds} s, retain {retain} of everything but the corrected stream, which nothing trims, and "
            f"segments of {segment_bytes:,} bytes; control and status kept for a minute instead of an hour, progress "
            f"compacted after 15 s instead of 10 min. Means of {STRETCH_S:g} s from {settled_s:g} s on. "
            f"{growth.tentative} buckets were tentative."
        ),
        worse=_worse(growth, spread),
        columns=["topics", "first>", "last>", "largest mean above the least>", "goal"],
        rows=rows,
        ratios={"internal topics: least mean to the largest": 1 / (1 + spread)},
        data=asdict(growth),
        panels=[
            Panel(
                title="Size on the broker's disk",
                x="seconds since the first tuple",
                y="MB",
                curves=[
                    Curve(label=name, x=growth.at_s, y=[size / 1e6 for size in growth.sizes[name]])
                    for name in growth.sizes
                ],
            )
        ],
    )


def _worse(growth: TopicSizes, spread: float) -> str:
    if spread > GOAL:
        return f"Internal topics vary by {spread:.0%} once they are to stand still."
    apart = {name: found for name in INTERNAL if (found := growth.spread(growth.sizes[name])) > GOAL}
    each = ", ".join(f"{name} by {found:.0%}" for name, found in apart.items())
    return each and f"The goal is for their sum; apart they vary more, since segments leave the disk whole: {each}."


def _row(growth: TopicSizes, name: str, sizes: Sequence[int], goal: str) -> list[str]:
    means = growth.means(sizes)
    return [name, f"{means[0] / 1e6:.1f} MB", f"{means[-1] / 1e6:.1f} MB", f"{growth.spread(sizes):.0%}", goal]
