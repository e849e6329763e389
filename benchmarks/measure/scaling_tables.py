"""The report of `make bench NAME=scaling` as human-readable tables, which state what is compared with what."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from benchmarks.measure.scaling import ScalingReport
from benchmarks.measure.scaling_figures import OF_UNRELATED, UNRELATED, KeyedFigures, SlotFigures, VolumeFigures
from benchmarks.measure.volume import CONTROL_CLASS
from borealis_py.bench.console import table, where, wide

HOSTS = {"process": "threads of one process", "spark": "Spark tasks", UNRELATED: "apps, half the rows each"}


def show(report: ScalingReport, console: Console) -> None:
    """Print it all."""
    console = wide(console)
    _partitions(report.partitions, report.length, console)
    if report.slots:
        _slots(report.slots, console)
    _volume(report.volume, console)
    where(report, console)


def _partitions(figures: Sequence[KeyedFigures], length: int, console: Console) -> None:
    first = figures[0]
    title = (
        f"Throughput of a query in partitions: {first.events:,} JSON events waiting, an edit distance a row (--length "
        f"{length}), count, sum and\nmean per customer and second. One node before it (a process) reads, filters and "
        "divides by customer. Of apps: what two with half the rows each reach at once, as processes"
        f"{_goal(figures, length)}.\n"
        f"Medians of {first.runs}; CPU seconds are per million events; of the node + of all that runs the query"
    )
    columns = ["partitions", "", "events/s", "to 1", "of apps", "CPU s", "cores busy", "limit"]
    rows = [
        [
            HOSTS[f.host],
            str(f.partitions),
            f"{f.events_per_s:,.0f}",
            f"{f.ratio:.2f}",
            "" if f.of_unrelated is None else f"{f.of_unrelated:.2f}",
            f"{f.node_cpu_s:.1f} + {f.query_cpu_s:.1f}",
            f"{f.node_cores:.1f} + {f.query_cores:.1f}",
            f.limit,
        ]
        for f in figures
    ]
    table(console, title, columns, rows)


def _goal(figures: Sequence[KeyedFigures], length: int) -> str:
    """The goal of the fastest host, and whether it was reached; empty: there is none for this work."""
    goal = OF_UNRELATED.get(length)
    reached = [f.judged for f in figures if f.judged is not None]
    if goal is None or not reached:
        return ""
    return f" (goal {goal}: {'met' if max(reached) >= goal else 'missed'})"


def _slots(figures: Sequence[SlotFigures], console: Console) -> None:
    first = figures[0]
    title = (
        f"Redo of {first.jobs} partitions at once, {first.rows:,} rows in all, as jobs of a warm Spark session; "
        f"medians of {first.runs}.\nOne partition's redo is sequential: slots beyond the partitions, or cores, are idle"
    )
    rows = [[str(f.slots), f"{f.seconds:.2f}", f"{f.tuples_per_s:,.0f}", f"{f.ratio:.2f}"] for f in figures]
    table(console, title, ["Spark slots", "seconds", "tuples/s", "times as fast as with one"], rows)


def _volume(figures: Sequence[VolumeFigures], console: Console) -> None:
    first = figures[0]
    title = (
        f"Bytes in Kafka's log for each byte published (JSON, {first.input_per_s / 1000:,.0f} kB/s, "
        f"{first.tuples_per_s:,} tuples/s), compressed as they lie there,\none copy of each topic: Kafka's own "
        f"replication multiplies all of it. The node passes every tuple on; medians of {first.runs} stretches"
    )
    names = [f"{f.replicas} {'replica' if f.replicas == 1 else 'replicas'}" for f in figures]
    rows = [[name, *(f"{f.share[name]:.3f}" for f in figures)] for name in first.share]
    rows.append(["all", *(f"{f.total:.3f}" for f in figures)])
    table(console, title, ["", *names], rows)
    kbs = " and ".join(f"{f.per_s[CONTROL_CLASS] / 1000:.1f} kB/s" for f in figures)
    console.print(f"{CONTROL_CLASS}: {kbs}, whatever the rate of tuples\n")
    if any(f.tentative for f in figures):
        console.print("some buckets were tentative: the machine did not keep up, and said them twice\n")
