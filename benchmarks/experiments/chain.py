"""DPC's chain: 1 to 4 nodes in a row, one of three sources lost; delay of new results, and number of tentative ones.

`make bench NAME=chain`. Runs in the simulator (`simulated.py`), some points also for real (`real.py`).
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
    see_with,
)
from benchmarks.report.goals import published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions, Size
from borealis_py.bench.console import Bars

X_S = 3.0
DEPTHS, FAILURES_S = (1, 2, 3, 4), (5, 15, 30, 60)
SHOWN_S, DEEPEST = 15, 4
"""What most panels show: the failure length of 2005, and the longest chain."""
ENDS = (1, DEEPEST)
SEEDS = 3
PP, DD, PS = PUBLISHED
END_TO_END, A_NODE = "end to end", "a node"
AUTHORS: dict[str, tuple[SimulatedPoint, float]] = {
    "1 node of 2 s, 6 s, process": (SimulatedPoint(depth=1, failure_s=6, threshold_s=2, rate=50), 1.83),
    "2 nodes of 2 s, 10 s, process": (SimulatedPoint(depth=2, failure_s=10, threshold_s=4, rate=150), 2.22),
    "2 nodes of 2 s, 10 s, delay": (SimulatedPoint(depth=2, failure_s=10, threshold_s=4, rate=150, variant=DD), 3.74),
}
"""The runs whose largest latency, in seconds, is given by the authors' own logs (DPC)."""


def points(size: Size) -> list[SimulatedPoint]:
    """The worlds of a run, without the authors' own runs."""
    if size == "short":
        return [*_grid(PUBLISHED, ENDS, (5, SHOWN_S)), _point(PP, DEEPEST, SHOWN_S, A_NODE)]
    if size == "full":
        both = [*_grid(VARIANTS, DEPTHS, FAILURES_S), *_grid(VARIANTS, DEPTHS[1:], FAILURES_S, A_NODE)]
        seeds = range(1, SEEDS + 1)
        return [again(p, seed) for p in (*both, *_alone()) for seed in seeds]
    return [
        *_grid(PUBLISHED, DEPTHS, FAILURES_S),
        *_grid(VARIANTS[len(PUBLISHED) :], (DEEPEST,), FAILURES_S),
        *_grid(PUBLISHED, (2, DEEPEST), FAILURES_S, A_NODE),
        *_alone(),
    ]


def real_points(size: Size) -> list[SimulatedPoint]:
    """Those that also run for real, each for about 50 s."""
    deepest = _point(PP, DEEPEST, SHOWN_S)
    if size == "short":
        return [deepest]
    return [_point(PP, 1, SHOWN_S), deepest, *(replace(deepest, variant=v) for v in PUBLISHED[1:])]


def again(point: SimulatedPoint, seed: int) -> SimulatedPoint:
    """The same point with another seed."""
    return replace(point, seed=seed)


def _grid(
    variants: tuple[Variant, ...], depths: tuple[int, ...], failures_s: tuple[int, ...], mode: str = END_TO_END
) -> list[SimulatedPoint]:
    return [_point(v, depth, failure_s, mode) for v in variants for depth in depths for failure_s in failures_s]


def _point(variant: Variant, depth: int, failure_s: int, mode: str = END_TO_END, replicas: int = 2) -> SimulatedPoint:
    x_s = X_S * depth if mode == A_NODE else X_S
    return SimulatedPoint(depth=depth, failure_s=failure_s, threshold_s=x_s, variant=variant, replicas=replicas)


def _alone() -> list[SimulatedPoint]:
    """One replica that suspends, so that no other one continues, as in the paper."""
    return [_point(PS, depth, failure_s, replicas=1) for depth in ENDS for failure_s in FAILURES_S]


def run(options: ExperimentOptions, bars: Bars, processes: int = PROCESSES) -> Outcome:
    """Run the experiment.

    Raises:
        BenchError: an oracle of the simulator failed, or a point could not be measured for real.
        BrokerError, LaunchError, LogError, SparkUnavailable: something that is measured did not start.
    """
    wanted, real = points(options.size), see_for_real(options, real_points(options.size), bars)
    with bars.bar("chains of nodes, simulated", len(wanted) + len(AUTHORS)) as at:
        seen = see_with(at, [*wanted, *(point for point, _ in AUTHORS.values())], processes)
    return outcome(
        PointResults(seen[: len(wanted)]), PointResults(seen[len(wanted) :]), PointResults(real), options.host
    )


