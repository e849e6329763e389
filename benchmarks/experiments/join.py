"""`make bench NAME=join`: how long a bucket of a join takes in the engine, without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.measure.kernel.joins import JoinFigures, JoinOptions, measure
from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench.console import Bars

HOWS = ("inner", "left")
GOAL_MS: float = goals("join")["p99_ms"]

Case = tuple[str, JoinOptions]


def cases(size: str) -> list[Case]:
    """How, and of what. The largest comes last; a tenth of the kept rows before it shows what keeping costs."""
    rows = 2_000 if size == "short" else 10_000
    within = (1, 10) if size == "short" else (6, 60)
    buckets = {"short": 50, "usual": 300, "full": 1_000}[size]
    keys = 100_000 if size != "short" else 10_000
    return [
        (how, JoinOptions(rows_per_s=rows, within_s=seconds, keys=keys, buckets=buckets))
        for how in HOWS
        for seconds in within
    ]


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure everything. Raises BenchError: a join gave no pairs."""
    wanted = cases(options.size)
    return outcome(wanted, [measure(how, case, bars) for how, case in wanted])


def outcome(wanted: Sequence[Case], found: Sequence[JoinFigures]) -> Outcome:
    """The whole report."""
    measured = list(zip(wanted, found, strict=True))
    largest = max(case.within_s for _, case in wanted)
    late = [f"{how} join, p99 {f.bucket.p99_ms:.0f} ms" for (how, _), f in measured if f.bucket.p99_ms >= GOAL_MS]
    p50s = {(how, case.within_s == largest): f.cpu.p50_ms for (how, case), f in measured}
    _, case = wanted[-1]
    panels = [
        Panel(
            title=f"Kept for {seconds} s",
            x="percentile",
            y="ms of a bucket",
            bound=GOAL_MS,
            curves=[
                Curve(label=f"{how} join", x=[50.0, 99.0, 100.0], y=[f.bucket.p50_ms, f.bucket.p99_ms, f.bucket.max_ms])
                for (how, c), f in measured
                if c.within_s == seconds
            ],
        )
        for seconds in sorted({c.within_s for _, c in wanted})
    ]
    return Outcome(
        name="join",
        title=f"A join of {case.rows_per_s:,} rows/s over both sides, {case.keys:,} keys: a bucket of 100 ms",
        published=published("join"),
        setup=(
            "The engine alone, on rows that are decoded already, once the rows of the whole interval are kept: what a "
            f"replica adds to a bucket's delay by the join itself. {case.buckets} buckets each."
        ),
        worse=f"Above the goal: {', '.join(late)}." if late else "No bucket at p99 reaches the goal's 40 ms.",
        columns=[
            "join",
            "kept for>",
            "p50 ms>",
            "p99 ms>",
            "max ms>",
            "p50 CPU ms>",
            "p99 CPU ms>",
            "pairs a bucket>",
            "rows kept>",
            "bytes a row>",
        ],
        rows=[
            [
                how,
                f"{c.within_s} s",
                *(f"{ms:.1f}" for ms in (f.bucket.p50_ms, f.bucket.p99_ms, f.bucket.max_ms)),
                f"{f.cpu.p50_ms:.1f}",
                f"{f.cpu.p99_ms:.1f}",
                f"{f.pairs:,.0f}",
                f"{f.kept:,}",
                f"{f.state_bytes / f.kept:.0f}",
            ]
            for (how, c), f in measured
        ],
        ratios={f"{how} join, a tenth of the rows kept to all": p50s[how, False] / p50s[how, True] for how in HOWS},
        data={"joins": [{**asdict(c), **asdict(f)} for (_, c), f in measured]},
        panels=panels,
    )
