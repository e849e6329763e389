"""`make bench NAME=publish`: rows per second of processor time that a publisher sends, for each way of passing it rows.

The log keeps nothing, so that only the publisher is measured: checks, boundaries, encoding, records, reading back its
own. The yardstick is the same rows encoded as JSON one by one by msgspec, and nothing else. A file is also published
into Kafka, by the clock on the wall.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.load.nowhere import Nowhere
from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions
from borealis_py.api import publisher
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.events import BUCKET_US, SCHEMA, START_US
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.client.ingest import open_rows
from borealis_py.client.publisher import Publisher, wall_us
from borealis_py.client.pump import publish_rows
from borealis_py.client.stimes import Boundaries
from borealis_py.protocol.settings import Timing

YARDSTICK = "msgspec.json.encode, row by row"
INTO_KAFKA = "publish FILE, JSON lines, into Kafka: a second on the wall"
APP = "publish"
GOALS: dict[str, int] = goals("publish")
"""Rows in a second of processor time, all threads."""
FROM_FILE = GOALS["publish FILE, JSON lines"]

PublishedRow = dict[str, object]
Way = Callable[[], int]
"""Publishes all rows once. Returns how many were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSize:
    """`rows`: of each run; `per_bucket`: of those that bear times of their own."""

    rows: int
    runs: int
    per_bucket: int = 500


SIZES = {
    "short": PublishSize(rows=50_000, runs=3),
    "usual": PublishSize(rows=200_000, runs=5),
    "full": PublishSize(rows=1_000_000, runs=9),
}


