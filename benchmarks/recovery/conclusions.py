"""What the paper concludes from its figures, as conditions that the model's figures fulfil or do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.recovery import published, tables
from benchmarks.recovery.published import ACTIVE, OVERHEAD, PASSIVE, RECOVERY, UPSTREAM
from benchmarks.recovery.runs import PaperCase
from benchmarks.recovery.setting import PaperSetting
from benchmarks.recovery.tables import Results

KINDS, WINDOWS, ADVANCES = published.NETWORKS, published.WINDOWS, published.ADVANCES
INTERVALS_MS, OPERATORS = published.INTERVALS_MS, published.OPERATORS
SAME_POINTS = 0.5
"""Overheads that differ by less are the same."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """One conclusion, with its lines, and whether it holds."""

    lines: str
    says: str
    holds: Callable[[_Cells], bool]


class _Cells:
    """Looks figures up."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def overhead(self, case: PaperCase) -> float:
        return tables.value(self._results[case], OVERHEAD)

    def recovery(self, case: PaperCase) -> float:
        return tables.value(self._results[case], RECOVERY)

    def overheads(self, way: str, make: Callable[[str, int], PaperCase], at: Sequence[int]) -> list[float]:
        return [self.overhead(make(way, one)) for one in at]

    def recoveries(self, way: str, make: Callable[[str, int], PaperCase], at: Sequence[int]) -> list[float]:
        return [self.recovery(make(way, one)) for one in at]


def _rises(values: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise(values))


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _fastest_to_slowest(c: _Cells) -> bool:
    order = (ACTIVE, PASSIVE, UPSTREAM)
    return all(_rises([c.recovery(tables.by_kind(way, kind)) for way in order]) for kind in KINDS)


def _cheapest_to_dearest(c: _Cells) -> bool:
    order = (UPSTREAM, ACTIVE, PASSIVE)
    return all(_rises([c.overhead(tables.by_kind(way, kind)) for way in order]) for kind in KINDS[:2])


def _aggregate_is_slowest(c: _Cells) -> bool:
    def cells(way: str) -> dict[str, float]:
        return {kind: c.recovery(tables.by_kind(way, kind)) for kind in KINDS}

    slow = all(max(cells(way), key=cells(way).__getitem__) == "aggregate" for way in (PASSIVE, UPSTREAM))
    return slow and min(cells(ACTIVE), key=cells(ACTIVE).__getitem__) == "aggregate"


def _aggregate_costs_most(c: _Cells) -> bool:
    cells = {kind: c.overhead(tables.by_kind(PASSIVE, kind)) for kind in KINDS}
    return cells["aggregate"] > max(cells["filter"], cells["union"]) + SAME_POINTS


def _two_streams_cost_more(c: _Cells) -> bool:
    pairs = [[c.overhead(tables.by_kind(way, kind)) for kind in ("filter", "union")] for way in (UPSTREAM, ACTIVE)]
    return all(_rises(pair) for pair in pairs)


def _steeper_each_time(c: _Cells) -> bool:
    times = c.recoveries(UPSTREAM, tables.by_window, WINDOWS)
    return _rises(times) and _rises([b - a for a, b in pairwise(times)])


def _replay_grows_threefold(c: _Cells) -> bool:
    times = c.recoveries(PASSIVE, tables.by_window, WINDOWS)
    redirect_ms = PaperSetting().redirect_us / 1000
    return 2 <= (times[-1] - redirect_ms) / (times[0] - redirect_ms) <= 4


def _falls_then_rises(c: _Cells) -> bool:
    first, _, _, *last = times = c.recoveries(UPSTREAM, tables.by_advance, ADVANCES)
    least = min(times[1:3])
    return least < first and max(times[1:3]) < first and _rises([max(times[1:3]), *last])


def _flat_then_rises(c: _Cells) -> bool:
    times = c.recoveries(PASSIVE, tables.by_advance, ADVANCES)
    return _spread(times[:3]) < 0.02 * times[0] and _rises([max(times[:3]), *times[3:]])


def _upstream_is_cheapest(c: _Cells) -> bool:
    one = [c.overheads(way, tables.by_interval, INTERVALS_MS) for way in (UPSTREAM, ACTIVE, PASSIVE)]
    return max(one[0]) < 2 and all(u < min(a, p) for u, a, p in zip(*one, strict=True))


