"""The paper's tables 6 to 8 and figures 6 and 7 as cases to run, and what came out beside what the paper has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.recovery import published
from benchmarks.recovery.operators import QueryNetwork
from benchmarks.recovery.published import ACTIVE, AMNESIA, OVERHEAD, PASSIVE, RECOVERY, UPSTREAM, PublishedRow
from benchmarks.recovery.runs import CaseFigures, PaperCase
from benchmarks.recovery.setting import PaperSetting

Results = Mapping[PaperCase, CaseFigures]
KINDS = {kind: QueryNetwork(kind) if kind == "aggregate" else QueryNetwork(kind, 1, 1) for kind in published.NETWORKS}
LINES = ((PASSIVE, False), (ACTIVE, False), (ACTIVE, True), (UPSTREAM, False), (UPSTREAM, True))
"""The curves of both figures (H 247): a way, and whether its recovery is precise."""


@dataclass(frozen=True, slots=True)
class PaperLine:
    """One row of a table or one curve of a figure. `by`, `columns`: what its cases differ in, and how. `paper`: None:
    not given.
    """

    place: str
    what: str
    lines: str
    measure: str
    by: str
    columns: tuple[str, ...]
    cases: tuple[PaperCase, ...]
    paper: tuple[float | None, ...]

    def ours(self, results: Results) -> list[float]:
        """What the model found."""
        return [value(results[case], self.measure) for case in self.cases]

    def differences(self, results: Results) -> list[float | None]:
        """Ours less the paper's: points of an overhead, percent of a recovery time (of zero: ms)."""
        return [
            None if theirs is None else _difference(self.measure, mine, theirs)
            for mine, theirs in zip(self.ours(results), self.paper, strict=True)
        ]


def value(found: CaseFigures, measure: str) -> float:
    """The figure of a case that a row is about."""
    return found.overhead_percent if measure == OVERHEAD else found.recovery_ms


def _difference(measure: str, ours: float, theirs: float) -> float:
    return ours - theirs if measure == OVERHEAD or not theirs else 100 * (ours / theirs - 1)


def by_kind(way: str, kind: str) -> PaperCase:
    """A case of table 6."""
    return PaperCase(way=way, network=KINDS[kind])


def by_window(way: str, window: int) -> PaperCase:
    """Of table 7."""
    return PaperCase(way=way, network=QueryNetwork(window=window))


def by_advance(way: str, advance: int) -> PaperCase:
    """Of table 8."""
    return PaperCase(way=way, network=QueryNetwork(advance=advance))


def by_interval(way: str, interval_ms: int, precise: bool = False) -> PaperCase:
    """Of figure 6."""
    return PaperCase(way=way, precise=precise, setting=PaperSetting(interval_us=1000 * interval_ms))


def by_operators(way: str, operators: int, precise: bool = False) -> PaperCase:
    """Of figure 7."""
    return PaperCase(way=way, precise=precise, network=QueryNetwork(operators=operators))


def paper_lines() -> list[PaperLine]:
    """All of them, in the paper's order."""
    kinds, windows, advances = published.NETWORKS, published.WINDOWS, published.ADVANCES
    intervals, operators = published.INTERVALS_MS, published.OPERATORS
    return [
        *(_row("table 3", "network", r, ["aggregate"], [by_kind(AMNESIA, "aggregate")]) for r in published.NOTHING),
        *(_row("table 6", "network", r, kinds, [by_kind(r.way, kind) for kind in kinds]) for r in published.TABLE_6),
        *(_row("table 7", "window", r, windows, [by_window(r.way, w) for w in windows]) for r in published.TABLE_7),
        *(_row("table 8", "advance", r, advances, [by_advance(r.way, a) for a in advances]) for r in published.TABLE_8),
        *_curves(
            "figure 6",
            "interval ms",
            intervals,
            {line: [by_interval(line[0], ms, line[1]) for ms in intervals] for line in LINES},
        ),
        *_curves(
            "figure 7",
            "operators",
            operators,
            {line: [by_operators(line[0], n, line[1]) for n in operators] for line in LINES},
        ),
    ]


def _row(place: str, by: str, row: PublishedRow, columns: Iterable[object], cases: Sequence[PaperCase]) -> PaperLine:
    at = tuple(str(column) for column in columns)
    return PaperLine(place, row.way, row.lines, row.measure, by, at, tuple(cases), row.values)


def _curves(
    place: str, by: str, columns: Iterable[object], cases: Mapping[tuple[str, bool], Sequence[PaperCase]]
) -> Iterator[PaperLine]:
    at, stated = tuple(str(column) for column in columns), published.STATED[place]
    for (way, precise), line in cases.items():
        for measure in (OVERHEAD, RECOVERY):
            known = (way, precise, measure) == (stated.way, False, stated.measure)
            values = stated.values if known else (None,) * len(line)
            what = way if way == PASSIVE else f"{way}, {'precise' if precise else 'rollback'}"
            yield PaperLine(place, what, stated.lines if known else "", measure, by, at, tuple(line), values)


def all_cases(lines: Iterable[PaperLine]) -> list[PaperCase]:
    """Each once."""
    return list(dict.fromkeys(case for line in lines for case in line.cases))


def largest(lines: Iterable[PaperLine], results: Results, measure: str, way: str | None = None) -> float:
    """The largest difference, whatever its sign, of a measure in tables 6 to 8; of all ways or of one."""
    there = [
        abs(difference)
        for line in lines
        if line.place.startswith("table") and line.measure == measure and way in (None, line.what)
        for difference in line.differences(results)
        if difference is not None
    ]
    return max(there)
