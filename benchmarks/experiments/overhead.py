"""`make bench NAME=overhead`: the cost of buckets, boundaries and checkpoints without failures.

Delay of each row from its publisher to a live subscriber, against the bucket width and the boundary interval. Next to
each run, at the same moments, a plain union: the same rows per second through two topics with bare Kafka clients, which
wait for nothing. Checkpoints: `stalls.py`; the end of a window with many keys: `closing.py`.
"""

from __future__ import annotations

import math
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks.experiments import overhead_tables
from benchmarks.experiments.overhead_tables import Came, Passed, Setting
from benchmarks.load import evenly
from benchmarks.load.evenly import Sending
from benchmarks.measure.loop import closing, stalls
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions
from borealis_py import App
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.figures import BenchError
from borealis_py.bench.processes import tree_cpu_s
from borealis_py.bench.stage import Running, Stage, stage_for
from tests.harness.event_feeders import SOURCES, wait_owned
from tests.harness.readers import Hearing

QUERY = "passed"
WIDTHS_MS = (10, 20, 50, 100, 200, 500)
SHORT = (10, 100)
WARM = Setting(width_ms=10, said_ms=10, seconds=2, run=0, startup_s=0.0)
LEAD_S = 2
"""Time from scheduling the first row until it is due: readers and the plain union open their topics in it."""
RUNS = 3
KEYS = {
    "short": (100_000,),
    "usual": (0, 1_000, 10_000, 100_000, 1_000_000),
    "full": (0, 1_000, 10_000, 100_000, 1_000_000),
}
CLOSING = {
    "short": (100_000,),
    "usual": (10_000, 100_000, 1_000_000),
    "full": (10_000, 100_000, 1_000_000),
}
"""Keys of windows that end."""
SECONDS = {"short": 3.0, "usual": 8.0, "full": 30.0}
"""Of checkpoints, for each number of keys."""


def settings(size: str) -> list[Setting]:
    """Every run."""
    if size == "short":
        return [Setting(width_ms=w, said_ms=w, seconds=3, startup_s=1.0) for w in SHORT]
    if size == "full":
        pairs = [(w, s) for w in WIDTHS_MS for s in WIDTHS_MS if s % w == 0]
        return [Setting(width_ms=w, said_ms=s, seconds=20, run=n) for w, s in pairs for n in range(1, RUNS + 1)]
    narrow = WIDTHS_MS[0]
    pairs = [(w, w) for w in WIDTHS_MS] + [(narrow, s) for s in WIDTHS_MS[2:]]
    return [Setting(width_ms=w, said_ms=s, seconds=12) for w, s in pairs]


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure every run.

    Raises:
        BenchError: a run could not be measured, or rows are missing.
        BrokerError, LaunchError, LogError, SparkUnavailable: what it was to be measured on did not start.
    """
    with stage_for(options.work, bars) as stage:
        measure(stage, WARM, options.host, bars)  # a broker that has just started is slow
        found = [measure(stage, setting, options.host, bars) for setting in settings(options.size)]
        held = [stalls.measure(stage, keys, SECONDS[options.size], bars) for keys in KEYS[options.size]]
        closed = [closing.measure(stage, keys, bars) for keys in CLOSING[options.size]]
    return overhead_tables.outcome(found, held, closed, options.host)


def app(setting: Setting) -> App:
    """One node that passes on the rows of three sources."""
    built = App(setting.app, bucket=f"{setting.width_ms}ms")
    streams = [built.source(f"s{i}", schema=events.SCHEMA) for i in range(SOURCES)]
    built.query(QUERY, built.union(*streams), delay_threshold="3s", replicas=1)
    return built


class Meter:
    """Processor time of the replica's processes, from the end of the start-up phase to the last sample."""

    def __init__(self, running: Running, setting: Setting, tick: Callable[[float], None]) -> None:
        self._running = running
        self._setting = setting
        self._tick = tick
        self._looks: list[tuple[float, float]] = []

    def __call__(self, done_s: float) -> None:
        if self._setting.startup_s <= done_s < self._setting.length_s:
            self._looks.append((time.monotonic(), tree_cpu_s(self._running.pids.values())))
        self._tick(done_s)

    @property
    def percent(self) -> float:
        """Of one core. Raises BenchError: there was no time to look at."""
        if len(self._looks) < 2:
            raise BenchError(f"{self._setting.app}: it was over before its processor time could be read")
        (began, before), (ended, after) = self._looks[0], self._looks[-1]
        return 100 * (after - before) / (ended - began)


