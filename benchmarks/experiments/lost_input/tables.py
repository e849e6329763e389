"""The report of `make bench NAME=lost-input`: a table, figures, and published results of others. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import groupby
from statistics import median
from typing import Any

from benchmarks.experiments.lost_input.figures import PHASES, LostFound
from benchmarks.report.outcome import Curve, Outcome, Panel
from borealis_py.bench.figures import Percentiles

PUBLISHED = (
    "Measured on 2 cores at 83be9b7 with Pathway, Kafka Streams and a hand-written loop beside it: peers stall for the "
    "whole silence, or drop 3 900 to 4 500 of 45 000 events without a label, or update results without a label. "
    "83be9b7 took 1.0 to 1.9, 2.6 and 4.7 s from the end of 15, 30 and 60 s of silence to the end of corrections. "
    "Goals: delay at most X, all partial results labelled, none wrong, no event dropped, at most 1.05 tentative "
    "records for each window that is partial; corrections done after 0.5, 0.7 and 1.0 s at 900 events/s, at 10 000 "
    "after 0.5 s and a fiftieth of the silence."
)
COLUMNS = [
    "events/s>",
    "X s>",
    "silent s>",
    "read at",
    *(f"{phase} ms>" for phase in PHASES),
    "labelled>",
    "wrong>",
    "dropped>",
    "per partial>",
    "per final>",
    "corrected in s>",
]

SLOW_RATE = 900
A_PARTIAL = 1.05
"""Tentative records for each partial window, at most."""
GOALS_S = {15: 0.5, 30: 0.7, 60: 1.0}
"""At most so many events a second: seconds of silence -> seconds until all is corrected."""
Key = tuple[int, float, int]
"""Rate, X and silence: the report has medians of several runs of one case."""


def outcome(found: Sequence[LostFound], host: str) -> Outcome:
    """All of it."""
    groups = grouped(found)
    return Outcome(
        name="lost-input",
        title="One of three inputs silent, then everything at once: from a window's end to its result, p50/p99/longest",
        published=PUBLISHED,
        setup=(
            f"Three topics of JSON rows, count and sum of 100 keys by second, two replicas (host {host}). Boundaries "
            "go by the rows' own times. The silence begins a tenth of a second before a window ends. Broker, replicas, "
            "publishers and readers share the machine; no peer runs here. Of fewer than 100 windows p99 is the "
            "longest. Per partial: tentative records of a window that is partial. Per final: tentative and final ones "
            "of all windows for each final one."
        ),
        worse=worse(found),
        columns=COLUMNS,
        rows=[row for key, each in groups for row in (_live_row(key, each), _corrected_row(key, each))],
        ratios={name: value for key, each in groups for name, value in ratios(key, each).items()},
        data={"host": host, "cases": [_json(each) for each in found]},
        panels=_panels(groups),
    )


def grouped(found: Iterable[LostFound]) -> list[tuple[Key, list[LostFound]]]:
    """The runs of each case, in the order of rate, X and silence."""

    def key(each: LostFound) -> Key:
        return each.case.rate, each.case.threshold_s, each.case.silence_s

    return [(k, list(runs)) for k, runs in groupby(sorted(found, key=key), key)]


def ratios(key: Key, runs: Sequence[LostFound]) -> dict[str, float]:
    """What must not get worse: shares of what is promised."""
    rate, x, silence = key
    longest = median(_longest_ms(run) for run in runs)
    healed = _middle(_corrected_s(run) for run in runs)
    all_true = sum(
        run.corrected_finals.right + run.corrected_finals.wrong + run.corrected_finals.missing for run in runs
    )
    words = sum(run.partials.words for run in runs)
    name = f"{rate}/s, X {x:g} s, silent {silence} s"
    found = {
        f"{name}: X / longest live delay": x * 1000 / longest if longest else 0.0,
        f"{name}: partial results that are labelled": sum(r.partials.labelled for r in runs) / words if words else 0.0,
        f"{name}: final results that are right": sum(r.corrected_finals.right for r in runs) / all_true,
        f"{name}: events that are counted": 1 - sum(r.dropped for r in runs) / sum(r.published for r in runs),
    }
    if healed is not None:  # at the goal or better is 1: shorter times differ by chance
        found[f"{name}: goal / time to correct"] = min(1.0, goal_s(rate, silence) / healed)
    return found


def goal_s(rate: int, silence_s: int) -> float:
    """How long corrections may take, live and in the corrected stream, after a silence of this length."""
    slowest = 0.5 + silence_s / 50
    return GOALS_S.get(silence_s, slowest) if rate <= SLOW_RATE else slowest


def _corrected_s(run: LostFound) -> float | None:
    """From the end of the silence to the last correction, whoever reads."""
    ends = [s for s in (run.healing.live, run.healing.corrected) if s is not None]
    return max(ends, default=None)


def worse(found: Sequence[LostFound]) -> str:
    """What it costs, according to the measurement."""
    beyond = [each for each in found if _longest_ms(each) > each.case.threshold_s * 1000]
    slow = [each for each in found if (_corrected_s(each) or 0.0) > _goal_s(each)]
    ahead = median(_p50(each.live["before"]) for each in found)
    while_silent = median(_p50(each.live["during"]) for each in found)
    said = (
        f"While an input is silent a result comes {while_silent:.0f} ms after its window's end instead of {ahead:.0f} "
        "(medians), and the first ones wait for X; who drops what is late goes on at once, with a state that is wrong "
        f"for good. A corrected result of the silence comes after it, as a peer's does that waits. A result waited "
        f"longer than X in {len(beyond)} of {len(found)} cases; corrections were done later than the goal in "
        f"{len(slow)}"
    )
    return said + (f": {', '.join(map(_late, slow))}." if slow else ".") + _broken(found)


def _goal_s(found: LostFound) -> float:
    return goal_s(found.case.rate, found.case.silence_s)


def _late(found: LostFound) -> str:
    case = found.case
    return (
        f"{_corrected_s(found):.2f} s after {case.silence_s} s at {case.rate:,}/s with X = {case.threshold_s:g} s "
        f"({_goal_s(found):g})"
    )


def _broken(found: Sequence[LostFound]) -> str:
    """What was promised and not kept."""
    bad = sum(each.live_finals.bad + each.corrected_finals.bad for each in found)
    unlabelled = sum(each.partials.words - each.partials.labelled for each in found)
    dropped, unheard = sum(each.dropped for each in found), sum(each.unheard for each in found)
    words, windows = (sum(getattr(each.partials, name) for each in found) for name in ("tentative", "windows"))
    said = [
        f"{bad} final results were not as they should be" if bad else "",
        f"{unlabelled} partial results were not labelled" if unlabelled else "",
        f"{dropped} events were not counted" if dropped else "",
        f"{unheard} windows had no result" if unheard else "",
        f"{words / windows:.2f} tentative records came for each partial window (goal: {A_PARTIAL})"
        if windows and words > A_PARTIAL * windows
        else "",
    ]
    return "".join(f" {each}." for each in said if each)


def _live_row(key: Key, runs: Sequence[LostFound]) -> list[str]:
    words, windows = (sum(getattr(r.partials, name) for r in runs) for name in ("words", "windows"))
    records, finals = (sum(getattr(r.partials, name) for r in runs) for name in ("records", "finals"))
    labelled, tentative = (sum(getattr(r.partials, name) for r in runs) for name in ("labelled", "tentative"))
    return [
        *_named(key),
        "live",
        *_phases([run.live for run in runs]),
        f"{labelled} of {words}",
        str(sum(run.live_finals.bad for run in runs)),
        "",
        f"{tentative / windows:.2f}" if windows else "",
        f"{records / finals:.2f}" if finals else "",
        _seconds(_middle(run.healing.live for run in runs)),
    ]


def _corrected_row(key: Key, runs: Sequence[LostFound]) -> list[str]:
    return [
        *_named(key),
        "corrected",
        *_phases([run.corrected for run in runs]),
        "",
        str(sum(run.corrected_finals.bad for run in runs)),
        str(sum(run.dropped for run in runs)),
        "",
        "",
        _seconds(_middle(run.healing.corrected for run in runs)),
    ]


def _named(key: Key) -> list[str]:
    rate, x, silence = key
    return [f"{rate:,}", f"{x:g}", str(silence)]


def _phases(delays: Sequence[dict[str, Percentiles | None]]) -> list[str]:
    return [_percentiles([each[phase] for each in delays]) for phase in PHASES]


def _percentiles(runs: Sequence[Percentiles | None]) -> str:
    """Medians of the runs."""
    there = [each for each in runs if each is not None]
    if not there:
        return "none"
    return "/".join(f"{median(getattr(p, name) for p in there):.0f}" for name in ("p50_ms", "p99_ms", "max_ms"))


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _middle(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return median(there) if there else None


def _p50(of: Percentiles | None) -> float:
    return 0.0 if of is None else of.p50_ms


def _longest_ms(found: LostFound) -> float:
    return max((p.max_ms for p in found.live.values() if p is not None), default=0.0)


def _json(found: LostFound) -> dict[str, Any]:
    told = asdict(found)
    told["healing_s"] = told.pop("healing")
    told["curve_s"] = told.pop("curve")
    return told


def _panels(groups: Sequence[tuple[Key, list[LostFound]]]) -> list[Panel]:
    """The longest silence of each X at the first rate, and how long corrections took."""
    rate = groups[0][0][0]
    first = [(key, runs) for key, runs in groups if key[0] == rate]
    xs = sorted({x for (_, x, _), _ in first})
    found = [_over_time(x, max((k for k in first if k[0][1] == x), key=lambda k: k[0][2])[1][0]) for x in xs]
    times = [_healing_curve(name, value, xs_of) for name, value, xs_of in _healings(groups)]
    bound = "silence, s", "from its end to the end of corrections, s"
    return [*found, Panel(title="Corrections", x=bound[0], y=bound[1], curves=times)]


def _over_time(x: float, found: LostFound) -> Panel:
    at = [end for end, _, _ in found.curve]
    curves = [
        Curve(label="live", x=at, y=[live for _, live, _ in found.curve], style="points"),
        Curve(label="corrected", x=at, y=[corrected for _, _, corrected in found.curve], style="points"),
    ]
    return Panel(
        title=f"X = {x:g} s, silent for {found.case.silence_s} s",
        x="end of the window past the beginning of the silence, s",
        y="until its result, s",
        curves=curves,
        bound=x,
        log_y=True,
    )


Healed = Callable[[LostFound], float | None]


def _healings(
    groups: Sequence[tuple[Key, list[LostFound]]],
) -> list[tuple[str, Healed, list[tuple[Key, list[LostFound]]]]]:
    found: list[tuple[str, Healed, list[tuple[Key, list[LostFound]]]]] = []
    for rate, x in dict.fromkeys(key[:2] for key, _ in groups):
        mine = [(key, runs) for key, runs in groups if key[:2] == (rate, x)]
        found.append((f"live, X = {x:g} s, {rate:,}/s", lambda run: run.healing.live, mine))
        found.append((f"corrected, X = {x:g} s, {rate:,}/s", lambda run: run.healing.corrected, mine))
    return found


def _healing_curve(label: str, of: Healed, groups: Sequence[tuple[Key, list[LostFound]]]) -> Curve:
    points = [(float(key[2]), _middle(of(run) for run in runs)) for key, runs in groups]
    there = [(silence, value) for silence, value in points if value is not None]
    return Curve(label=label, x=[silence for silence, _ in there], y=[value for _, value in there])
