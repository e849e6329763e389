"""`borealis bench publish`: rows per second of processor time that a publisher sends, for each way of passing it rows.

The log keeps nothing, so that only the publisher is measured: checks, boundaries, encoding, records, reading back its
own. The yardstick is the same rows encoded as JSON one by one by msgspec, and nothing else.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from rich.console import Console

from borealis_py.bench.load.events import BUCKET_US, SCHEMA, START_US, values
from borealis_py.bench.load.nowhere import Nowhere
from borealis_py.bench.report.bars import bars_on
from borealis_py.bench.report.figures import BenchError
from borealis_py.bench.report.machine import BenchMachine, Measured
from borealis_py.bench.report.tables import table, where, wide
from borealis_py.client.ingest import open_rows
from borealis_py.client.publisher import Publisher, wall_us
from borealis_py.client.pump import publish_rows
from borealis_py.client.stimes import Boundaries
from borealis_py.protocol.settings import Timing

YARDSTICK = "msgspec.json.encode, row by row"

PublishedRow = dict[str, object]
Way = Callable[[], int]
"""Publishes all rows once. Returns how many were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """`rows`: of each run; `per_bucket`: of those that bear times of their own."""

    rows: int = 200_000
    per_bucket: int = 500
    runs: int = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """Rows in a second of processor time, all threads; the median of the runs. `of_yardstick`: the median of the ratios
    to the yardstick of the same run.
    """

    way: str
    rows_per_cpu_s: float
    of_yardstick: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReport(Measured):
    """`row_bytes`: of its JSON, on average."""

    rows: int
    per_bucket: int
    runs: int
    row_bytes: float
    figures: list[Figure]


def run(options: PublishOptions, console: Console) -> PublishReport:
    """Measure every way, `runs` times, one after the other.

    Raises:
        BenchError: not all rows were sent.
    """
    started, load = time.monotonic(), os.getloadavg()[0]
    with TemporaryDirectory() as directory, bars_on(console) as bars:
        bars.say("making rows")
        rows = [_row(i, options.per_bucket) for i in range(options.rows)]
        ways, encoded = _ways(rows, options, Path(directory)), msgspec.json.Encoder().encode
        gc.collect()
        gc.freeze()  # no real publisher has this many rows in memory, which the garbage collector would visit
        spent: dict[str, list[float]] = {name: [] for name in (YARDSTICK, *ways)}
        try:
            for n in range(options.runs):
                bars.say(f"run {n + 1} of {options.runs}")
                spent[YARDSTICK].append(_cpu_s(lambda: sum(1 for row in rows if encoded(row))))
                for name, way in ways.items():
                    spent[name].append(_cpu_s(way, options.rows, name))
        finally:
            gc.unfreeze()
    return PublishReport(
        machine=BenchMachine.now(load),
        seconds=time.monotonic() - started,
        rows=options.rows,
        per_bucket=options.per_bucket,
        runs=options.runs,
        row_bytes=sum(len(encoded(row)) for row in rows) / len(rows),
        figures=[_figure(name, took, spent[YARDSTICK], options.rows) for name, took in spent.items()],
    )


def show(report: PublishReport, console: Console) -> None:
    """The report as a table."""
    console = wide(console)
    title = (
        f"Publishing: {report.rows:,} rows of five fields, {report.row_bytes:.0f} bytes of JSON, into a log that keeps "
        f"nothing\nown times: {report.per_bucket:,} rows a bucket. Medians of {report.runs} runs"
    )
    figures = [[f.way, f"{f.rows_per_cpu_s:,.0f}", f"{f.of_yardstick:.0%}"] for f in report.figures]
    table(console, title, ["", "rows per CPU second", "of encoding alone"], figures)
    where(report, console)


def _row(i: int, per_bucket: int) -> PublishedRow:
    customer, amount, shop, kind = values(i)
    at_us = START_US + i * (BUCKET_US // per_bucket)
    return {"at": at_us, "customer": customer, "amount": amount, "shop": shop, "kind": kind}


def _ways(rows: list[PublishedRow], options: PublishOptions, directory: Path) -> dict[str, Way]:
    times = [START_US + i * (BUCKET_US // options.per_bucket) for i in range(len(rows))]
    jsonl, plain = directory / "rows.jsonl", directory / "rows.csv"
    jsonl.write_bytes(msgspec.json.Encoder().encode_lines(rows))
    plain.write_text("\n".join([",".join(SCHEMA), *(",".join(map(str, row.values())) for row in rows), ""]))

    def each(publisher: Publisher) -> None:
        send = publisher.send
        for row in rows:
            send(row)

    def each_timed(publisher: Publisher) -> None:
        send = publisher.send
        for row, at_us in zip(rows, times, strict=True):
            send(row, at_us)

    def file(path: Path, column: str | None) -> Callable[[Publisher], None]:
        def publish(publisher: Publisher) -> None:
            with open_rows(str(path), SCHEMA, column) as source:
                publish_rows(publisher, source, timed=column is not None)

        return publish

    return {
        "send": _way(each, Boundaries.CLOCK),
        "send, own times": _way(each_timed, Boundaries.DATA),
        "send_many": _way(lambda publisher: publisher.send_many(rows), Boundaries.CLOCK),
        "send_many, own times": _way(lambda publisher: publisher.send_many(rows, times), Boundaries.DATA),
        "publish FILE, JSON lines": _way(file(jsonl, None), Boundaries.CLOCK),
        "publish FILE, JSON lines, own times": _way(file(jsonl, "at"), Boundaries.DATA),
        "publish FILE, CSV": _way(file(plain, None), Boundaries.CLOCK),
        "publish FILE, CSV, own times": _way(file(plain, "at"), Boundaries.DATA),
    }


def _way(publish: Callable[[Publisher], Any], boundaries: Boundaries) -> Way:
    """One run: a source of its own, all rows in it, delivered."""

    def once() -> int:
        origin = (START_US if boundaries is Boundaries.DATA else wall_us()) // BUCKET_US
        source: Any = Nowhere(), "bench", "life", "s", SCHEMA, BUCKET_US, origin
        publisher = Publisher(*source, ahead_max_us=Timing().ahead_max_us, boundaries=boundaries)
        with publisher:
            publish(publisher)
        return publisher.counts.sent

    return once


def _cpu_s(way: Way, rows: int | None = None, name: str = "") -> float:
    """Seconds of processor time that it takes, in all threads."""
    started = time.process_time()
    sent = way()
    took = time.process_time() - started
    if rows is not None and sent != rows:
        raise BenchError(f"{name}: {sent} of {rows} rows were sent")
    return took


def _figure(name: str, took: list[float], yardstick: list[float], rows: int) -> Figure:
    ratios = [alone / each for alone, each in zip(yardstick, took, strict=True)]
    return Figure(name, rows / median(took), median(ratios))
