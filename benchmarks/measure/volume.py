"""Bytes in Kafka's log per byte published, with one replica and with two: the price of active replication.

Live, at a steady rate, since control and status records cost per second and not per tuple. Every class of topics is
counted where the broker stores it, compressed as it is there, one copy each.
"""

from __future__ import annotations

import csv
import math
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from benchmarks.load import keyed
from benchmarks.measure.scaling_figures import VolumeFigures, volume_figures
from borealis_py.app.state import AppState, read_statuses
from borealis_py.app.topics import topics_of
from borealis_py.bench import events
from borealis_py.bench.console import Say
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Running, Stage
from borealis_py.log import topics

RATE = 4_000
"""Tuples a second."""
STRETCH_S = 4.0
LEAD_S = 4
"""From deciding when the first tuple is due until then: publishers start in it."""
SETTLE_S = 3.0
"""After the first tuple, before anything is counted."""
BASE_US = 1_000_000

SOURCE_CLASS, NODE_CLASS, QUERY_CLASS = "source", "what replicas of the node say", "what replicas of the query say"
CORRECTED_CLASS, CONTROL_CLASS = "corrected stream", "control, status, progress"
CLASSES = (SOURCE_CLASS, NODE_CLASS, QUERY_CLASS, CORRECTED_CLASS, CONTROL_CLASS)


def measure(stage: Stage, counts: Sequence[int], stretches: int, say: Say) -> list[VolumeFigures]:
    """An app with each number of replicas, all at the same time on the same tuples.

    Raises:
        BenchError: a publisher failed, or nothing was written.
        LaunchError, LogError: something did not start.
    """
    say(f"starting apps with {' and '.join(map(str, counts))} replicas of each node")
    path = stage.work / "volume.csv"
    length_s = math.ceil(SETTLE_S + stretches * STRETCH_S + 2)
    write_source(path, length_s)
    with ExitStack() as stack:
        running = []
        for replicas in counts:
            spec = keyed.app(f"bench-volume-{replicas}", 1, replicas)
            running.append(stage.start_replicas(stage.describe(spec)))
            stack.callback(running[-1].processes.stop)
        for each in running:
            stage.wait_ready(each)
        say(f"bytes on Kafka: {RATE} tuples/s for {length_s} s")
        samples = _publish(stage, path, running, stretches)
        tentative = [tentative_buckets(stage, each.state) for each in running]
    return [
        volume_figures(replicas, RATE, tuple_bytes(), grown(samples, number), tentative[number])
        for number, replicas in enumerate(counts)
    ]


Sample = tuple[float, list[dict[str, int]]]
"""Monotonic seconds, and for each app class -> bytes."""


def _publish(stage: Stage, path: Path, running: Sequence[Running], stretches: int) -> list[Sample]:
    t0 = math.ceil(time.time()) + LEAD_S
    pace = ["--stime", "at", "--speed", "1", "--base", str(BASE_US), "--start", str(t0 * 1_000_000)]
    names = [each.state.name for each in running]
    publishers = [stage.borealis(f"publish-{n}", "publish", keyed.SOURCE, str(path), "--app", n, *pace) for n in names]
    samples: list[Sample] = []
    for number in range(stretches + 1):
        time.sleep(max(0.0, t0 + SETTLE_S + number * STRETCH_S - time.time()))
        for name, process in zip(names, publishers, strict=True):
            if process.poll() is not None:
                raise BenchError(
                    f"the publisher of {name} ended with code {process.returncode}; see publish-{name}.log"
                )
        sizes = [log_sizes(stage.broker.data_dir / "log", classes(each.state)) for each in running]
        samples.append((time.monotonic(), sizes))
    return samples


def grown(samples: Sequence[Sample], app: int) -> list[tuple[float, dict[str, int]]]:
    """Seconds, and what each class of one app's topics grew by, from sample to sample.

    Raises:
        BenchError: the source did not grow.
    """
    found = []
    for (at, before), (until, after) in pairwise(samples):
        by = {name: after[app][name] - before[app][name] for name in CLASSES}
        if by[SOURCE_CLASS] <= 0:
            raise BenchError("nothing was written to the source while bytes were counted")
        found.append((until - at, by))
    return found


def classes(state: AppState) -> dict[str, str]:
    """Topic -> its class, of all that the app has."""
    app, found = state.name, {}
    for spec in topics_of(state.spec):
        found[spec.name] = CONTROL_CLASS
    found[topics.stream(app, keyed.SOURCE)] = SOURCE_CLASS
    found[topics.stream(app, keyed.QUERY)] = CORRECTED_CLASS
    for node, replica in state.replicas():
        kind = NODE_CLASS if node == keyed.NODE else QUERY_CLASS
        found[topics.replica(app, node, replica)] = kind
    return found


def log_sizes(directory: Path, of: Mapping[str, str]) -> dict[str, int]:
    """Bytes of the segments of each class of topics.

    Args:
        directory: of the broker's log, one directory for each partition of a topic. of: topic -> class.
    """
    sizes = dict.fromkeys(of.values(), 0)
    for partition in directory.iterdir():
        name, _, number = partition.name.rpartition("-")
        if name in of and re.fullmatch(r"\d+", number):
            sizes[of[name]] += sum(file.stat().st_size for file in partition.glob("*.log"))
    return sizes


def tuple_bytes() -> float:
    """Mean size of a tuple as JSON, as it is published."""
    return sum(len(events.event_json(i, events.START_US)) for i in range(events.PERIOD)) / events.PERIOD


def write_source(path: Path, seconds: int) -> None:
    """The tuples as CSV, evenly spaced."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(events.SCHEMA)
        for n in range(RATE * seconds):
            writer.writerow([BASE_US + n * 1_000_000 // RATE, *events.values(n)])


def tentative_buckets(stage: Stage, state: AppState) -> int:
    """The most that a replica has counted."""
    statuses = read_statuses(stage.log, state, time.time_ns() // 1_000_000)
    return max((status.tentative_buckets for status in statuses.values()), default=0)