def outcome(found: PointResults, authors: PointResults, real: PointResults, host: str) -> Outcome:
    """The results. `authors`: of the authors' own runs; `real`: of points that also ran for real, on `host`."""
    ours = {name: authors.at(point) for name, (point, _) in AUTHORS.items()}
    logs = "; ".join(f"{name}: {AUTHORS[name][1]:.2f} s, here {one.added_s:.2f} s" for name, one in ours.items())
    return Outcome(
        name="chain",
        title="Chains of 1 to 4 nodes, one of three sources lost: delay and tentative results",
        published=(published("chain").format(logs=logs)),
        setup=(
            f"Simulated, but for the rows named real, which ran on Kafka, replicas on host {host}, with nodes that "
            "pass on everything and a query that passes half: this code on simulated clocks and a simulated log, "
            f"{found.rates} rows/s of each of {SOURCES} "
            f"sources, kernels and redos at {ROWS_PER_S} rows/s (dpc: Pentium 4, 334 to 1000/s). The source is cut off "
            "and sends its backlog when it is back. X is end to end here: 3 s a node means X = 3 s x nodes. "
            "Replicas correct one after the other whatever the policy; dpc's suspend had no second replica that "
            "serves, so it is shown with one replica, too. '!': over X"
        ),
        worse="; ".join([*_worse(found), *_over(found, real)]),
        columns=["X", "variant", "replicas>", "nodes>", *(f"{f} s: delay s>" for f in found.failures_s)]
        + [f"{f} s: rows>" for f in found.failures_s],
        rows=[_row(found, key, found.failures_s) for key in found.lines()]
        + [_row(real, key, found.failures_s, REAL) for key in real.lines()],
        ratios={**_ratios(found), **_real_ratios(real)},
        data={
            "points": found.data(),
            "real": real.data(SIMULATED_ONLY),
            "authors": authors.data(),
            "authors_published_s": {name: published_s for name, (_, published_s) in AUTHORS.items()},
        },
        panels=_panels(found, real),
    )


def _row(found: PointResults, key: SimulatedPoint, failures_s: list[int], how: str = "") -> list[str]:
    cells = [found.get(replace(key, failure_s=f)) for f in failures_s]
    x = END_TO_END if key.threshold_s == X_S else A_NODE
    delays = ["" if c is None else f"{c.added_s:.2f}" + ("" if c.within else " !") for c in cells]
    rows = ["" if c is None else f"{c.tentative_rows:,.0f}".replace(",", " ") for c in cells]
    return [f"{key.threshold_s:g} s ({x})", key.name + how, str(key.replicas), str(key.depth), *delays, *rows]


def _over(found: PointResults, real: PointResults) -> list[str]:
    """Whether X was kept by what is to keep it, and what becomes here of what breaks it in the paper."""
    late = [
        f"{p.name}{how} breaks X: {results.at(p).added_s:.1f} s ({p.depth} nodes, {p.failure_s} s, {p.replicas} "
        "replicas)"
        for results, how in ((found, ""), (real, REAL))
        for p in results.broken()
        if p.variant != PS or how
    ]
    suspending = [found.at(p) for p in found.points() if p.variant == PS and p.threshold_s == X_S]
    kept = bool(suspending) and all(cell.within for cell in suspending)
    rate = SimulatedPoint(depth=1, failure_s=1, threshold_s=X_S).rate
    paper = (
        f"process & suspend, which breaks X in the paper, keeps it here, with one replica, too: at {rate} rows/s of "
        "each source a redo takes less than X (where it takes more: `make bench NAME=policies`)"
    )
    return [*late, *([paper] if kept else [])]


def _worse(found: PointResults) -> list[str]:
    parts = []
    deep = found.get(_point(PP, DEEPEST, SHOWN_S, A_NODE))
    if deep is not None:
        parts.append(
            f"With 3 s a node process & process waits {deep.added_s:.1f} s at {DEEPEST} nodes, once, since X is one "
            "budget end to end; dpc's waits about one node's share"
        )
    p, d = found.get(_point(PP, DEEPEST, SHOWN_S)), found.get(_point(DD, DEEPEST, SHOWN_S))
    if p is not None and d is not None:
        parts.append(
            f"process & process shows {p.tentative_rows / d.tentative_rows:.2f} times as many tentative rows as delay "
            f"& delay ({DEEPEST} nodes, {SHOWN_S} s; dpc: no more)"
        )
    broken = found.get(_point(PS, DEEPEST, max(found.failures_s), replicas=1))
    if broken is not None and not broken.within:
        parts.append(f"one replica that suspends is {broken.added_s:.1f} s late ({DEEPEST} nodes)")
    return parts


