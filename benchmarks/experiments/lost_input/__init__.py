"""`make bench NAME=lost-input`: one of three inputs falls silent, and later sends everything at once.

Each case is a separate app on one broker: two replicas, one publisher process per source, a live subscriber and a
reader of the corrected stream. `figures` judges what they received, with the corrected stream as another Kafka
client reads it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from itertools import product

from benchmarks.experiments.lost_input import tables
from benchmarks.experiments.lost_input.figures import (
    LostCase,
    LostFound,
    by_phase,
    corrected_delays,
    finals,
    healing,
    live_delays,
    partials,
    stable_rows,
    truth,
    unheard,
    windows,
)
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.log import topics
from borealis_py.verify.kafka_reader import CannotRead, read_all
from tests.harness.event_feeders import SOURCES, Fed, Feeders, FeedPlan
from tests.harness.readers import Hearing

REPLICAS = 2
FAST_RATE = 10_000
LEAD_S = 3
"""Time from scheduling the first row until it is due: the readers open their streams in it."""


def cases(size: str) -> list[LostCase]:
    """The cases, the shortest first."""
    xs = (0.5, 3.0)
    if size == "short":
        return [LostCase(threshold_s=x, silence_s=15, before_s=4, after_s=4) for x in xs]
    if size == "full":
        grid = product((900, FAST_RATE), (1, 2, 3), xs, (15, 30, 60))
        return [LostCase(threshold_s=x, silence_s=s, rate=rate, run=run) for rate, run, x, s in grid]
    slow = (LostCase(threshold_s=x, silence_s=s) for x, s in product(xs, (15, 30, 60)))
    return [*slow, LostCase(threshold_s=max(xs), silence_s=60, rate=FAST_RATE, before_s=3, after_s=3)]


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure every case.

    Raises:
        BenchError: a case could not be measured.
        BrokerError, LaunchError, LogError, SparkUnavailable: something to be measured did not start.
    """
    with stage_for(options.work, bars) as stage:
        found = [measure(stage, case, options.host, bars) for case in cases(options.size)]
    return tables.outcome(found, options.host)


def measure(stage: Stage, case: LostCase, host: str, bars: Bars) -> LostFound:
    """One case, on a separate app, which is deleted at the end.

    Raises:
        BenchError: a publisher or a reader failed, or the streams did not come to their end.
        LaunchError: a replica did not start.
    """
    what = f"X = {case.threshold_s:g} s, {case.silence_s} s of silence, {case.rate:,} events/s"
    bars.say(f"starting {REPLICAS} replicas: {what}")
    running = stage.start_replicas(
        stage.describe(events.app(case.app, SOURCES, REPLICAS, f"{case.threshold_us // 1000}ms")), host
    )
    stage.wait_ready(running)
    feeders = Feeders(stage, case.app)
    feeders.wait_ready()
    with Hearing(stage.log, running.state, events.QUERY) as hearing, bars.bar(what, case.length_s) as at:
        plan = case.plan((math.ceil(time.time()) + LEAD_S) * 1_000_000)
        feeders.begin(plan)
        hearing.to_the_end(feeders.processes, plan.t0_us, case.length_s, at)
    running.processes.stop()
    found = judge(stage, case, plan, feeders.fed(), hearing)
    stage.forget(running.state)
    return found


def judge(stage: Stage, case: LostCase, plan: FeedPlan, fed: Sequence[Fed], hearing: Hearing) -> LostFound:
    """Judge the result.

    Raises:
        BenchError: the corrected stream cannot be read back.
    """
    true, phases = truth(plan), windows(plan, case.startup_us)
    heard, got = hearing.heard, hearing.got
    live, corrected = live_delays(heard), corrected_delays(got)
    try:
        records = read_all(stage.log.bootstrap, topics.stream(case.app, events.QUERY))
    except CannotRead as exc:
        raise BenchError(str(exc)) from exc
    ends = finals([json.loads(record.value or b"null") for record in records], true)
    healed = fed[plan.silent]
    judged = [start for starts in phases.values() for start in starts if start in live and start in corrected]
    return LostFound(
        case=case,
        live=by_phase(live, phases),
        corrected=by_phase(corrected, phases),
        unheard=unheard(live, phases) + unheard(corrected, phases),
        partials=partials(heard, true, plan),
        live_finals=finals(stable_rows(heard), true),
        corrected_finals=ends,
        published=SOURCES * plan.count,
        dropped=SOURCES * plan.count - ends.counted,
        refused=len(stage.read(topics.deadletter(case.app))) + sum(each.rejected for each in fed),
        healing=healing(heard, got, hearing.story, healed.healed_us),
        burst_s=(healed.delivered_us - healed.healed_us) / 1e6,
        curve=[
            ((start + events.WINDOW_US - plan.silent_from_us) / 1e6, live[start] / 1e6, corrected[start] / 1e6)
            for start in judged
        ],
    )
