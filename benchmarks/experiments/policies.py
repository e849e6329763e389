"""DPC's six variants of the policies for failure and stabilization, on one node.

`make bench NAME=policies`. Runs in the simulator (`simulated.py`), some points also for real (`real.py`).
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.experiments.points.real import REAL, SIMULATED_ONLY, see_for_real
from benchmarks.experiments.points.simulated import (
    PROCESSES,
    PUBLISHED,
    ROWS_PER_S,
    SOURCES,
    VARIANTS,
    PointResults,
    SimulatedPoint,
    Variant,
    name_of,
    see_with,
)
from benchmarks.report.goals import published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions, Size
from borealis_py.bench.console import Bars

X_S = 3.0
RATE = 1_500
FAILURES_S = {
    "short": (15,),
    "usual": (2, 4, 6, 8, 15, 30, 60),
    "full": (2, 3, 4, 6, 8, 10, 12, 14, 15, 30, 45, 60),
}
"""The failure lengths of benefits2 (DPC, SIGMOD 2005), or some of them."""
SEEDS = {"short": 1, "usual": 1, "full": 3}
SHOWN_S = 15
BOTH = (2, 1)
PP, DD, PS = PUBLISHED


def points(size: Size) -> list[SimulatedPoint]:
    """The worlds of a run."""
    seeds = range(1, SEEDS[size] + 1)
    failures_s = FAILURES_S[size]
    return [replace(_point(v, f, n), seed=s) for n in BOTH for v in VARIANTS for f in failures_s for s in seeds]


def real_points(size: Size) -> list[SimulatedPoint]:
    """Those that also run for real."""
    if size == "short":
        return [_point(PP, SHOWN_S)]
    return [*(_point(v, SHOWN_S) for v in PUBLISHED), _point(PS, SHOWN_S, 1)]


def _point(variant: Variant, failure_s: int, replicas: int = 2) -> SimulatedPoint:
    return SimulatedPoint(depth=1, failure_s=failure_s, threshold_s=X_S, variant=variant, replicas=replicas, rate=RATE)


def run(options: ExperimentOptions, bars: Bars, processes: int = PROCESSES) -> Outcome:
    """Run the experiment.

    Raises:
        BenchError: an oracle of the simulator failed, or a point could not be measured for real.
        BrokerError, LaunchError, LogError, SparkUnavailable: something that is measured did not start.
    """
    wanted, real = points(options.size), see_for_real(options, real_points(options.size), bars)
    with bars.bar("policies of one node, simulated", len(wanted)) as at:
        seen = see_with(at, wanted, processes)
    return outcome(PointResults(seen), PointResults(real), options.host)


def outcome(found: PointResults, real: PointResults, host: str) -> Outcome:
    """The results. `real`: of points that also ran for real, on `host`."""
    return Outcome(
        name="policies",
        title="Six variants on one node, X = 3 s: delay and tentative results against the length of a failure",
        published=(published("policies")),
        setup=(
            f"Simulated, but for the rows named real, which ran on Kafka, replicas on host {host}: this code on "
            f"simulated clocks and a simulated log, {RATE} rows/s of each of {SOURCES} sources "
            f"(dpc: the same), kernels and redos at {ROWS_PER_S} rows/s. Of rows in, the toy query passes half. dpc's "
            "& suspend had no second replica that serves, its others had one that never corrected: here all variants "
            "with one replica and with two, of which one corrects while the other serves whatever the policy is. '!': "
            "over X"
        ),
        worse="; ".join(part for part in (_worse(found), *_over(real)) if part),
        columns=["replicas>", "source lost for s>", *(f"{name_of(v)}: s / rows>" for v in VARIANTS)],
        rows=[_row(found, n, f) for n in BOTH for f in found.failures_s]
        + [_row(real, n, SHOWN_S, REAL) for n in sorted({p.replicas for p in real.lines()}, reverse=True)],
        ratios={**_ratios(found), **_real_ratios(real)},
        data={"points": found.data(), "real": real.data(SIMULATED_ONLY)},
        panels=_panels(found, real),
    )


def _row(found: PointResults, replicas: int, failure_s: int, how: str = "") -> list[str]:
    cells = [found.get(_point(v, failure_s, replicas)) for v in VARIANTS]
    return [
        str(replicas),
        f"{failure_s}{how}",
        *("" if c is None else f"{c.added_s:.2f}{'' if c.within else ' !'} / {c.tentative_rows:.0f}" for c in cells),
    ]


def _over(real: PointResults) -> list[str]:
    """Points that broke X for real."""
    return [
        f"{p.name}{REAL} breaks X: {real.at(p).added_s:.1f} s with {p.replicas} replica{'s' * (p.replicas > 1)}"
        for p in real.broken()
    ]


def _worse(found: PointResults) -> str:
    worst: dict[tuple[Variant, int], SimulatedPoint] = {}
    for point in sorted(found.broken(), key=lambda p: found.at(p).added_s):
        worst[point.variant, point.replicas] = point
    late = [
        f"{p.name} with {p.replicas} replica{'s' * (p.replicas > 1)} is {found.at(p).added_s:.1f} s late after "
        f"{p.failure_s} s"
        for p in worst.values()
    ]
    over = f"Over X = {X_S:g} s: {', '.join(late)}" if late else ""
    p, d = found.get(_point(PP, SHOWN_S)), found.get(_point(DD, SHOWN_S))
    more = ""
    if p is not None and d is not None:
        more = (
            f"process & process shows {p.tentative_rows / d.tentative_rows:.2f} times as many tentative rows as delay "
            f"& delay ({SHOWN_S} s)"
        )
    return "; ".join(part for part in (over, more) if part)


def _ratios(found: PointResults) -> dict[str, float]:
    """Of points that every size has."""
    shown = _point(PP, SHOWN_S)
    bounds = {f"X over delay, {name_of(v)}": X_S / found.at(replace(shown, variant=v)).added_s for v in VARIANTS}
    rows = SHOWN_S * SOURCES * RATE
    return {
        **bounds,
        "rows in over tentative rows, process & process": rows / found.at(shown).tentative_rows,
        "rows in over tentative rows, delay & delay": rows / found.at(replace(shown, variant=DD)).tentative_rows,
        "failure over time to correct, process & process": SHOWN_S / found.at(shown).corrected_s,
    }


def _real_ratios(real: PointResults) -> dict[str, float]:
    """Of the point that every size has."""
    return {"X over delay, process & process, for real": X_S / real.at(_point(PP, SHOWN_S)).added_s}


def _panels(found: PointResults, real: PointResults) -> list[Panel]:
    longest = max(found.failures_s)
    return [
        *(
            Panel(
                title=f"{name}, X = 3 s",
                x="source lost for (s)",
                y=y,
                curves=[*_curves(found, what, n), *_curves(real, what, n, REAL)],
                bound=X_S if what == "added_s" else None,
            )
            for n, name in ((2, "two replicas"), (1, "one replica"))
            for what, y in (("added_s", "largest added delay (s)"), ("tentative_rows", "tentative rows at the client"))
        ),
        Panel(
            title=f"two replicas, {longest} s lost",
            x="end of the bucket, since the source was lost (s)",
            y="added delay of its first word (s)",
            curves=found.over_time(_point(v, longest) for v in PUBLISHED),
            bound=X_S,
        ),
        Panel(
            title=f"one replica, {longest} s lost",
            x="end of the bucket, since the source was lost (s)",
            y="added delay of its first word (s)",
            curves=found.over_time(_point(v, longest, 1) for v in PUBLISHED),
            bound=X_S,
        ),
    ]


def _curves(found: PointResults, what: str, replicas: int, how: str = "") -> list[Curve]:
    lines = [[_point(v, f, replicas) for f in found.failures_s] for v in VARIANTS]
    return found.curves(lines, what, lambda point: point.failure_s, how)
