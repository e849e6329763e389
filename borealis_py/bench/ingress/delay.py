"""From a bucket's end to its result: rows of a plain topic, beside the same rows from our publisher."""

from __future__ import annotations

import threading
import time

from borealis_py.bench.ingress import apps
from borealis_py.bench.ingress.figures import SideBySide
from borealis_py.bench.ingress.writer import TopicWriter
from borealis_py.bench.load.events import BUCKET_US
from borealis_py.bench.load.stage import Stage
from borealis_py.bench.report.bars import Bars
from borealis_py.bench.report.figures import BenchError, first_delays
from borealis_py.client.publisher import wall_us
from borealis_py.demo.measure import STARTUP_US
from borealis_py.demo.watch import QueryWatcher
from borealis_py.log import topics

RATE = 450
"""Rows a second, each way."""
LOOK_S = 0.1
END_S = 30.0


def measure(stage: Stage, run: int, seconds: int, bars: Bars) -> SideBySide:
    """One run, on a separate app, which is deleted at the end.

    Raises:
        BenchError: the writer or a reader failed, or a result is missing.
        LaunchError: a process did not start.
    """
    name = f"ingress-delay-{run}"
    topic = f"{name}-plain"
    bars.say(f"delay, run {run}: starting 2 replicas and 2 ingresses")
    apps.create(stage, topic, appended=True)
    running = stage.start_replicas(stage.describe(apps.side_by_side(name, topic)))
    stage.wait_ready(running)
    stop = threading.Event()
    watchers = {query: QueryWatcher(stage.log, running.state, query, stop) for query in (apps.OURS, apps.PLAIN)}
    for watcher in watchers.values():
        watcher.start()
    try:
        writer = TopicWriter(stage, topic, RATE, name)
        first = (wall_us() + STARTUP_US) // BUCKET_US
        end = first + seconds * 1_000_000 // BUCKET_US
        length_s = seconds + STARTUP_US / 1e6
        with bars.bar(f"delay, run {run}", length_s) as at:
            while (left_us := end * BUCKET_US - wall_us()) > -1_000_000:
                _check(watchers)
                writer.check()
                at(min(length_s, length_s - left_us / 1e6))
                time.sleep(LOOK_S)
        sent = writer.stop()
        late = _counted(stage, watchers, name, sent)
    finally:
        stop.set()
        for watcher in watchers.values():
            watcher.join(timeout=10)
    running.processes.stop()
    found = {query: first_delays(w.arrivals, first, end, BUCKET_US) for query, w in watchers.items()}
    stage.forget(running.state)
    stage.delete([topic])
    silent = sum(end - first - len(delays) for delays in found.values())
    if silent:
        raise BenchError(f"{name}: the live views were silent about {silent} buckets")
    ours, plain = ([us for us, _ in found[query].values()] for query in (apps.OURS, apps.PLAIN))
    return SideBySide(ours, plain, late, sum(kind != "STABLE" for d in found.values() for _, kind in d.values()))


def _counted(stage: Stage, watchers: dict[str, QueryWatcher], app: str, sent: int) -> int:
    """Wait until all rows are in results or dead letters. Returns the number of those. Raises BenchError."""
    deadline = time.monotonic() + END_S
    while True:
        _check(watchers)
        late = len(stage.read(topics.deadletter(app)))
        counted = {query: sum(row["n"] for row in watcher.stable) for query, watcher in watchers.items()}
        if counted == {apps.OURS: sent, apps.PLAIN: sent - late}:
            return late
        if time.monotonic() > deadline:
            raise BenchError(f"{app}: {sent} rows were sent, {counted} counted, {late} are dead letters")
        time.sleep(LOOK_S)


def _check(watchers: dict[str, QueryWatcher]) -> None:
    for watcher in watchers.values():
        if watcher.error is not None:
            raise BenchError(f"the live view of {watcher.query} stopped: {watcher.error}")
