"""The report of `borealis bench quick` as human-readable tables, which state what is compared with what."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from borealis_py.bench.console import table, where, wide
from borealis_py.bench.figures import (
    DelayFigures,
    FirstTestFigures,
    Percentiles,
    ProcessMemory,
    RedoFigures,
    ThroughputFigures,
)
from borealis_py.bench.quick import QuickReport


def show(report: QuickReport, console: Console) -> None:
    """Print it all."""
    console = wide(console)
    _delay(report.delay, console)
    _throughput(report.throughput, console)
    _redo(report.redo, console)
    _memory(report.memory, console)
    _first_test(report.first_test, console)
    where(report, console)


def _delay(d: DelayFigures, console: Console) -> None:
    title = (
        f"Failure-free delay past the end, at the live subscriber\n"
        f"{d.tuples_per_s} tuples/s over {d.sources} sources, {d.replicas} replicas, {d.seconds} s"
    )

    def row(what: str, p: Percentiles) -> list[str]:
        return [what, str(p.count), f"{p.p50_ms:.1f}", f"{p.p99_ms:.1f}", f"{p.max_ms:.1f}"]

    rows = [row("results of a 1 s window", d.windows), row("every 100 ms bucket", d.buckets)]
    table(console, title, ["", "count", "p50 ms", "p99 ms", "max ms"], rows)
    if d.tentative or d.silent:
        console.print(
            f"{d.tentative} buckets were tentative and {d.silent} not heard of: the machine did not keep up\n"
        )


def _throughput(t: ThroughputFigures, console: Console) -> None:
    title = (
        f"Throughput: {t.events:,} JSON events waiting, count and sum per customer and second, JSON results\n"
        f"raw loop: one event a record, orjson and a dict, nothing kept. Replica: {t.per_record:,} events a record "
        f"(as a publisher\nbatches a bucket, up to {t.record_bytes:,} bytes), own topic, checkpoints, corrected stream "
        "in transactions"
    )
    rows = [
        [run.program, f"{run.seconds:.2f}", f"{run.cpu_s:.2f}", f"{run.events_per_s:,.0f}"]
        for run in (t.raw[0], t.replica, *t.raw[1:])
    ]
    rows.append(["replica / fastest raw loop", "", f"{t.cpu_ratio:.0%}", f"{t.ratio:.0%}"])
    table(console, title, ["", "seconds", "CPU seconds", "events/s"], rows)


def _redo(redos: Sequence[RedoFigures], console: Console) -> None:
    title = (
        f"Redo: one job, tuples/s, median of {redos[0].runs}\n"
        "inline: rows in memory, decoded. process, Spark (warm): the log read again by a thread or by a Spark task"
    )
    rows = [
        [
            f"{r.rows:,} {r.what}, {r.buckets} buckets",
            f"{r.memory_per_s:,.0f}",
            f"{r.thread_per_s:,.0f}",
            "" if r.spark_per_s is None else f"{r.spark_per_s:,.0f}",
            "" if r.spark_to_memory is None else f"{r.spark_to_memory:.2f}",
            "" if r.spark_to_thread is None else f"{r.spark_to_thread:.2f}",
        ]
        for r in redos
    ]
    table(console, title, ["", "inline", "process", "Spark", "Spark/inline", "Spark/process"], rows)


def _memory(processes: Sequence[ProcessMemory], console: Console) -> None:
    rows = [[p.process, f"{p.rss_mb:.0f}", "" if p.pss_mb is None else f"{p.pss_mb:.0f}"] for p in processes]
    shared = [p.pss_mb for p in processes if p.pss_mb is not None]
    rows.append(["all", f"{sum(p.rss_mb for p in processes):.0f}", f"{sum(shared):.0f}" if shared else ""])
    title = "Memory after the delay run (PSS counts shared pages once)"
    table(console, title, ["process", "RSS MB", "PSS MB"], rows)


def _first_test(f: FirstTestFigures, console: Console) -> None:
    title = f"A first test of an app, no broker and no Java: new processes, median of {f.runs}"
    rows = [
        ["imports", f"{f.import_s:.2f}"],
        ["run of two sources", f"{f.run_s:.2f}"],
        ["World that loses an input for 8 s", f"{f.world_s:.2f}"],
    ]
    table(console, title, ["", "seconds"], rows)
