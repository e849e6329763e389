"""Topics that are full before an app begins: whether every row is counted in time, and the topics keep in step."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ingress import apps
from benchmarks.ingress.figures import Catching
from benchmarks.ingress.in_step import CopiedLog, longest_lead_us
from benchmarks.ingress.source_follower import SourceFollower
from borealis_py.app import launch
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Running, Stage
from borealis_py.client.publisher import wall_us
from borealis_py.demo.watch import QueryWatcher
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord

SECOND_US = 1_000_000
SHARES = (0.6, 0.3, 0.1)
SPANS = (1.0, 0.6, 0.3)
"""Of all rows, and of the longest topic's time: three topics of uneven length."""
TIMEOUT_S = 240.0
FRONT_EVERY_S = 0.05
DEAD_EVERY_S = 1.0


def plan(rows: int, seconds: int) -> list[tuple[int, int]]:
    """Rows and seconds of each topic. `rows`: of all; `seconds`: of the longest."""
    return [(round(rows * share), round(seconds * span)) for share, span in zip(SHARES, SPANS, strict=True)]


def written(start_us: int, rows: int, seconds: int, place: int) -> Iterator[bytes]:
    """The rows of one topic, evenly over its time."""
    return (events.event_json(3 * n + place, stime_of(n, start_us, rows, seconds)) for n in range(rows))


def stime_of(n: int, start_us: int, rows: int, seconds: int) -> int:
    """Of row `n` of a topic."""
    return start_us + n * seconds * SECOND_US // rows


def measure(stage: Stage, rows: int, seconds: int, bars: Bars) -> Catching:
    """One run, on a separate app.

    Raises:
        BenchError: not every row is counted or a dead letter in time, or a process ended.
        LaunchError: a process did not start.
    """
    name, wanted = f"ingress-catching-{rows // seconds}", plan(rows, seconds)
    names = [f"{name}-{place}" for place in range(len(wanted))]
    apps.create(stage, *names)
    start_us = (wall_us() // SECOND_US - seconds - 30) * SECOND_US  # all of it is past
    bars.say(f"filling three topics with {rows:,} events")
    for place, (count, span_s) in enumerate(wanted):
        feed = Feed(names[place])
        stage.fill(NewRecord(feed, value) for value in written(start_us, count, span_s, place))
    bars.say("starting 2 replicas")
    state = stage.describe(apps.union(name, names), str(start_us))
    running = stage.start_replicas(state, names=[ProcessName(0), ProcessName(1)])
    stage.wait_ready(running)
    stop = threading.Event()
    watcher = QueryWatcher(stage.log, state, apps.PLAIN, stop)
    watcher.start()
    try:
        with SourceFollower(stage.log, name, [f"t{place}" for place in range(len(wanted))]) as follower:
            ingresses = [ProcessName(k, ingress=True) for k in range(2)]
            spec = ProcessSpec.unconfigured(stage.log, Path(stage.work), "process")
            running.pids = launch.start_processes(state, running.processes, spec, [*running.pids, *ingresses])
            found = _watched(stage, running, watcher, follower, wanted, start_us, bars)
    finally:
        stop.set()
        watcher.join(timeout=10)
    running.processes.stop()
    stage.forget(state)
    stage.delete(names)
    return found


def _watched(
    stage: Stage,
    running: Running,
    watcher: QueryWatcher,
    follower: SourceFollower,
    wanted: list[tuple[int, int]],
    start_us: int,
    bars: Bars,
) -> Catching:
    """Until every row is in a result or a dead letter."""
    total = sum(count for count, _ in wanted)
    logs, fronts = [CopiedLog() for _ in wanted], list[int | None]([None] * len(wanted))
    line: list[list[tuple[float, float]]] = [[] for _ in wanted]
    began, noted, looked, dead = 0.0, 0.0, 0.0, 0
    deadline = time.monotonic() + TIMEOUT_S
    with bars.bar(f"catching up with {total:,} events", total) as at:
        while True:
            for place, offset, count, stime in follower.poll():
                began = began or time.monotonic()
                logs[place].add(offset, count, stime)
                fronts[place] = max(stime, fronts[place] or 0)
            now = time.monotonic()
            if began and now - noted > FRONT_EVERY_S:
                noted = now
                follower.look()
                for place, front in enumerate(fronts):
                    if front is not None:
                        line[place].append((now - began, (front - start_us) / 1e6))
            counted = sum(row["n"] for row in watcher.stable)
            at(counted)
            if counted + dead >= total:
                break
            if watcher.error is not None:
                raise BenchError(f"the live view stopped: {watcher.error}")
            if now > deadline:
                raise BenchError(
                    f"{counted} of {total} rows were counted and {dead} dead letters after {TIMEOUT_S:g} s"
                )
            if began and now - looked > DEAD_EVERY_S:
                looked, dead = now, len(stage.read(topics.deadletter(running.state.name)))
    seconds = time.monotonic() - began
    tentative = len({arrival.bucket for arrival in watcher.arrivals if arrival.kind != "STABLE"})
    rows, spans = [count for count, _ in wanted], [span for _, span in wanted]
    lead = longest_lead_us(logs, follower.moments, rows, lambda place, n: stime_of(n, start_us, *wanted[place]))
    return Catching(rows, spans, seconds, counted, dead, tentative, lead / 1e6, line)
