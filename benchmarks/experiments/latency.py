"""`make bench NAME=latency`: from the end of a window to its result, live and corrected, without failures.

A bare ping through two topics runs next to each run, at the same moments: the time that broker, clients and machine
take regardless of replicas. Each run is a separate app on one broker; the report has medians of the percentiles of a
case's runs.
"""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, product
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.measure.windows import corrected_delays, finals, live_delays, tentative_windows, truth, windows
from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.events import BUCKET_US
from borealis_py.bench.figures import BenchError, Percentiles, percentiles
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.demo.measure import STARTUP_US
from borealis_py.runtime.spark import class_archive
from tests.harness.event_feeders import SOURCES, Feeders, FeedPlan
from tests.harness.readers import Hearing

GOALS_MS = {(int(rate), way): (p50, p99) for rate, of in goals("latency").items() for way, (p50, p99) in of.items()}
"""(Rate, way) -> p50 and p99 at most."""
WAYS = ("live", "corrected", "ping")
COLUMNS = [
    "host",
    "events/s>",
    "rows a bucket>",
    "replicas>",
    "",
    "runs>",
    "p50 ms>",
    "p99 ms>",
    "longest ms>",
    "p50 to ping's>",
]
NAMES = {
    "live": "window's end to live result",
    "corrected": "window's end to corrected result",
    "ping": "bare record through two topics",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyCase:
    """One run. `rate`: events per second of all sources together. `seconds`: after the start-up phase, which does not
    count.
    """

    rate: int
    host: str = "process"
    replicas: int = 2
    seconds: int = 20
    run: int = 1
    startup_s: float = STARTUP_US / 1e6

    @property
    def app(self) -> str:
        """Its name."""
        return f"latency-{self.host}-{self.rate}-{self.replicas}-{self.run}"

    @property
    def startup_us(self) -> int:
        return round(self.startup_s * 1e6)

    @property
    def length_s(self) -> int:
        """From the first row to the last."""
        return math.ceil(self.startup_s) + self.seconds + 1  # END closes the last window, which counts for nothing

    @property
    def per_bucket(self) -> int:
        """Rows of a source in a bucket."""
        return self.rate // SOURCES * BUCKET_US // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFound:
    """One run. Delays in microseconds, of each window or ping. `tentative`: windows that were tentative first;
    `unheard`: windows without any result, live or corrected.
    """

    case: LatencyCase
    delays_us: dict[str, list[int]]
    tentative: int
    unheard: int


Key = tuple[str, int, int]
"""Host, rate and replicas: the report has medians of several runs."""


def outcome(found: Sequence[LatencyFound]) -> Outcome:
    """The whole report. `found`: runs of a case one after the other."""
    groups = [(key, list(runs)) for key, runs in groupby(found, _key)]
    return Outcome(
        name="latency",
        title="From the end of a 1 s window to its result, nothing failing; medians of the runs' percentiles",
        published=published("latency"),
        setup=(
            "Three topics of JSON rows, count and sum of 100 keys by second, a publisher process a source. Broker, "
            "replicas, publishers and readers share the machine, and a ping through two "
            f"topics runs beside them. Runs of {_lengths(found)} s: p99 of so many windows is the longest."
        ),
        worse=worse(groups),
        columns=COLUMNS,
        rows=[_row(key, runs, way) for key, runs in groups for way in WAYS],
        ratios={name: value for key, runs in groups for name, value in ratios(key, runs).items()},
        data={"runs": [asdict(each) for each in found]},
        panels=[_panel(key, runs) for key, runs in groups],
    )


def _key(found: LatencyFound) -> Key:
    return found.case.host, found.case.rate, found.case.replicas


def _lengths(found: Sequence[LatencyFound]) -> str:
    return " and ".join(map(str, dict.fromkeys(each.case.seconds for each in found)))


def middle(runs: Sequence[LatencyFound], way: str) -> Percentiles:
    """Medians of the runs' percentiles. Raises BenchError: a run has none."""
    each = [percentiles(run.delays_us[way]) for run in runs]
    return Percentiles(
        sum(p.count for p in each),
        median(p.p50_ms for p in each),
        median(p.p99_ms for p in each),
        median(p.max_ms for p in each),
    )


def ratios(key: Key, runs: Sequence[LatencyFound]) -> dict[str, float]:
    """The ping's median divided by ours, in the same runs."""
    host, rate, replicas = key
    ping = middle(runs, "ping").p50_ms
    return {
        f"{host}, {rate}/s, {replicas} replicas: p50 of the ping / of the {way} result": ping / middle(runs, way).p50_ms
        for way in ("live", "corrected")
    }


def worse(groups: Sequence[tuple[Key, Sequence[LatencyFound]]]) -> str:
    """What it costs, according to the measurement."""
    said = []
    for (host, rate, replicas), runs in groups:
        ping, live, corrected = (middle(runs, way).p50_ms for way in ("ping", "live", "corrected"))
        said.append(
            f"at {rate:,}/s with {replicas} replica{'s' if replicas > 1 else ''} (host {host}) a live result takes "
            f"{live - ping:.0f} ms longer than a bare record through two topics, a corrected one "
            f"{corrected - ping:.0f} ms"
        )
    early, lost = (sum(getattr(run, name) for _, runs in groups for run in runs) for name in ("tentative", "unheard"))
    kept = f"; {early} windows came tentative first, of {lost} nothing came: the machine did not keep up"
    over = missed(groups)
    text = "; ".join(said) + (kept if early or lost else "") + (f"; over the goal: {', '.join(over)}" if over else "")
    return text[0].upper() + text[1:] + "."


def missed(groups: Sequence[tuple[Key, Sequence[LatencyFound]]]) -> list[str]:
    """Each percentile that is over its goal."""
    found = []
    for (host, rate, _), runs in groups:
        for way in WAYS:
            at_most, p = GOALS_MS.get((rate, way)), middle(runs, way)
            if at_most is not None:
                times = zip(("p50", "p99"), (p.p50_ms, p.p99_ms), at_most, strict=True)
                found += [
                    f"{way} {name} {ms:.1f} ms at {rate:,}/s on host {host} ({most})"
                    for name, ms, most in times
                    if ms > most
                ]
    return found


def _row(key: Key, runs: Sequence[LatencyFound], way: str) -> list[str]:
    host, rate, replicas = key
    p, ping = middle(runs, way), middle(runs, "ping")
    delays = [f"{p.p50_ms:.1f}", f"{p.p99_ms:.1f}", f"{p.max_ms:.1f}"]
    ratio = "" if way == "ping" else f"{p.p50_ms / ping.p50_ms:.1f} x"
    return [host, f"{rate:,}", str(runs[0].case.per_bucket), str(replicas), NAMES[way], str(len(runs)), *delays, ratio]


def _panel(key: Key, runs: Sequence[LatencyFound]) -> Panel:
    """The share of all runs' results that came within a time."""
    host, rate, replicas = key
    curves = []
    for way in WAYS:
        ms = sorted(us / 1000 for run in runs for us in run.delays_us[way])
        curves.append(Curve(label=NAMES[way], x=ms, y=[(n + 1) / len(ms) for n in range(len(ms))]))
    title = f"{rate:,} events/s, {replicas} replica{'s' if replicas > 1 else ''}, host {host}"
    return Panel(title=title, x="within ms", y="share of results", curves=curves, log_x=True)


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
    return outcome(found)


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
