"""`make bench NAME=latency`: from the end of a window to its result, live and corrected, without failures.

A bare ping through two topics runs next to each run, at the same moments: the time that broker, clients and machine
take regardless of replicas. Each run is a separate app on one broker; the report has medians of the percentiles of a
case's runs.
"""

from __future__ import annotations

import math
import subprocess
import time
from itertools import product
from pathlib import Path

import msgspec

from benchmarks.experiments import latency_tables
from benchmarks.experiments.latency_tables import LatencyCase, LatencyFound
from benchmarks.experiments.lost_input.figures import (
    corrected_delays,
    finals,
    live_delays,
    tentative_windows,
    truth,
    windows,
)
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.runtime.spark import class_archive
from tests.harness.event_feeders import SOURCES, Feeders, FeedPlan
from tests.harness.readers import Hearing

RATES = (900, 50_000)
FULL_RATES = (900, 10_000, 50_000)
HOSTS = ("process", "spark")
RUNS = 5
OTHER_S = 15
"""Length of the one run on the other host."""
LEAD_S = 3
"""Time from scheduling the first row until it is due: readers and ping open their topics in it."""


def cases(size: str, host: str) -> list[LatencyCase]:
    """Every run, those of a case one after the other. Usual: once on the other host, too."""
    if size == "short":
        return [LatencyCase(host=host, rate=rate, seconds=8) for rate in RATES]
    if size == "full":
        grid = product(HOSTS, (1, 2), FULL_RATES, range(1, RUNS + 1))
        return [LatencyCase(host=h, rate=rate, replicas=replicas, run=run) for h, replicas, rate, run in grid]
    (other,) = (each for each in HOSTS if each != host)
    runs = [LatencyCase(host=host, rate=rate, run=run) for rate, run in product(RATES, range(1, RUNS + 1))]
    return runs + [LatencyCase(host=other, rate=rate, seconds=OTHER_S) for rate in RATES]


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure every run.

    Raises:
        BenchError: a run could not be measured, or its results are wrong.
        BrokerError, LaunchError, LogError, SparkUnavailable: something to be measured did not start.
    """
    wanted = cases(options.size, options.host)
    if any(case.host == "spark" for case in wanted):
        class_archive.prepare(bars.say)
    with stage_for(options.work, bars) as stage:
        found = [measure(stage, case, bars) for case in wanted]
    return latency_tables.outcome(found)


def measure(stage: Stage, case: LatencyCase, bars: Bars) -> LatencyFound:
    """One run, on a separate app, which is deleted at the end.

    Raises:
        BenchError: a publisher, a reader or the ping failed, or the results are not right.
        LaunchError: a replica did not start.
    """
    what = f"{case.rate:,} events/s on host {case.host}, run {case.run}"
    bars.say(f"starting {case.replicas} replica{'s' if case.replicas > 1 else ''}: {what}")
    running = stage.start_replicas(stage.describe(events.app(case.app, SOURCES, case.replicas)), case.host)
    stage.wait_ready(running)
    feeders = Feeders(stage, case.app, "paced")
    feeders.wait_ready()
    hearing = Hearing(stage.log, running.state, events.QUERY, statuses=False)
    with hearing, bars.bar(what, case.length_s) as at:
        t0_us = (math.ceil(time.time()) + LEAD_S) * 1_000_000
        plan = FeedPlan(rate=case.rate // SOURCES, t0_us=t0_us, seconds=case.length_s)
        pinged = stage.work / f"{case.app}-ping.json"
        helpers = {**feeders.processes, f"{case.app}-ping": _ping(stage, case, plan, pinged)}
        feeders.begin(plan)
        hearing.to_the_end(helpers, t0_us, case.length_s, at)
    running.processes.stop()
    found = judge(case, plan, hearing, msgspec.json.decode(pinged.read_bytes(), type=list[tuple[int, int]]))
    stage.forget(running.state)
    return found


def _ping(stage: Stage, case: LatencyCase, plan: FeedPlan, out: Path) -> subprocess.Popen[bytes]:
    """Ten times a second, when buckets end."""
    first, last = hops = f"{case.app}-ping-1", f"{case.app}-ping-2"
    stage.create(*hops)
    until_us = plan.t0_us + plan.seconds * 1_000_000
    when = str(events.BUCKET_US), str(until_us)
    return stage.module(f"{case.app}-ping", "benchmarks.load.ping", stage.log.bootstrap, *when, str(out), last, first)


def judge(case: LatencyCase, plan: FeedPlan, hearing: Hearing, pings: list[tuple[int, int]]) -> LatencyFound:
    """Delays of the windows after the start-up phase.

    Raises:
        BenchError: a result is wrong, missing or duplicated, or nothing came.
    """
    true = truth(plan)
    ends = finals((row.value for _, row in hearing.got), true)
    if ends.bad or ends.counted != SOURCES * plan.count:
        raise BenchError(
            f"{case.app}: of {len(true)} results {ends.wrong} are wrong, {ends.missing} missing, {ends.repeated} "
            f"there twice; {ends.counted} of {SOURCES * plan.count} events are counted"
        )
    judged = [start for starts in windows(plan, case.startup_us).values() for start in starts]
    live, corrected = live_delays(hearing.heard), corrected_delays(hearing.got)
    since_us = plan.t0_us + case.startup_us
    return LatencyFound(
        case=case,
        delays_us={
            "live": [live[start] for start in judged if start in live],
            "corrected": [corrected[start] for start in judged if start in corrected],
            "ping": [delay_us for sent_us, delay_us in pings if sent_us >= since_us],
        },
        tentative=len(tentative_windows(hearing.heard) & set(judged)),
        unheard=sum((start not in live) + (start not in corrected) for start in judged),
    )
