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
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, median, pstdev

import msgspec

from benchmarks.load import evenly
from benchmarks.load.evenly import EVERY_US, Sending
from benchmarks.measure.loop import closing, stalls
from benchmarks.measure.loop.closing import THRESHOLD_S, Closed
from benchmarks.measure.loop.stalls import CHECKPOINT_US, Held
from benchmarks.report.goals import published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions
from borealis_py import App
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.figures import BenchError, percentiles
from borealis_py.bench.processes import tree_cpu_s
from borealis_py.bench.stage import Running, Stage, stage_for
from borealis_py.protocol.settings import Timing
from tests.harness.event_feeders import SOURCES, wait_owned
from tests.harness.readers import Hearing

MS = 1_000
SILENT_MS = 400
"""The goal: at most so long may pass without the end of a turn or a heartbeat."""

COLUMNS = [
    "bucket ms>",
    "boundary every ms>",
    "rows>",
    "mean ms>",
    "p50 ms>",
    "p99 ms>",
    "longest ms>",
    "past the boundary: p50 ms>",
    "p99 ms>",
    "plain union: p50 ms>",
    "p99 ms>",
    "replica CPU %>",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run. `said_ms`: boundary interval, a multiple of the bucket width. `seconds`: after the start-up phase, which
    does not count.
    """

    width_ms: int
    said_ms: int
    seconds: int
    run: int = 1
    startup_s: float = 2.0

    @property
    def app(self) -> str:
        """Its name."""
        return f"overhead-{self.width_ms}-{self.said_ms}-{self.run}"

    @property
    def said_us(self) -> int:
        return self.said_ms * MS

    @property
    def length_s(self) -> float:
        """From the first row to the last."""
        return self.startup_s + self.seconds

    def said_at(self, bucket: int) -> int:
        """Wall time of the boundary that closes a bucket, microseconds."""
        return -(-(bucket + 1) * self.width_ms // self.said_ms) * self.said_us


@dataclass(slots=True)
class Came:
    """Rows by the time at which they were sent: wall times of their first arrival, and of their buckets' boundaries.

    `times`: how often each is in the corrected stream. `tentative`: those that were tentative first.
    """

    live: dict[int, int] = field(default_factory=dict)
    closes: dict[int, int] = field(default_factory=dict)
    corrected: dict[int, int] = field(default_factory=dict)
    times: Counter[int] = field(default_factory=Counter)
    tentative: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """One run: microseconds of each row from its publisher to the live subscriber, from its bucket's boundary to there,
    from its publisher to a reader of the corrected stream, and through the plain union.
    """

    setting: Setting
    live_us: list[int]
    after_us: list[int]
    corrected_us: list[int]
    plain_us: list[int]
    tentative: int
    cpu_percent: float


Group = Sequence[Passed]
"""Runs of one bucket width and boundary interval: the report has their medians."""


def outcome(found: Sequence[Passed], held: Sequence[Held], closed: Sequence[Closed], host: str) -> Outcome:
    """All of it."""
    pairs = dict.fromkeys((f.setting.width_ms, f.setting.said_ms) for f in found)
    groups = [[f for f in found if (f.setting.width_ms, f.setting.said_ms) == pair] for pair in pairs]
    return Outcome(
        name="overhead",
        title="What it costs while nothing fails: delay of a row against bucket width and boundary interval",
        published=published("overhead"),
        setup=(
            f"Three sources of {round(1e6 / EVERY_US)} rows/s each, one node that passes them on, one replica on "
            f"host {host}; medians of {len(groups[0])} runs of {found[0].setting.seconds} s. Boundaries are at ends of "
            "buckets only, so an interval is the bucket's width, as a publisher has it, or a multiple, by `hold`; none "
            "is shorter. The plain union runs beside each: bare Kafka clients, as many hops, a record a row. "
            f"{checkpoints(held)} {ends(closed)}"
        ),
        worse=f"{worse(groups, held)} {over(closed)}".strip(),
        columns=COLUMNS,
        rows=[_row(group) for group in groups],
        ratios={
            **{k: v for group in groups for k, v in ratios(group).items()},
            **held_ratios(held),
            **closed_ratios(closed),
        },
        data={
            "host": host,
            "runs": [_told(each) for each in found],
            "checkpoints": [asdict(h) for h in held],
            "closed": [asdict(c) for c in closed],
        },
        panels=[*_panels(groups, held), _ends_panel(closed)],
    )


def middle(group: Group, of: Callable[[Passed], float]) -> float:
    """Median over the runs."""
    return median(of(each) for each in group)


def ratios(group: Group) -> dict[str, float]:
    """Of the same runs: what boundary and plain union take in the middle, to what a row takes; and of that alone which
    is not waiting for the boundary.
    """
    setting = group[0].setting
    name = f"bucket {setting.width_ms} ms, boundary every {setting.said_ms} ms"
    plain = middle(group, lambda f: percentiles(f.plain_us).p50_ms)
    return {
        f"{name}: half the interval and the plain union / a row, p50": (setting.said_ms / 2 + plain)
        / middle(group, lambda f: percentiles(f.live_us).p50_ms),
        f"{name}: plain union / past the boundary, p50": plain
        / middle(group, lambda f: percentiles(f.after_us).p50_ms),
    }


def held_ratios(held: Sequence[Held]) -> dict[str, float]:
    """Relative to the time that a turn may take, so that a few milliseconds more on a busy machine do not matter."""
    turn_ms = Timing().turn_us / MS
    return {
        f"{h.keys:,} keys: {turn_ms:g} ms / that and the longest turn beside a checkpoint": turn_ms
        / (turn_ms + h.beside_ms)
        for h in held
    }


def closed_ratios(closed: Sequence[Closed]) -> dict[str, float]:
    """Relative to the goal, likewise."""
    return {
        f"{c.keys:,} keys: {SILENT_MS} ms / that and the longest silence of a window's end": SILENT_MS
        / (SILENT_MS + c.silent_ms)
        for c in closed
    }


def ends(closed: Sequence[Closed]) -> str:
    """What ends of windows do, in words."""
    told = [
        f"{c.keys:,} keys: longest turn {c.turn_ms:,.0f} ms, longest time without the end of a turn or a heartbeat "
        f"{c.silent_ms:,.0f} ms, without a heartbeat {c.beat_ms:,.0f} ms, live results handed to Kafka after "
        f"{c.handed_ms:,.0f} and corrected ones committed after {c.corrected_ms:,.0f} ms"
        for c in closed
    ]
    return f"The end of a window with one result a key, X = {THRESHOLD_S} s: " + "; ".join(told) + "."


def over(closed: Sequence[Closed]) -> str:
    """What ends of windows cost, and which miss the goals."""
    late = [f"with {c.keys:,} keys live results were handed over later than X" for c in closed if not c.within]
    silent = [
        f"with {c.keys:,} keys a replica was silent for {c.silent_ms:,.0f} ms (goal: {SILENT_MS})"
        for c in closed
        if c.silent_ms > SILENT_MS
    ]
    most = max(closed, key=lambda c: c.keys)
    said = f"a window of {most.keys:,} keys is committed after {most.corrected_ms / 1000:.1f} s"
    return f"At a window's end: {', '.join([said, *late, *silent])}."


def checkpoints(held: Sequence[Held]) -> str:
    """The checkpoint measurements in words: the table is about delays."""
    told = [
        f"{h.keys:,} keys: {h.count} of {h.bytes / 1e6:,.1f} MB, durable in {h.durable_ms:,.0f} ms, of that "
        f"{h.written_ms:,.0f} ms writing; longest turn until then {h.beside_ms:.1f} ms (once {h.worst_ms:.1f}), of "
        f"others p50 {h.turn_ms:.1f} and p99 {h.turn_p99_ms:.1f} ms"
        for h in held
    ]
    return f"Checkpoints every {CHECKPOINT_US / 1e6:g} s, medians: " + "; ".join(told) + "."


def worse(groups: Sequence[Group], held: Sequence[Held]) -> str:
    """What it costs, according to the measurement."""
    said = []
    for group in groups:
        setting = group[0].setting
        if setting.width_ms == setting.said_ms:
            over = middle(group, lambda f: percentiles(f.after_us).p50_ms - percentiles(f.plain_us).p50_ms)
            said.append(f"{over:.1f} ms at {setting.width_ms} ms")
    early = sum(f.tentative for group in groups for f in group)
    late = f"; {early} rows came tentative first: the machine did not keep up" if early else ""
    largest = held[-1]
    return (
        f"Beyond waiting for its boundary a row takes longer than through the plain union (p50, by bucket): "
        f"{', '.join(said)}. The whole state is written at each checkpoint: with {largest.keys:,} keys the longest "
        f"turn until that is done takes {largest.beside_ms:.1f} ms, half of the others at most {largest.turn_ms:.1f} ms"
        f"{late}."
    )


def _row(group: Group) -> list[str]:
    setting = group[0].setting
    live = [_middle_of(group, "live_us", p) for p in ("p50_ms", "p99_ms", "max_ms")]
    rest = [_middle_of(group, way, p) for way in ("after_us", "plain_us") for p in ("p50_ms", "p99_ms")]
    return [
        str(setting.width_ms),
        str(setting.said_ms),
        str(sum(len(f.live_us) for f in group)),
        f"{middle(group, lambda f: fmean(f.live_us)) / MS:.1f}",
        *(f"{ms:.1f}" for ms in (*live, *rest)),
        f"{middle(group, lambda f: f.cpu_percent):.0f}",
    ]


def _middle_of(group: Group, way: str, percentile: str) -> float:
    """Milliseconds."""
    return middle(group, lambda each: float(getattr(percentiles(getattr(each, way)), percentile)))


def _told(found: Passed) -> dict[str, object]:
    """Percentiles of a run; its rows are too many."""
    ways = {"live": found.live_us, "past_boundary": found.after_us, "corrected": found.corrected_us}
    each = {
        way: {**asdict(percentiles(us)), "mean_ms": fmean(us) / MS, "deviation_ms": pstdev(us) / MS}
        for way, us in {**ways, "plain_union": found.plain_us}.items()
    }
    rest = {"tentative": found.tentative, "cpu_percent": found.cpu_percent}
    return {"setting": asdict(found.setting), **each, **rest}


def _panels(groups: Sequence[Group], held: Sequence[Held]) -> list[Panel]:
    by_width = [g for g in groups if g[0].setting.width_ms == g[0].setting.said_ms]
    narrow = min(g[0].setting.width_ms for g in groups)
    by_interval = [g for g in groups if g[0].setting.width_ms == narrow]
    panels = [
        Panel(title=title, x=x, y="ms from publisher to live subscriber", curves=_curves(some))
        for title, x, some in (
            ("Boundaries at each bucket's end", "bucket width (ms)", by_width),
            (f"Buckets of {narrow} ms", "between boundaries (ms)", by_interval),
        )
    ]
    keys = [float(max(1, h.keys)) for h in held]
    curves = {
        "until durable": [h.durable_ms for h in held],
        "longest turn until then": [h.beside_ms for h in held],
        "turns without one, p99": [h.turn_p99_ms for h in held],
    }
    shown = [Curve(label=label, x=keys, y=y) for label, y in curves.items()]
    return [
        *panels,
        Panel(title="Checkpoints", x="keys in the state", y="ms", curves=shown, log_x=True, log_y=True),
        Panel(
            title="Checkpoints",
            x="keys in the state",
            y="bytes",
            curves=[Curve(label="bytes", x=keys, y=[float(h.bytes) for h in held])],
            log_x=True,
            log_y=True,
        ),
    ]


def _ends_panel(closed: Sequence[Closed]) -> Panel:
    keys = [float(c.keys) for c in closed]
    curves = {
        "longest turn": [c.turn_ms for c in closed],
        "no turn's end, no heartbeat": [c.silent_ms for c in closed],
        "no heartbeat": [c.beat_ms for c in closed],
        "until handed over": [c.handed_ms for c in closed],
        "until corrected": [c.corrected_ms for c in closed],
    }
    shown = [Curve(label=label, x=keys, y=y) for label, y in curves.items()]
    return Panel(title="The end of a window", x="keys", y="ms", curves=shown, log_x=True, log_y=True)


def _curves(groups: Sequence[Group]) -> list[Curve]:
    groups = sorted(groups, key=lambda g: g[0].setting.said_ms)
    x = [float(g[0].setting.said_ms) for g in groups]
    shown: list[tuple[str, Callable[[Passed], float]]] = [
        ("mean", lambda f: fmean(f.live_us) / MS),
        ("p99", lambda f: percentiles(f.live_us).p99_ms),
        ("plain union, mean", lambda f: fmean(f.plain_us) / MS),
        ("plain union, p99", lambda f: percentiles(f.plain_us).p99_ms),
    ]
    return [Curve(label=label, x=x, y=[middle(g, of) for g in groups]) for label, of in shown]


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
    return outcome(found, held, closed, options.host)


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