def _upstream_is_slowest(c: _Cells) -> bool:
    one = [c.recoveries(way, tables.by_interval, INTERVALS_MS) for way in (UPSTREAM, ACTIVE, PASSIVE)]
    slowest = all(u > max(a, p) for u, a, p in zip(*one, strict=True))
    return slowest and _spread(one[0]) > max(_spread(one[1]), _spread(one[2]))


def _knee_at_the_window(c: _Cells) -> bool:
    _, at_50, at_100, at_150, at_200 = c.overheads(PASSIVE, tables.by_interval, INTERVALS_MS)
    return at_50 - at_100 < 5 < at_100 - at_150 and at_150 > at_200


def _precise_costs(c: _Cells) -> bool:
    pairs = [(tables.by_interval(way, 50, True), tables.by_interval(way, 50)) for way in (UPSTREAM, ACTIVE)]
    upstream = c.overhead(pairs[0][0]) - c.overhead(pairs[0][1])
    active = c.recovery(pairs[1][0]) - c.recovery(pairs[1][1])
    more_points, more_ms = (published.PRECISE_MORE[way].values[0] or 0 for way in (UPSTREAM, ACTIVE))
    return abs(upstream - more_points) < SAME_POINTS and abs(active - more_ms) < 2


def _upstream_grows_fastest(c: _Cells) -> bool:
    upstream, passive = (c.recoveries(way, tables.by_operators, OPERATORS) for way in (UPSTREAM, PASSIVE))
    return _rises(upstream) and _rises(passive) and _spread(upstream) > 5 * _spread(passive)


def _still_a_fraction(c: _Cells) -> bool:
    most = OPERATORS[-1]
    upstream = c.overhead(tables.by_operators(UPSTREAM, most, True))
    return 4 * upstream < min(c.overhead(tables.by_operators(way, most)) for way in (PASSIVE, ACTIVE))


CONCLUSIONS = (
    Conclusion("H 255, H 267-271", "active standby recovers first, upstream backup last", _fastest_to_slowest),
    Conclusion("H 267-271", "upstream backup costs least, passive standby most", _cheapest_to_dearest),
    Conclusion("H 275", "passive standby costs most with an aggregate", _aggregate_costs_most),
    Conclusion("H 275", "an aggregate recovers last, with active standby first", _aggregate_is_slowest),
    Conclusion("H 275", "two input streams cost more with upstream backup and active standby", _two_streams_cost_more),
    Conclusion(
        "H 301",
        "the window does not change the overhead of passive standby",
        lambda c: _spread(c.overheads(PASSIVE, tables.by_window, WINDOWS)) < SAME_POINTS,
    ),
    Conclusion(
        "H 301",
        "passive standby recovers later, the longer the window",
        lambda c: _rises(c.recoveries(PASSIVE, tables.by_window, WINDOWS)),
    ),
    Conclusion("H 301", "its time beyond 40 ms grows about threefold over five windows", _replay_grows_threefold),
    Conclusion("H 279-287", "upstream backup slows down more with each longer window", _steeper_each_time),
    Conclusion(
        "H 301",
        "the smaller the advance, the more passive standby costs",
        lambda c: _rises(c.overheads(PASSIVE, tables.by_advance, ADVANCES)),
    ),
    Conclusion("H 301", "passive standby slows down from an advance of 10 on, not before", _flat_then_rises),
    Conclusion("H 301", "upstream backup gets faster with a smaller advance, from 10 on slower", _falls_then_rises),
    Conclusion("H 255", "upstream backup costs next to nothing, whatever the interval", _upstream_is_cheapest),
    Conclusion("H 255", "it recovers last, and depends most on the interval", _upstream_is_slowest),
    Conclusion("H 255", "passive standby costs less from an interval of one window on", _knee_at_the_window),
    Conclusion("H 261", "precise recovery adds 16 points to upstream backup, 40 ms to active standby", _precise_costs),
    Conclusion(
        "H 317",
        "more operators make passive standby dearer",
        lambda c: _rises(c.overheads(PASSIVE, tables.by_operators, OPERATORS)),
    ),
    Conclusion("H 317", "they slow down upstream backup fast, passive standby slightly", _upstream_grows_fastest),
    Conclusion("H 317", "precise upstream backup costs a fraction even of five operators", _still_a_fraction),
)


def judged(results: Results) -> dict[str, bool]:
    """Whether each conclusion holds, by what it says and its lines."""
    cells = _Cells(results)
    return {f"{one.says} ({one.lines})": one.holds(cells) for one in CONCLUSIONS}
