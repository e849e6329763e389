"""Failure-free delay: live tuples from three publishers, two replicas, one live subscriber, all of them processes or
threads as a user has them. The publishers keep step with the wall clock, so a bucket's end is also a wall time.
"""

from __future__ import annotations

import csv
import math
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from borealis_py.bench import events
from borealis_py.bench.figures import BenchError, DelayFigures, Percentiles, first_delays, percentiles, window_ends
from borealis_py.bench.stage import Running, Stage
from borealis_py.demo.measure import STARTUP_US
from borealis_py.demo.watch import QueryWatcher

SOURCES = 3
RATE = 900
"""Tuples a second, all sources together."""
REPLICAS = 2
LEAD_S = 5
"""From deciding when the first tuple is due until then: the publishers start in it."""
BASE_US = 1_000_000
GRACE_S = 30.0
LOOK_S = 0.2

Tick = Callable[[float], None]
"""Called with how many seconds have been published."""


def start_app(stage: Stage, host: str) -> Running:
    """The app, its replicas ready."""
    running = stage.start_replicas(stage.describe(events.app("bench-delay", SOURCES, REPLICAS)), host)
    stage.wait_ready(running)
    return running


def measure(stage: Stage, running: Running, seconds: int, tick: Tick) -> DelayFigures:
    """Publish for `seconds` after a start that does not count, and follow the live view.

    Raises:
        BenchError: a publisher or the live view failed, or results are missing.
    """
    length_s = seconds + STARTUP_US // 1_000_000
    for source in range(SOURCES):
        write_source(stage.work / f"s{source}.csv", source, length_s)
    stop = threading.Event()
    follower = QueryWatcher(stage.log, running.state, events.QUERY, stop)
    follower.start()
    try:
        t0_us = (math.ceil(time.time()) + LEAD_S) * 1_000_000
        _follow(_publishers(stage, running, t0_us), follower, t0_us, length_s, tick)
    finally:
        stop.set()
        follower.join(timeout=10)
    return _figures(follower, t0_us, seconds)


def write_source(path: Path, source: int, seconds: int) -> None:
    """The rows of one source as CSV, evenly spaced, a little apart from those of the others."""
    rate = RATE // SOURCES
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(events.SCHEMA)
        for n in range(rate * seconds):
            at_us = BASE_US + n * 1_000_000 // rate + source * 1_000_000 // RATE
            writer.writerow([at_us, *events.values(n * SOURCES + source)])


def _publishers(stage: Stage, running: Running, t0_us: int) -> list[subprocess.Popen[bytes]]:
    pace = ["--stime", "at", "--speed", "1", "--base", str(BASE_US), "--start", str(t0_us)]
    return [
        stage.borealis(
            f"publish-s{i}", "publish", f"s{i}", str(stage.work / f"s{i}.csv"), "--app", running.state.name, *pace
        )
        for i in range(SOURCES)
    ]


def _follow(
    publishers: list[subprocess.Popen[bytes]], follower: QueryWatcher, t0_us: int, length_s: int, tick: Tick
) -> None:
    deadline = t0_us / 1e6 + length_s + GRACE_S
    while follower.is_alive():
        follower.join(LOOK_S)
        tick(min(length_s, max(0.0, time.time() - t0_us / 1e6)))
        for i, process in enumerate(publishers):
            if process.poll():
                raise BenchError(f"the publisher of s{i} ended with code {process.returncode}; see publish-s{i}.log")
        if time.time() > deadline:
            raise BenchError(f"the results of {length_s} s were not all there {GRACE_S:g} s later")
    if follower.error is not None:
        raise BenchError(f"the live view stopped: {follower.error}")


def _figures(follower: QueryWatcher, t0_us: int, seconds: int) -> DelayFigures:
    width = events.BUCKET_US
    first = (t0_us + STARTUP_US) // width
    end = first + seconds * 1_000_000 // width
    delays = first_delays(follower.arrivals, first, end, width)
    ends = window_ends(delays, width, events.WINDOW_US)
    expected = events.CUSTOMERS * (seconds + STARTUP_US // 1_000_000)
    if follower.stable_rows != expected:
        raise BenchError(f"the live view showed {follower.stable_rows} stable results, expected {expected}")
    windows: Percentiles = percentiles([delays[b][0] for b in ends])
    return DelayFigures(
        tuples_per_s=RATE,
        sources=SOURCES,
        replicas=REPLICAS,
        seconds=seconds,
        tuples=RATE // SOURCES * SOURCES * (seconds + STARTUP_US // 1_000_000),
        results=follower.stable_rows,
        windows=windows,
        buckets=percentiles([us for us, _ in delays.values()]),
        tentative=sum(kind != "STABLE" for _, kind in delays.values()),
        silent=end - first - len(delays),
    )
