"""The protocols of Hwang et al. (ICDE 2005) as a model, beside what the paper has:
`make bench NAME=recovery OPTIONS=--paper`.

The model is in `benchmarks.recovery`; here its figures become a table and pictures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from benchmarks.recovery import published, tables
from benchmarks.recovery.conclusions import judged
from benchmarks.recovery.formula import recovery_ms
from benchmarks.recovery.published import ACTIVE, OVERHEAD, PASSIVE, RECOVERY, UPSTREAM
from benchmarks.recovery.runs import RUNS, CaseFigures, PaperCase, measure
from benchmarks.recovery.setting import ALTERNATIVES, PaperReading, PaperSetting
from benchmarks.recovery.tables import PaperLine, Results, by_interval, by_kind
from benchmarks.report import goals
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import Size
from borealis_py.bench.console import Bars

SIZES: dict[Size, int] = {"short": 5, "usual": RUNS, "full": 4 * RUNS}
"""Runs of each case."""
SHOWN = 0.1
"""The least difference, in points or ms, that makes a row of another reading worth showing."""
SLOW_UNION_US = 60
"""A time for a union with which its rows of table 6 would come out nearly."""

Others = Mapping[str, Results]


def run(size: Size, bars: Bars) -> Outcome:
    """Run the model. Raises NotRecovered: one of its protocols has lost its way."""
    runs = SIZES[size]
    lines = tables.paper_lines()
    results = _measured(bars, "the paper's cases", tables.all_cases(lines), PaperReading(), runs)
    others = {
        name: _measured(bars, name, tables.all_cases(_varied(lines)), reading, runs)
        for name, reading in ALTERNATIVES.items()
        if size != "short"
    }
    unions = [by_kind(way, "union") for way in (PASSIVE, UPSTREAM)]
    slow = _measured(bars, "a slow union", unions, PaperReading(union_us=SLOW_UNION_US), runs)
    return outcome(lines, results, others, [slow[case].recovery_ms for case in unions], runs)


def _measured(
    bars: Bars, what: str, cases: Sequence[PaperCase], reading: PaperReading, runs: int
) -> dict[PaperCase, CaseFigures]:
    found = {}
    with bars.bar(what, len(cases)) as at:
        for done, case in enumerate(cases, 1):
            found[case] = measure(case, reading, runs)
            at(done)
    return found


def _varied(lines: Sequence[PaperLine]) -> list[PaperLine]:
    """What other readings are tried on: table 8, where most of them show."""
    return [line for line in lines if line.place == "table 8"]


def outcome(
    lines: Sequence[PaperLine], results: Results, others: Others, slow_union_ms: Sequence[float], runs: int
) -> Outcome:
    """The results. `slow_union_ms`: recovery of passive standby and upstream backup with a slow union."""
    holds = judged(results)
    return Outcome(
        name="recovery-paper",
        title="Ways to survive a crash, by Hwang et al. (ICDE 2005) and by a model: bandwidth and recovery time",
        published=(goals.published("recovery-paper")),
        setup=_setup(runs),
        worse=_worse(lines, results, holds, slow_union_ms),
        columns=["in the paper", "way", "", "for", "paper", "here", "difference"],
        rows=[*(_row(line, results) for line in lines), *_other_rows(lines, results, others)],
        ratios=_ratios(lines, results, holds),
        data={
            "setting": asdict(PaperSetting()),
            "reading": asdict(PaperReading()),
            "cells": list(_cells(lines, results)),
            "conclusions": [{"says": says, "holds": held} for says, held in holds.items()],
            "other_readings": [
                {"reading": name, **cell} for name, found in others.items() for cell in _cells(_varied(lines), found)
            ],
        },
        panels=_panels(lines, results),
    )


def _setup(runs: int) -> str:
    return (
        f"Our own simulation of messages, queues and timers with the parameters of table 5 (H 235-241), {runs} runs a "
        "point, failures spread evenly over the interval. Assumed, since the paper does not say: N' has recovered when "
        "it sends the first output that N had not sent; a window's tuples leave an aggregate's state when the next "
        "window closes; a node receives a tuple, then processes it; timers of nodes are independent; a checkpoint has "
        "a number of 8 bytes; a union takes as long as a filter; each pair of nodes has a link of its own. The last "
        "rows show table 8 by other assumptions. A difference is in points, of a recovery time in percent"
    )


def _worse(
    lines: Sequence[PaperLine], results: Results, holds: Mapping[str, bool], slow_union_ms: Sequence[float]
) -> str:
    broken = [says for says, held in holds.items() if not held]
    told = f"Of {len(holds)} conclusions of the paper {len(holds) - len(broken)} hold here"
    passive, upstream = (tables.largest(lines, results, RECOVERY, way) for way in (PASSIVE, UPSTREAM))
    active_ms = max(abs(ours - theirs) for ours, theirs in _active(lines, results))
    usual = by_kind(UPSTREAM, "aggregate")
    theirs = next(row for row in published.TABLE_6 if (row.way, row.measure) == (UPSTREAM, RECOVERY)).values[1]
    one, *_, five = (results[tables.by_operators(UPSTREAM, n)].recovery_ms for n in published.OPERATORS)
    at_25 = results[by_interval(UPSTREAM, 25)].overhead_percent
    return (
        f"{told}{f', not: {chr(44).join(broken)}' if broken else ''}. Tables 6 to 8: overheads differ by at most "
        f"{tables.largest(lines, results, OVERHEAD):.2f} points, recovery of passive standby by {passive:.0f} %, of "
        f"upstream backup by {upstream:.0f} %, of active standby by {active_ms:.2f} ms. Upstream backup is earlier "
        "here throughout: for the aggregate of table 6 the paper's own analysis (H 99-107) has "
        f"{recovery_ms(usual):.1f} ms, its simulator {theirs} ms, ours {results[usual].recovery_ms:.1f} ms; what its "
        "simulator does beyond the analysis its text does not say. "
        f"Figure 7: 170 ms with five operators (H 317), here {five:.0f} ms: each further operator adds "
        f"{(five - one) / (len(published.OPERATORS) - 1):.0f} ms, its window's tuples once more, in the paper 25 ms. "
        "Figure 6: H 255 has one identifier each 25 ms, 0.64 %; table 6 has 0.64 % at 50 ms, hence two, which at 25 ms "
        f"are {at_25:.2f} %. A union that takes {SLOW_UNION_US} us would recover in "
        f"{slow_union_ms[0]:.1f} ms with passive standby and {slow_union_ms[1]:.1f} ms with upstream backup; the paper "
        "gives no time for it"
    )


def _active(lines: Sequence[PaperLine], results: Results) -> Iterator[tuple[float, float]]:
    for line in lines:
        if (line.place, line.what, line.measure) == ("table 6", ACTIVE, RECOVERY):
            for ours, theirs in zip(line.ours(results), line.paper, strict=True):
                if theirs is not None:
                    yield ours, theirs


def _row(line: PaperLine, results: Results) -> list[str]:
    given = any(theirs is not None for theirs in line.paper)
    sign = "" if line.measure == OVERHEAD else " %"
    return [
        f"{line.place} ({line.lines})" if line.lines else line.place,
        line.what,
        line.measure,
        f"{line.by} {' / '.join(line.columns)}",
        " / ".join("-" if theirs is None else f"{theirs:g}" for theirs in line.paper) if given else "",
        " / ".join(_number(ours, line.measure) for ours in line.ours(results)),
        " / ".join("-" if d is None else f"{d:+.2f}" if not sign else f"{d:+.0f}" for d in line.differences(results))
        + sign
        if given
        else "",
    ]


def _number(value: float, measure: str) -> str:
    return f"{value:.2f}" if measure == OVERHEAD or value < 2 else f"{value:.1f}"


def _other_rows(lines: Sequence[PaperLine], results: Results, others: Others) -> Iterator[list[str]]:
    for name, found in others.items():
        for line in _varied(lines):
            moved = [abs(a - b) for a, b in zip(line.ours(found), line.ours(results), strict=True)]
            if max(moved) > SHOWN:
                yield [f"table 8: {name}", *_row(line, found)[1:]]


def _cells(lines: Sequence[PaperLine], results: Results) -> Iterator[dict[str, object]]:
    for line in lines:
        there = zip(line.columns, line.cases, line.ours(results), line.paper, strict=True)
        for column, case, ours, theirs in there:
            yield {
                "place": line.place,
                "way": line.what,
                "measure": line.measure,
                line.by: column,
                "paper": theirs,
                "lines": line.lines,
                "ours": ours,
                **asdict(results[case]),
            }


def _ratios(lines: Sequence[PaperLine], results: Results, holds: Mapping[str, bool]) -> dict[str, float]:
    """How near we are: 1 is the paper's figure."""

    def near(way: str) -> float:
        return 1 - tables.largest(lines, results, RECOVERY, way) / 100

    return {
        "conclusions that hold": sum(holds.values()) / len(holds),
        "overhead, a point over a point and the largest difference": 1 / (1 + tables.largest(lines, results, OVERHEAD)),
        "recovery of passive standby, ours to the paper's": near(PASSIVE),
        "recovery of upstream backup, ours to the paper's": near(UPSTREAM),
        "recovery, upstream backup to passive standby": results[by_kind(UPSTREAM, "aggregate")].recovery_ms
        / results[by_kind(PASSIVE, "aggregate")].recovery_ms,
        "overhead, passive standby to upstream backup": results[by_interval(PASSIVE, 50)].overhead_percent
        / results[by_interval(UPSTREAM, 50)].overhead_percent,
    }