def measure(stage: Stage, setting: Setting, host: str, bars: Bars) -> Passed:
    """One run, on a separate app, which is deleted at the end.

    Raises:
        BenchError: a publisher, a reader or the plain union failed, or rows are missing.
        LaunchError: the replica did not start.
    """
    what = f"buckets of {setting.width_ms} ms, boundaries every {setting.said_ms} ms"
    bars.say(f"starting a replica: {what}")
    running = stage.start_replicas(stage.describe(app(setting)), host)
    stage.wait_ready(running)
    sent = stage.work / f"{setting.app}-sent.json"
    said_us = 0 if setting.said_ms == setting.width_ms else setting.said_us
    arguments = stage.log.bootstrap, setting.app, str(said_us), str(sent)
    feeder = stage.module(f"{setting.app}-feed", evenly.__name__, *arguments, stdin=subprocess.PIPE)
    wait_owned(stage, setting.app, {f"{setting.app}-feed": feeder})
    hearing = Hearing(stage.log, running.state, QUERY, statuses=False)
    with hearing, bars.bar(what, setting.length_s) as at:
        t0_us = math.ceil(time.time() + LEAD_S) * 1_000_000
        span = Sending(from_us=t0_us, until_us=t0_us + round(setting.length_s * 1e6))
        united = stage.work / f"{setting.app}-union.json"
        helpers = {f"{setting.app}-feed": feeder, f"{setting.app}-union": _plain_union(stage, setting, span, united)}
        _begin(feeder, span)
        meter = Meter(running, setting, at)
        hearing.to_the_end(helpers, t0_us, setting.length_s, meter)
    running.processes.stop()
    plain = msgspec.json.decode(united.read_bytes(), type=list[tuple[int, int]])
    came, count = arrived(hearing, setting), msgspec.json.decode(sent.read_bytes(), type=int)
    stage.forget(running.state)
    return judge(setting, span, came, plain, count, meter.percent)


def _begin(feeder: subprocess.Popen[bytes], span: Sending) -> None:
    assert feeder.stdin is not None
    with feeder.stdin as to:
        to.write(msgspec.json.encode(span) + b"\n")


def _plain_union(stage: Stage, setting: Setting, span: Sending, out: Path) -> subprocess.Popen[bytes]:
    name = f"{setting.app}-union"
    hops = [name, *(f"{name}-{i}" for i in range(SOURCES))]
    stage.create(*hops)
    when = str(evenly.EVERY_US), str(span.until_us)
    return stage.module(name, "benchmarks.load.ping", stage.log.bootstrap, *when, str(out), *hops)


def arrived(hearing: Hearing, setting: Setting) -> Came:
    """When rows came, by the time at which they were sent."""
    found = Came()
    for wall_us, change in hearing.heard:
        for row in change.rows:
            if change.kind == "TENTATIVE":
                found.tentative.add(row["at"])
            found.live.setdefault(row["at"], wall_us)
            found.closes.setdefault(row["at"], setting.said_at(change.bucket))
    for wall_us, got in hearing.got:
        found.corrected.setdefault(got.value["at"], wall_us)
        found.times[got.value["at"]] += 1
    return found


def judge(
    setting: Setting, span: Sending, came: Came, plain: list[tuple[int, int]], sent: int, cpu_percent: float
) -> Passed:
    """Delays of the rows that were sent after the start.

    Raises:
        BenchError: a row is missing, or there twice.
    """
    counts = Counter(came.times.values())
    if counts != {1: sent} or len(came.live) != sent:
        raise BenchError(
            f"{setting.app}: of {sent} rows {len(came.times)} are in the corrected stream, "
            f"{sum(counts.values()) - counts[1]} of them more than once, and {len(came.live)} in the live one"
        )
    since_us = span.from_us + round(setting.startup_s * 1e6)
    pings = [delay_us for sent_us, delay_us in plain if sent_us >= since_us]
    if not pings:
        raise BenchError(f"{setting.app}: nothing came through the plain union, so there is nothing to compare with")
    judged = [at for at in came.live if at >= since_us]
    return Passed(
        setting=setting,
        live_us=[came.live[at] - at for at in judged],
        after_us=[came.live[at] - came.closes[at] for at in judged],
        corrected_us=[came.corrected[at] - at for at in judged],
        plain_us=pings,
        tentative=len(came.tentative & set(judged)),
        cpu_percent=cpu_percent,
    )
