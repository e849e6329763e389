"""From a bucket's end to its result: rows of a plain topic, and the same rows from our publisher."""

from __future__ import annotations

import threading
import time

from benchmarks.ingress import apps
from benchmarks.ingress.figures import BothWays, WayDelays
from benchmarks.ingress.writer import TopicWriter
from borealis_py.bench.console import Bars
from borealis_py.bench.events import BUCKET_US
from borealis_py.bench.figures import BenchError, first_delays
from borealis_py.bench.stage import Stage
from borealis_py.client.publisher import wall_us
from borealis_py.demo.measure import STARTUP_US
from borealis_py.demo.watch import QueryWatcher
from borealis_py.log import topics

RATE = 450
"""Rows a second."""
LOOK_S = 0.1
END_S = 30.0


def measure(stage: Stage, run: int, seconds: int, bars: Bars) -> BothWays:
    """One run of each way. The writer does the same in both.

    Raises:
        BenchError: the writer or a reader failed, or a result is missing.
        LaunchError: a process did not start.
    """
    return BothWays(_measure(stage, "ours", run, seconds, bars), _measure(stage, "plain", run, seconds, bars))


def _measure(stage: Stage, way: apps.Way, run: int, seconds: int, bars: Bars) -> WayDelays:
    """One run, on a separate app, which is deleted at the end."""
    name = f"ingress-delay-{way}-{run}"
    topic = f"{name}-topic"
    bars.say(f"delay, {way} {run}: starting 2 replicas" + " and 2 ingresses" * (way == "plain"))
    apps.create(stage, topic, appended=True)
    running = stage.start_replicas(stage.describe(apps.one_way(way, name, topic)))
    stage.wait_ready(running)
    stop = threading.Event()
    watcher = QueryWatcher(stage.log, running.state, way, stop)
    watcher.start()
    try:
        writer = TopicWriter(stage, topic, "events", RATE, name if way == "ours" else "-")
        first = (wall_us() + STARTUP_US) // BUCKET_US
        end = first + seconds * 1_000_000 // BUCKET_US
        length_s = seconds + STARTUP_US / 1e6
        with bars.bar(f"delay, {way} {run}", length_s) as at:
            while (left_us := end * BUCKET_US - wall_us()) > -1_000_000:
                _check(watcher)
                writer.check()
                at(min(length_s, length_s - left_us / 1e6))
                time.sleep(LOOK_S)
        late = _counted(stage, watcher, name, writer.stop())
    finally:
        stop.set()
        watcher.join(timeout=10)
    running.processes.stop()
    found = first_delays(watcher.arrivals, first, end, BUCKET_US)
    stage.forget(running.state)
    stage.delete([topic])
    if silent := end - first - len(found):
        raise BenchError(f"{name}: the live view was silent about {silent} buckets")
    return WayDelays([us for us, _ in found.values()], late, sum(kind != "STABLE" for _, kind in found.values()))


def _counted(stage: Stage, watcher: QueryWatcher, app: str, sent: int) -> int:
    """Wait until all rows are in results or dead letters. Returns the number of those. Raises BenchError."""
    deadline = time.monotonic() + END_S
    while True:
        _check(watcher)
        late = len(stage.read(topics.deadletter(app)))
        counted = sum(row["n"] for row in watcher.stable)
        if counted == sent - late:
            return late
        if time.monotonic() > deadline:
            raise BenchError(f"{app}: {sent} rows were sent, {counted} counted, {late} are dead letters")
        time.sleep(LOOK_S)


def _check(watcher: QueryWatcher) -> None:
    if watcher.error is not None:
        raise BenchError(f"the live view of {watcher.query} stopped: {watcher.error}")