@dataclass(frozen=True, slots=True)
class PublishFigure:
    """Rows in a second of processor time, all threads; the median of the runs. `of_yardstick`: the median of the ratios
    to the yardstick of the same run. `goal`: rows that are to be reached; None: none is set.
    """

    way: str
    rows_per_cpu_s: float
    of_yardstick: float
    goal: int | None

    @property
    def missed(self) -> bool:
        return self.goal is not None and self.rows_per_cpu_s < self.goal


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure every way, several times, one after the other.

    Raises:
        BenchError: not all rows were sent.
        BrokerError: no Java, or the broker did not start.
    """
    size = SIZES[options.size]
    figures = measure(size, bars)
    with stage_for(options.work, bars) as stage:
        return outcome(figures, size, into_kafka(stage, size, bars))


def into_kafka(stage: Stage, size: PublishSize, bars: Bars) -> float:
    """Rows a second of a file of JSON lines, published in this process, until the last one is in Kafka; the median of
    the runs.

    Raises:
        BenchError: not all rows were sent.
    """
    stage.describe(events.app(APP, 1, 1))
    path, found = stage.work / "rows.jsonl", []
    path.write_bytes(msgspec.json.Encoder().encode_lines(_rows(size)))
    for n in range(size.runs):
        bars.say(f"publish FILE into Kafka, {n + 1} of {size.runs}")
        with publisher("s0", app=APP, bootstrap=stage.log.bootstrap) as to, open_rows(str(path), SCHEMA, None) as rows:
            began = time.monotonic()
            publish_rows(to, rows, positions=False)
            to.flush()
            found.append(size.rows / (time.monotonic() - began))
        if to.counts.sent != size.rows:
            raise BenchError(f"publish FILE into Kafka: {to.counts.sent} of {size.rows} rows were sent")
    return median(found)


def measure(size: PublishSize, bars: Bars) -> list[PublishFigure]:
    """The yardstick first. Raises BenchError: not all rows were sent."""
    with TemporaryDirectory() as directory:
        bars.say("making rows")
        rows = _rows(size)
        ways, encoded = _ways(rows, size, Path(directory)), msgspec.json.Encoder().encode
        gc.collect()
        gc.freeze()  # no real publisher has this many rows in memory, which the garbage collector would visit
        spent: dict[str, list[float]] = {name: [] for name in (YARDSTICK, *ways)}
        try:
            for n in range(size.runs):
                bars.say(f"run {n + 1} of {size.runs}")
                spent[YARDSTICK].append(_cpu_s(lambda: sum(1 for row in rows if encoded(row))))
                for name, way in ways.items():
                    spent[name].append(_cpu_s(way, size.rows, name))
        finally:
            gc.unfreeze()
    return [_figure(name, took, spent[YARDSTICK], size.rows) for name, took in spent.items()]


def outcome(figures: Sequence[PublishFigure], size: PublishSize, into_kafka: float) -> Outcome:
    """The results. Args: figures: the yardstick first. into_kafka: rows a second, see `into_kafka`."""
    yardstick, *ways = figures
    places = [float(n) for n in range(1, len(ways) + 1)]
    reached = Curve(label="reached", x=places, y=[f.rows_per_cpu_s for f in ways], style="bars")
    goals = [(at, float(f.goal)) for at, f in zip(places, ways, strict=True) if f.goal is not None]
    goal = Curve(label="goal", x=[at for at, _ in goals], y=[goal for _, goal in goals], style="points")
    missed = [f"{f.way}: {f.rows_per_cpu_s:,.0f} ({f.goal:,})" for f in ways if f.missed]
    if into_kafka < FROM_FILE:
        missed.append(f"{INTO_KAFKA}: {into_kafka:,.0f} ({FROM_FILE:,})")
    return Outcome(
        name="publish",
        title="Rows that a publisher sends in a second of processor time",
        published=(published("publish")),
        setup=(
            f"{size.rows:,} rows of five fields, some 90 bytes of JSON, into a log that keeps nothing: checks, "
            "boundaries, encoding and records, in all threads, without a broker. Own times: rows bear them, "
            f"{size.per_bucket} in a bucket. Medians of {size.runs} runs. The yardstick encodes the same rows as JSON, "
            "and nothing else. Into Kafka: by the clock on the wall, beside the broker, until the last row is there"
        ),
        worse=(f"Below the goal: {', '.join(missed)}. " if missed else "")
        + f"Publishing row by row takes {1 / ways[0].of_yardstick:.1f} times as long as encoding alone",
        columns=["", "rows a CPU second>", "of encoding alone>", "goal>"],
        rows=[
            [f.way, f"{f.rows_per_cpu_s:,.0f}", f"{f.of_yardstick:.0%}", "" if f.goal is None else f"{f.goal:,}"]
            for f in figures
        ]
        + [[INTO_KAFKA, f"{into_kafka:,.0f}", "", f"{FROM_FILE:,}"]],
        ratios={f"{f.way} / encoding alone": f.of_yardstick for f in ways},
        data={
            "rows": size.rows,
            "runs": size.runs,
            "per_bucket": size.per_bucket,
            "ways": [asdict(f) for f in figures],
            "into_kafka_rows_per_s": into_kafka,
        },
        panels=[
            Panel(
                title="The line: encoding alone",
                x="ways of publishing, in the order of the table",
                y="rows a CPU second",
                curves=[reached, goal],
                bound=yardstick.rows_per_cpu_s,
            )
        ],
    )


def _rows(size: PublishSize) -> list[PublishedRow]:
    return [events.row(i, at_us) for i, at_us in enumerate(_times(size))]


def _times(size: PublishSize) -> list[int]:
    """Of each row, when it bears a time of its own."""
    return [START_US + i * (BUCKET_US // size.per_bucket) for i in range(size.rows)]


def _ways(rows: list[PublishedRow], size: PublishSize, directory: Path) -> dict[str, Way]:
    times = _times(size)
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


def _figure(name: str, took: list[float], yardstick: list[float], rows: int) -> PublishFigure:
    ratios = [alone / each for alone, each in zip(yardstick, took, strict=True)]
    return PublishFigure(name, rows / median(took), median(ratios), GOALS.get(name))