def _panels(lines: Sequence[PaperLine], results: Results) -> list[Panel]:
    return [
        *(
            Panel(
                title=title,
                x="bandwidth overhead (%)",
                y="recovery time (ms)",
                curves=list(_tradeoffs(place, lines, results)),
            )
            for place, title in (
                ("figure 6", "Figure 6: an interval of 25 to 200 ms"),
                ("figure 7", "Figure 7: 1 to 5 operators"),
            )
        ),
        *(
            Panel(
                title=title,
                x=x,
                y="recovery time (ms)",
                curves=list(_beside(place, lines, results)),
                log_x=place == "table 8",
            )
            for place, title, x in (
                ("table 7", "Table 7: size of the state", "window (tuples)"),
                ("table 8", "Table 8: rate of change of the state", "advance (tuples)"),
            )
        ),
    ]


def _tradeoffs(place: str, lines: Sequence[PaperLine], results: Results) -> Iterator[Curve]:
    ours = {(line.what, line.measure): line.ours(results) for line in lines if line.place == place}
    for what in dict.fromkeys(what for what, _ in ours):
        yield Curve(label=what, x=ours[what, OVERHEAD], y=ours[what, RECOVERY])


def _beside(place: str, lines: Sequence[PaperLine], results: Results) -> Iterator[Curve]:
    for line in lines:
        if line.place == place and line.measure == RECOVERY:
            x = [float(column) for column in line.columns]
            yield Curve(label=f"{line.what}, here", x=x, y=line.ours(results))
            there = [(at, theirs) for at, theirs in zip(x, line.paper, strict=True) if theirs is not None]
            yield Curve(label=f"{line.what}, paper", x=[at for at, _ in there], y=[y for _, y in there], style="points")
