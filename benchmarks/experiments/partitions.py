"""`make bench NAME=partitions`: what a second partition gains, beside two apps that know nothing of each other.

With 20 us of work a row the query is the bottleneck, with 3 us reading is. The events wait in a topic, and a node reads
and divides them. `make bench NAME=scaling` has more partitions, Spark slots for redos, and what replicas cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.measure import partitions
from benchmarks.measure.partitions import PartitionSource
from benchmarks.measure.scaling_figures import APPS, OF_UNRELATED, UNRELATED, KeyedFigures
from benchmarks.measure.scaling_tables import HOSTS
from benchmarks.report.goals import published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions, Size
from borealis_py.bench.console import Bars
from borealis_py.bench.stage import stage_for
from borealis_py.runtime.spark import class_archive

PER_BUCKET = 5_000
WORK_US = {4: 20, 1: 3}
"""Length of the names whose distance is taken -> microseconds of work a row, of which goals are set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSizes:
    """`events`: the backlog of each run, by the length of names. `runs`: of each."""

    events: dict[int, int]
    runs: int
    hosts: tuple[str, ...] = ("process", "spark")


SIZES: dict[Size, PartitionSizes] = {
    "short": PartitionSizes(events={4: 100_000, 1: 300_000}, runs=1, hosts=("process",)),
    "usual": PartitionSizes(events={4: 300_000, 1: 1_000_000}, runs=2),
    "full": PartitionSizes(events={4: 1_000_000, 1: 3_000_000}, runs=5),
}
Measured = dict[int, list[KeyedFigures]]
"""By the length of names."""


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure both kinds of work.

    Raises:
        BenchError: a run failed, or gave other results than the first.
        BrokerError, LaunchError, LogError, SparkUnavailable: something to be measured did not start.
    """
    size, found = SIZES[options.size], Measured()
    if "spark" in size.hosts:
        class_archive.prepare(bars.say)
    with stage_for(options.work, bars) as stage:
        for length, events in size.events.items():
            source = PartitionSource.of(events, PER_BUCKET)
            found[length], state = partitions.measure(
                stage, source, length, (1, APPS), size.hosts, size.runs, bars.say, f"bench-{length}"
            )
            stage.forget(state)
    return outcome(found)


def outcome(found: Measured) -> Outcome:
    """The results, by the length of names."""
    (first, *_), *_ = found.values()
    rows = {length: [f for f in figures if f.partitions == APPS] for length, figures in found.items()}
    return Outcome(
        name="partitions",
        title="Two partitions of a query beside one, and beside two unrelated apps",
        published=(published("partitions")),
        setup=(
            f"JSON events that wait in a topic, {PER_BUCKET:,} in a bucket; a node, a process of its own, reads, "
            "filters and divides them by customer; count, sum and mean of an edit distance by customer and second. Two "
            "apps: each with such a node and half of the rows, as plain processes, at once. All results are compared. "
            f"Medians of {first.runs}; ratios are of runs side by side. CPU seconds are per million events, of node "
            "+ query"
        ),
        worse=_worse(found),
        columns=["us a row>", "where", "partitions>", "events/s>", "to one>", "of apps>", "goal>", "CPU s", "limit"],
        rows=[_row(length, one) for length, figures in found.items() for one in figures],
        ratios={
            name: value
            for length, figures in rows.items()
            for one in figures
            for name, value in _ratios(WORK_US[length], one)
        },
        data={"by_length": {str(length): [asdict(one) for one in figures] for length, figures in found.items()}},
        panels=[_panel(length, figures) for length, figures in rows.items()],
    )


def _row(length: int, one: KeyedFigures) -> list[str]:
    judged = one.judged is not None
    return [
        str(WORK_US[length]),
        HOSTS[one.host],
        str(one.partitions),
        f"{one.events_per_s:,.0f}",
        f"{one.ratio:.2f}",
        f"{one.judged:.2f}" if judged else "",
        f"{OF_UNRELATED[length]}" if judged else "",
        f"{one.node_cpu_s:.1f} + {one.query_cpu_s:.1f}",
        one.limit,
    ]


def _ratios(work_us: int, one: KeyedFigures) -> list[tuple[str, float]]:
    name = f"{work_us} us a row, {HOSTS[one.host]}"
    ratios = [(f"{name}: {one.partitions} to one partition", one.ratio)]
    if one.judged is not None:
        ratios.append((f"{name}: {one.partitions} partitions to unrelated apps", one.judged))
    return ratios


def _worse(found: Measured) -> str:
    """Each kind of work that is below its goal, and by how much a second partition falls short of doubling."""
    said = []
    for length, figures in found.items():
        goal = OF_UNRELATED[length]
        best = max(figures, key=lambda f: f.judged or 0.0)
        reached, missed = best.judged or 0.0, f" (goal {goal})"
        said.append(
            f"with {WORK_US[length]} us a row two partitions ({HOSTS[best.host]}) reach {reached:.2f} of what two "
            f"unrelated apps do{missed if reached < goal else ''}, {best.ratio:.2f} times one partition"
        )
    text = "; ".join(said)
    return text[0].upper() + text[1:]


def _panel(length: int, figures: Sequence[KeyedFigures]) -> Panel:
    mine = [f for f in figures if f.host != UNRELATED]
    (apps,) = (f.events_per_s for f in figures if f.host == UNRELATED)
    bars = [
        Curve(label=HOSTS[f.host], x=[float(n)], y=[f.events_per_s], style="bars") for n, f in enumerate(mine, start=1)
    ]
    return Panel(
        title=f"{WORK_US[length]} us a row. The line: two unrelated apps",
        x="two partitions, by where they run",
        y="events/s",
        curves=bars,
        bound=apps,
    )
