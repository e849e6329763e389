"""How long a stream stalled around a kill: arithmetic on arrival times. Pure.

An *arrival* is a moment at which a reader saw the stream advance: for a live subscriber, the first word about a bucket;
for a reader of the corrected stream, rows. A *spacing* is the time between two consecutive arrivals.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from borealis_py.bench.figures import BenchError, Percentiles, percentiles

ENOUGH = 4
"""So many spacings before a kill say what is ordinary."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill -9, in microseconds of one monotonic clock.

    `quiet`: from here to the kill nothing was disturbed. `until`: what stands still later has other reasons.
    """

    quiet: int
    at: int
    until: int


@dataclass(frozen=True, slots=True)
class GapFigures:
    """Gaps of one stream over all kills of one kind. `met`: p99 is below `target_ms`.

    `ordinary`: the spacings of the same stream in the quiet stretch before each kill, in the same run. `gap`: for each
    kill, the longest spacing that touches the time from the kill to its `until`, minus the median ordinary spacing.
    `quiet_gap`: the same without a kill, over the quiet stretches: what the machine adds by itself.
    """

    what: str
    target_ms: float
    gap: Percentiles
    quiet_gap: Percentiles
    ordinary: Percentiles

    @property
    def met(self) -> bool:
        return self.gap.p99_ms < self.target_ms


def spacings(times: Sequence[int], start: int, end: int) -> list[int]:
    """Those between arrivals that both lie in [start, end]. `times` ascend."""
    inside = times[bisect_left(times, start) : bisect_right(times, end)]
    return [b - a for a, b in pairwise(inside)]


def longest(times: Sequence[int], start: int, end: int) -> int:
    """The longest spacing that has a part in (start, end). `times` ascend.

    Raises:
        BenchError: nothing arrived before `start` or after it, so nobody knows how long it stood still.
    """
    first = bisect_right(times, start) - 1
    last = bisect_left(times, end)
    touched = times[max(0, first) : last + 1]
    if first < 0 or len(touched) < 2:
        raise BenchError("nothing arrived before or after a kill: the stream does not flow")
    return max(b - a for a, b in pairwise(touched))


def gap_figures(what: str, target_ms: float, times: Sequence[int], kills: Sequence[Kill]) -> GapFigures:
    """From the arrivals at one reader and all kills.

    Raises:
        BenchError: no kills, or the stream did not flow.
    """
    ordinary = [us for kill in kills for us in spacings(times, kill.quiet, kill.at)]
    if not ordinary:
        raise BenchError(f"{what}: nothing arrived before the kills, so there is no spacing to compare with")
    usual = round(median(ordinary))
    gaps = [max(0, longest(times, kill.at, kill.until) - usual) for kill in kills]
    quiet = [max(0, max(spacings(times, kill.quiet, kill.at), default=0) - usual) for kill in kills]
    return GapFigures(what, target_ms, percentiles(gaps), percentiles(quiet), percentiles(ordinary))
