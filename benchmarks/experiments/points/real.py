"""Points of a simulated grid again, for real: on Kafka, with replicas as processes and publishers on the wall clock.

Nodes pass on everything, and the query half, without windows (the simulator's toy has some, and halves at the first
node). The machine, not a setting, says how fast they run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from benchmarks.experiments.points.simulated import FAILS_US, SOURCES, PointOutcome, SimulatedPoint, outcome_of
from benchmarks.report.runner import ExperimentOptions
from borealis_py import App
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.events import BUCKET_US
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.demo.measure import Arrival, NothingMeasured, measure
from tests.harness.event_feeders import Feeders, FeedPlan
from tests.harness.readers import Heard, Hearing

LOST = 0
"""The source that is lost, as in the simulator."""
LEAD_S = 3
AFTER_S = 4
"""From when the source is back to the last row."""
WORDS = ("TENTATIVE", "STABLE", "BOUNDARY")
REAL = ", real"
"""How they are named beside the simulated ones."""
SIMULATED_ONLY = ("rows_per_s_run", "seed", "oracle")
"""What only a simulated point has, in its data."""
HALF = "CAST(amount * 4 AS BIGINT) % 2 = 0"


def see_for_real(options: ExperimentOptions, points: Sequence[SimulatedPoint], bars: Bars) -> list[PointOutcome]:
    """Run each of these points on a broker of its own.

    Raises:
        BenchError: a publisher or a reader failed, or the streams did not come to their end.
        BrokerError, LaunchError, LogError, SparkUnavailable: something that is measured did not start.
    """
    with stage_for(options.work, bars) as stage:
        return [see(stage, point, n, options.host, bars) for n, point in enumerate(points)]


def see(stage: Stage, point: SimulatedPoint, number: int, host: str, bars: Bars) -> PointOutcome:
    """One point, in an app that is deleted at the end. Raises as `see_for_real`."""
    what = f"for real: {point.depth} nodes, {point.name}, source lost for {point.failure_s} s"
    bars.say(f"starting {point.depth * point.replicas} replicas {what}")
    running = stage.start_replicas(stage.describe(app(f"real-{number}", point)), host)
    stage.wait_ready(running)
    feeders = Feeders(stage, running.state.name)
    feeders.wait_ready()
    with Hearing(stage.log, running.state, events.QUERY, statuses=False) as hearing:
        plan = plan_of(point, (math.ceil(time.time()) + LEAD_S) * 1_000_000)
        with bars.bar(what, plan.seconds) as at:
            feeders.begin(plan)
            hearing.to_the_end(feeders.processes, plan.t0_us, plan.seconds, at)
    healed_us = feeders.fed()[LOST].healed_us
    running.processes.stop()
    stage.forget(running.state)
    return outcome(point, plan, hearing.heard, healed_us)


def app(name: str, point: SimulatedPoint) -> App:
    """A row of nodes that pass everything on; the last one is the query, and passes on half."""
    built = App(name, bucket=f"{BUCKET_US // 1000}ms")
    stream = built.union(*(built.source(f"s{i}", schema=events.SCHEMA) for i in range(SOURCES)))
    for n in range(1, point.depth):
        stream = stream.filter("amount >= 0").node(f"n{n}", replicas=point.replicas)
    failure, stabilization = point.variant
    threshold = f"{round(point.threshold_s * 1000)}ms"
    built.query(events.QUERY, stream.filter(HALF), threshold, failure.value, stabilization.value, point.replicas)
    return built


def plan_of(point: SimulatedPoint, t0_us: int) -> FeedPlan:
    """What is published if the first row is due at `t0_us`."""
    lost_us = t0_us + FAILS_US
    return FeedPlan(
        rate=point.rate,
        t0_us=t0_us,
        seconds=math.ceil(FAILS_US / 1e6) + point.failure_s + AFTER_S,
        silent=LOST,
        silent_from_us=lost_us,
        silent_until_us=lost_us + point.failure_s * 1_000_000,
    )


def outcome(point: SimulatedPoint, plan: FeedPlan, heard: Heard, healed_us: int) -> PointOutcome:
    """What the subscriber saw.

    Args:
        healed_us: when the lost source began to send what it had kept, wall microseconds.

    Raises:
        BenchError: nothing came before the source was lost, or something stayed tentative.
    """
    first, end = plan.t0_us // BUCKET_US, (plan.t0_us + plan.seconds * 1_000_000) // BUCKET_US
    arrivals: list[Arrival] = []
    tentative: set[int] = set()
    words = rows = corrected_us = 0
    for at_us, change in heard:
        if change.kind not in WORDS:
            continue
        spoken = range(max(change.bucket, first), min(change.end, end))
        arrivals += [Arrival(bucket, at_us, change.kind) for bucket in spoken]
        if change.kind == "TENTATIVE":
            words, rows = words + 1, rows + len(change.rows)
            tentative.update(spoken)
        elif tentative:
            tentative.difference_update(spoken)
            corrected_us = corrected_us if tentative else at_us
    if tentative:
        raise BenchError(f"{point}: {len(tentative)} buckets stayed tentative")
    try:
        found = measure(arrivals, BUCKET_US, first, end, plan.silent_from_us)
    except NothingMeasured as exc:
        raise BenchError(f"{point}: {exc}") from exc
    corrected_us = max(0, corrected_us - healed_us)
    return outcome_of(point, found, BUCKET_US, plan.silent_from_us, (rows, words), corrected_us)