def _ratios(found: PointResults) -> dict[str, float]:
    """Ratios of points that every size has."""
    shown = _point(PP, DEEPEST, SHOWN_S)
    cell, a_node = found.at(shown), found.at(_point(PP, DEEPEST, SHOWN_S, A_NODE))
    rows = SHOWN_S * SOURCES * shown.rate
    return {
        "X over delay, process & process": X_S / cell.added_s,
        "X over delay, process & process, 3 s a node": X_S * DEEPEST / a_node.added_s,
        "X over delay, delay & delay": X_S / found.at(replace(shown, variant=DD)).added_s,
        "X over delay, process & suspend": X_S / found.at(replace(shown, variant=PS)).added_s,
        "rows in over tentative rows, process & process": rows / cell.tentative_rows,
        "failure over time to correct, process & process": SHOWN_S / cell.corrected_s,
    }


def _real_ratios(real: PointResults) -> dict[str, float]:
    """Of the point that every size has."""
    return {"X over delay, process & process, for real": X_S / real.at(_point(PP, DEEPEST, SHOWN_S)).added_s}


def _panels(found: PointResults, real: PointResults) -> list[Panel]:
    longest = max(found.failures_s)
    bound = Curve(label="X", x=list(DEPTHS), y=[X_S * depth for depth in DEPTHS])
    deep = f"{DEEPEST} nodes"
    return [
        Panel(
            title=f"X = 3 s end to end, {SHOWN_S} s lost",
            x="nodes in a row",
            y="largest added delay (s)",
            curves=[*_by_depth(found, "added_s"), *_by_depth(real, "added_s", replicas=(2,), how=REAL)],
            bound=X_S,
        ),
        Panel(
            title=f"X = 3 s end to end, {SHOWN_S} s lost",
            x="nodes in a row",
            y="tentative rows at the client",
            curves=[*_by_depth(found, "tentative_rows"), *_by_depth(real, "tentative_rows", replicas=(2,), how=REAL)],
        ),
        Panel(
            title=f"X = 3 s end to end, {deep}",
            x="source lost for (s)",
            y="largest added delay (s)",
            curves=_by_failure(found, "added_s"),
            bound=X_S,
        ),
        Panel(
            title=f"X = 3 s end to end, {deep}",
            x="source lost for (s)",
            y="tentative rows at the client",
            curves=_by_failure(found, "tentative_rows"),
        ),
        Panel(
            title=f"3 s a node, {SHOWN_S} s lost",
            x="nodes in a row",
            y="largest added delay (s)",
            curves=[*_by_depth(found, "added_s", A_NODE, (2,)), bound],
        ),
        Panel(
            title=f"{deep}, {longest} s lost",
            x="end of the bucket, since the source was lost (s)",
            y="added delay of its first word (s)",
            curves=found.over_time([p for v in PUBLISHED for p in _both(v, DEEPEST, longest)]),
            bound=X_S,
        ),
    ]


def _both(variant: Variant, depth: int, failure_s: int) -> list[SimulatedPoint]:
    """With two replicas, and with one."""
    two = _point(variant, depth, failure_s)
    return [two, replace(two, replicas=1)]


def _by_depth(
    found: PointResults, what: str, mode: str = END_TO_END, replicas: tuple[int, ...] = (2, 1), how: str = ""
) -> list[Curve]:
    lines = [[_point(v, d, SHOWN_S, mode, n) for d in DEPTHS] for n in replicas for v in VARIANTS]
    return found.curves(lines, what, lambda point: point.depth, how)


def _by_failure(found: PointResults, what: str) -> list[Curve]:
    lines = [[_point(v, DEEPEST, f, replicas=n) for f in FAILURES_S] for n in (2, 1) for v in VARIANTS]
    return found.curves(lines, what, lambda point: point.failure_s)
