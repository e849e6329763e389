"""`make bench NAME=throughput`: catching up by rows per record, next to the raw loop; and which live rates are kept up
with.

Catching up: replicas are working (a first window has gone through) when their three sources are held back, filled, and
released. The raw loop, once before and once after, reads the same events: one per record, and as many per record as the
replicas' sources have. Both give the same results, which is checked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice

from benchmarks.measure.machine_speed import GOALS_AT
from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions
from borealis_py.app.state import StatusReader
from borealis_py.bench import events
from borealis_py.bench.catchup import RAW_LOOP, needs_raw_loop, raw_loop, totals
from borealis_py.bench.console import At, Bars
from borealis_py.bench.events import Backlog, Totals
from borealis_py.bench.figures import BenchError, RunFigures
from borealis_py.bench.processes import tree_cpu_s
from borealis_py.bench.stage import Running, Stage, stage_for
from borealis_py.client.publisher import wall_us
from borealis_py.log import topics
from borealis_py.log.base import Feed, Lookup, NewRecord
from borealis_py.log.messages import Status
from borealis_py.log.records import BatchHeader, unpack_source
from borealis_py.runtime.spark import class_archive
from sunion.bucket import Buckets
from tests.harness.event_feeders import SOURCES, Feeders, FeedPlan
from tests.harness.held import Reached, hold, let_go

_GOALS = goals("throughput")
GOAL: float = _GOALS["share"]
TWO_GOAL: float = _GOALS["two_share"]
"""A replica as a share of the raw loop, one event a record; two replicas as Spark tasks as a share of one."""
TWO_PER_S: int = _GOALS["two_per_s"]
"""Events a second of each of two replicas as Spark tasks, where the raw loop does `GOALS_AT`."""
KEEPS_UP_S = 1.0
"""Limit of the lag behind its sources for a replica that keeps up."""
COLUMNS = [
    "",
    "host",
    "replicas>",
    "rows a record>",
    "own stream: events/s>",
    "published: events/s>",
    "CPU us an event>",
    "to raw loop>",
    "to raw loop, as many a record>",
    "to one replica>",
    "CPU %>",
    "behind its sources s>",
    "they behind the clock s>",
    "",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """Catching up once. `per_record`: rows. `kept`: of its topics, see `events.KEPT`."""

    host: str
    replicas: int
    per_record: int
    run: int = 1
    kept: str = "default"

    @property
    def app(self) -> str:
        """Its name."""
        return f"throughput-{self.host}-{self.replicas}-{self.per_record}-{self.kept}-{self.run}"

    @property
    def what(self) -> str:
        """Human-readable description."""
        return f"{counted(self.replicas)} on host {self.host}, {self.per_record:,} rows a record, run {self.run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """One catch-up: seconds until all results were in the last replica's own stream, and in the corrected stream;
    processor time of all replicas' processes until the latter.
    """

    point: CatchUp
    events: int
    own_s: float
    published_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class HandLoop:
    """The raw loop over the same events: one a record, and JSON arrays of `per_record`."""

    per_record: int
    events: int
    single: tuple[RunFigures, ...]
    arrays: tuple[RunFigures, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A run at a live rate. `rate`: events a second, all sources together. `seconds`: beyond the start. `kept`: of its
    topics, see `events.KEPT`."""

    host: str
    replicas: int
    rate: int
    seconds: int
    startup_s: int = 3
    run: int = 1
    kept: str = "default"

    @property
    def app(self) -> str:
        """Its name."""
        return f"throughput-live-{self.host}-{self.replicas}-{self.rate}-{self.kept}-{self.run}"

    @property
    def length_s(self) -> int:
        return self.startup_s + self.seconds

    @property
    def what(self) -> str:
        """Human-readable description."""
        return f"{counted(self.replicas)} on host {self.host} at {self.rate:,} events/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptUp:
    """One run at a live rate. `lag_s`: the largest lag of the stable results behind what was in the sources,
    overestimated by up to the time between two samples; `fed_lag_s`: of the sources behind the clock. `tentative`:
    buckets. Processor time is of all replicas' processes, `cpu_us` per event of the sources.
    """

    load: Load
    lag_s: float
    fed_lag_s: float
    tentative: int
    cpu_percent: float
    cpu_us: float

    @property
    def keeps_up(self) -> bool:
        return self.lag_s <= KEEPS_UP_S and not self.tentative


def counted(replicas: int) -> str:
    return f"{replicas} replica{'s' if replicas > 1 else ''}"


def outcome(caught: Sequence[Caught], loops: Sequence[HandLoop], kept: Sequence[KeptUp]) -> Outcome:
    """All of it."""
    best = fastest(caught)
    return Outcome(
        name="throughput",
        title="Catching up with waiting JSON events, and keeping up with live ones",
        published=(published("throughput")),
        setup=(
            f"{', '.join(f'{loop.events:,}' for loop in loops)} events in 3 topics, count and sum by 100 keys and "
            "second; the fewer rows a record, the more windows, hence results, and the raw loop has as many. It has "
            "one event a record, nothing kept; beside it the same with JSON arrays of as many events a record. "
            "Replicas are at work when their sources are held back, filled and let go: time counts from there until "
            "all results are in the own stream of the last replica, and until the corrected stream has them, by which "
            "shares are taken. Fastest of all runs of each. CPU is of all replicas' processes. Behind its sources: the "
            "furthest that what is stable was behind the boundaries in the log, by looks 0.2 s apart."
        ),
        worse=worse(best, loops, kept),
        columns=COLUMNS,
        rows=[*rows_of(best, loops), *map(_fed_row, kept)],
        ratios=ratios(best, loops),
        data={
            "catching_up": [asdict(each) for each in caught],
            "raw_loop": [asdict(each) for each in loops],
            "live": [{**asdict(each), "keeps_up": each.keeps_up} for each in kept],
        },
        panels=_panels(best, loops, kept),
    )


Key = tuple[str, int, int]
"""Host, replicas, rows a record."""


def fastest(caught: Sequence[Caught]) -> dict[Key, Caught]:
    """Of the runs of each, by when all is published."""
    found: dict[Key, Caught] = {}
    for each in sorted(caught, key=lambda one: -one.published_s):
        found[each.point.host, each.point.replicas, each.point.per_record] = each
    wanted = dict.fromkeys((each.point.host, each.point.replicas, each.point.per_record) for each in caught)
    return {key: found[key] for key in wanted}


def share(one: Caught, runs: Sequence[RunFigures]) -> float:
    """Of the events a second of the fastest of these."""
    return one.events / one.published_s / max(run.events_per_s for run in runs)


def ratios(best: dict[Key, Caught], loops: Sequence[HandLoop]) -> dict[str, float]:
    """Ratios of runs made next to each other: replica to raw loop in time and in processor time,
    two replicas to one.
    """
    found = {}
    loop_of = {loop.per_record: loop for loop in loops}
    for (host, replicas, per_record), one in best.items():
        name, loop = f"{host}, {per_record} rows a record", loop_of[per_record]
        if replicas == 1:
            found[f"{name}: one replica / raw loop"] = share(one, loop.single)
            found[f"{name}: one replica / raw loop, processor time"] = min(r.cpu_s for r in loop.single) / one.cpu_s
        else:
            found[f"{name}: two replicas / one"] = _to_one(best, host, per_record, one)
    return found


def _to_one(best: dict[Key, Caught], host: str, per_record: int, two: Caught) -> float:
    return best[host, 1, per_record].published_s / two.published_s


def rows_of(best: dict[Key, Caught], loops: Sequence[HandLoop]) -> list[list[str]]:
    """Raw loops and replicas, by rows a record."""
    rows = []
    for loop in loops:
        for runs, per_record in ((loop.single, 1), (loop.arrays, loop.per_record)):
            run = max(runs, key=lambda each: each.events_per_s)
            cpu_us = min(each.cpu_s for each in runs) * 1e6 / loop.events
            cells = [run.program, "", "", f"{per_record:,}", "", f"{run.events_per_s:,.0f}", f"{cpu_us:.1f}"]
            rows.append([*cells, *[""] * (len(COLUMNS) - len(cells))])
        rows += [_caught_row(best, loop, key, one) for key, one in best.items() if key[2] == loop.per_record]
    return rows


def _caught_row(best: dict[Key, Caught], loop: HandLoop, key: Key, one: Caught) -> list[str]:
    host, replicas, per_record = key
    speeds = [f"{one.events / seconds:,.0f}" for seconds in (one.own_s, one.published_s)]
    cpu_us = f"{one.cpu_s * 1e6 / one.events:.1f}"
    shares = [f"{share(one, runs):.0%}" for runs in (loop.single, loop.arrays)]
    to_one = "" if replicas == 1 else f"{_to_one(best, host, per_record, one):.2f}"
    verdict = _verdict(best, loop, key, one)
    cells = ["catching up", host, str(replicas), f"{per_record:,}", *speeds, cpu_us, *shares, to_one]
    return [*cells, "", "", "", verdict]


def _verdict(best: dict[Key, Caught], loop: HandLoop, key: Key, one: Caught) -> str:
    host, replicas, per_record = key
    if replicas == 1:
        return "met" if share(one, loop.single) >= GOAL else f"missed: {GOAL:.0%}"
    if host != "spark":
        return ""
    if _to_one(best, host, per_record, one) < TWO_GOAL:
        return f"missed: {TWO_GOAL}"
    return "met" if share(one, loop.single) >= TWO_PER_S / GOALS_AT else f"missed: {TWO_PER_S / GOALS_AT:.1%}"


def _fed_row(one: KeptUp) -> list[str]:
    load = one.load
    cells = [f"{load.rate:,} events/s", load.host, str(load.replicas), f"{max(1, load.rate // 30):,}", "", ""]
    verdict = "keeps up" if one.keeps_up else "does not keep up"
    tentative = f", {one.tentative} buckets tentative" if one.tentative else ""
    used = [f"{one.cpu_us:.1f}", "", "", "", f"{one.cpu_percent:.0f}", f"{one.lag_s:.2f}", f"{one.fed_lag_s:.2f}"]
    return [*cells, *used, verdict + tentative]


def worse(best: dict[Key, Caught], loops: Sequence[HandLoop], kept: Sequence[KeptUp]) -> str:
    """What it costs, according to the measurement."""
    said = []
    for loop in loops:
        for key, one in best.items():
            if key[1] == 1 and key[2] == loop.per_record:
                said.append(
                    f"with {loop.per_record:,} rows a record one replica ({key[0]}) has {share(one, loop.single):.0%} "
                    f"of the raw loop's speed, and {share(one, loop.arrays):.0%} of it if that has as many a record"
                )
    late = [f"{counted(f.load.replicas)} ({f.load.host}) at {f.load.rate:,}/s" for f in kept if not f.keeps_up]
    text = "; ".join(said) + (f"; not keeping up: {', '.join(late)}" if late else "")
    return f"{text[:1].upper()}{text[1:]}."


def _panels(best: dict[Key, Caught], loops: Sequence[HandLoop], kept: Sequence[KeptUp]) -> list[Panel]:
    x = [float(loop.per_record) for loop in loops]
    curves = [
        Curve(label=label, x=x, y=[max(r.events_per_s for r in getattr(loop, way)) for loop in loops])
        for label, way in (("raw loop, one a record", "single"), ("raw loop, as many a record", "arrays"))
    ]
    for host, replicas in dict.fromkeys(key[:2] for key in best):
        some = {key[2]: one for key, one in best.items() if key[:2] == (host, replicas)}
        speeds = [one.events / one.published_s for one in some.values()]
        curves.append(Curve(label=f"{counted(replicas)}, {host}", x=list(map(float, some)), y=speeds))
    used = []
    for host, replicas in dict.fromkeys((f.load.host, f.load.replicas) for f in kept):
        mine = [f for f in kept if (f.load.host, f.load.replicas) == (host, replicas)]
        label = f"{counted(replicas)}, {host}"
        used.append(Curve(label=label, x=[float(f.load.rate) for f in mine], y=[f.cpu_us for f in mine]))
    return [
        Panel(title="Catching up, until published", x="rows a record", y="events/s", curves=curves, log_x=True),
        Panel(title="Live", x="events/s", y="us of processor time an event", curves=used, log_x=True, log_y=True),
    ]


WARM_BUCKETS = events.WINDOW_US // events.BUCKET_US
"""The first window goes through before the measurement."""
PER_RECORD = (33, 500, 5_000)
SHORT = ((1, 33), (2, 33), (1, 5_000))
"""Replicas, and rows a record."""
RATES = (900, 10_000, 50_000)
EVENTS = {"short": 150_000, "usual": 1_000_000, "full": 1_000_000}
BUCKETS = 20
"""Minimum number of buckets, in whole windows."""
RUNS = {"short": 1, "usual": 2, "full": 3}
SECONDS = {"short": 3, "usual": 10, "full": 30}
LEAD_S = 2
END_S = 60.0
LOOK_S = 0.2


def points(size: str, host: str) -> list[CatchUp]:
    """Catching up: those of as many rows a record one after the other."""
    hosts = ("process", "spark") if size == "full" else (host,)
    if size == "short":
        return [CatchUp(host=host, replicas=k, per_record=n) for k, n in SHORT]
    kinds = [(h, per_record) for per_record in PER_RECORD for h in hosts]
    if "spark" not in hosts:
        kinds.insert(0, ("spark", PER_RECORD[0]))
    return [
        CatchUp(host=h, replicas=replicas, per_record=per_record, run=run)
        for h, per_record in kinds
        for replicas in (1, 2)
        for run in range(1, RUNS[size] + 1)
    ]


def loads(size: str, host: str) -> list[Load]:
    """At live rates."""
    hosts = ("process", "spark") if size == "full" else (host,)
    rates = RATES[1:2] if size == "short" else RATES
    counts = (1, 2) if size == "full" else (1,)
    found = [
        Load(host=h, replicas=n, rate=rate, seconds=SECONDS[size]) for h in hosts for n in counts for rate in rates
    ]
    if size == "usual" and "spark" not in hosts:
        found.append(Load(host="spark", replicas=1, rate=RATES[-1], seconds=SECONDS[size]))
    return found


def backlog_of(least: int, per_record: int) -> Backlog:
    """The warming window, and after it at least `least` events and `BUCKETS`, in whole windows."""
    window = per_record * SOURCES * WARM_BUCKETS
    windows = max(math.ceil(least / window), BUCKETS // WARM_BUCKETS)
    return Backlog((1 + windows) * window, per_record * SOURCES, SOURCES)


def measured(backlog: Backlog) -> int:
    """Events of it that are measured."""
    return backlog.events - WARM_BUCKETS * backlog.per_bucket


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure everything.

    Raises:
        BenchError: something could not be measured, or results are wrong.
        BrokerError, LaunchError, LogError, SparkUnavailable: something to be measured did not start.
    """
    needs_raw_loop()
    wanted = points(options.size, options.host)
    if any(point.host == "spark" for point in wanted):
        class_archive.prepare(bars.say)
    caught: list[Caught] = []
    loops: list[HandLoop] = []
    with stage_for(options.work, bars) as stage:
        for per_record in dict.fromkeys(point.per_record for point in wanted):
            backlog = backlog_of(EVENTS[options.size], per_record)
            some = [point for point in wanted if point.per_record == per_record]
            found, loop = catch_up(stage, backlog, some, bars)
            caught += found
            loops.append(loop)
        kept = [feed(stage, load, bars) for load in loads(options.size, options.host)]
    return outcome(caught, loops, kept)


def catch_up(stage: Stage, backlog: Backlog, wanted: Sequence[CatchUp], bars: Bars) -> tuple[list[Caught], HandLoop]:
    """Replicas over a backlog, and the raw loop over the same events.

    Raises:
        BenchError: a run failed, or the programs disagree about a result.
        LaunchError: a replica did not start.
    """
    per_record = backlog.per_record
    raw = _Raw(stage, backlog, bars)
    bars.say(f"raw loop, {per_record:,} rows a record")
    raw.run()
    found = []
    for point in wanted:
        bars.say(f"{point.what}: starting")
        one, results = caught_up(stage, backlog, point, bars)
        check(point.app, results, raw.results)
        found.append(one)
    bars.say(f"raw loop again, {per_record:,} rows a record")
    raw.run()
    raw.close()
    return found, HandLoop(per_record, measured(backlog), tuple(raw.single), tuple(raw.arrays))


class _Raw:
    """The raw loop over events of a backlog, plain and as arrays; it fills its topics when it is made."""

    def __init__(self, stage: Stage, backlog: Backlog, bars: Bars) -> None:
        self.single: list[RunFigures] = []
        self.arrays: list[RunFigures] = []
        self.results: Totals = {}
        self._stage = stage
        self._events = measured(backlog)
        name = f"throughput-raw-{backlog.per_record}"
        self._topics = {way: [f"{name}-{way}-{i}" for i in range(SOURCES)] for way in ("plain", "arrays")}
        self._made = [each for some in self._topics.values() for each in some]
        bars.say(f"filling topics for the raw loop, {backlog.per_record:,} rows a record")
        stage.create(*self._made)
        for i in range(SOURCES):
            for way, values in (("plain", backlog.plain), ("arrays", backlog.arrays)):
                feed = Feed(self._topics[way][i])
                stage.fill(NewRecord(feed, value) for value in values(i, WARM_BUCKETS))

    def run(self) -> None:
        """Each way once. Raises BenchError: it failed, or counted other events."""
        for way, figures in (("plain", self.single), ("arrays", self.arrays)):
            results = f"{self._topics[way][0]}-results-{len(figures)}"
            self._made.append(results)
            one, found = raw_loop(
                self._stage, RAW_LOOP, self._topics[way], self._events, results, arrays=way == "arrays"
            )
            figures.append(one)
            self.results = self.results or found
            if sum(n for n, _ in found.values()) != self._events:
                raise BenchError(f"the raw loop counted {sum(n for n, _ in found.values())} of {self._events} events")
            check("the raw loop", found, self.results)

    def close(self) -> None:
        """Delete its topics."""
        self._stage.delete(self._made)


def check(what: str, found: Totals, expected: Totals) -> None:
    """Raises BenchError for other results."""
    wrong = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
    if wrong:
        raise BenchError(
            f"{what} and the raw loop differ in {len(wrong)} results, first {wrong[0]}: {found.get(wrong[0])} and "
            f"{expected.get(wrong[0])}"
        )


def caught_up(stage: Stage, backlog: Backlog, point: CatchUp, bars: Bars) -> tuple[Caught, Totals]:
    """One run, on a separate app, which is deleted at the end; and its results.

    Raises:
        BenchError: the replicas did not get there. LaunchError: one did not start.
    """
    names = [f"s{i}" for i in range(SOURCES)]
    app = events.app(point.app, SOURCES, point.replicas, policy="suspend", kept=point.kept)  # held back, not failed
    state = stage.describe(app, str(events.START_US))
    sources = [backlog.records(topics.source(point.app, name), state.app_uid, i) for i, name in enumerate(names)]
    _fill(stage, sources, 1 + WARM_BUCKETS)
    running = stage.start_replicas(state, point.host)
    stage.wait_ready(running)
    reached = Reached(stage, running, events.QUERY, own=True)
    try:
        reached.wait(backlog.origin + WARM_BUCKETS)
        hold(stage, running, names, [(events.QUERY, k) for k in range(point.replicas)])
        bars.say(f"{point.what}: filling")
        _fill(stage, sources)
        bars.say(point.what)
        before_s = tree_cpu_s(running.pids.values())  # later they may be done
        began = let_go(stage, running, names)
        times = reached.wait(backlog.end)
        cpu_s = tree_cpu_s(running.pids.values()) - before_s
    finally:
        reached.close()
        running.processes.stop()
    found = totals(stage.read(topics.stream(point.app, events.QUERY)))
    stage.forget(state)
    seconds = {"own_s": times.own - began, "published_s": times.published - began, "cpu_s": cpu_s}
    warm = events.START_US + events.WINDOW_US
    return (
        Caught(point=point, events=measured(backlog), **seconds),
        {key: value for key, value in found.items() if key[0] >= warm},
    )


def _fill(stage: Stage, sources: Sequence[Iterator[NewRecord]], count: int | None = None) -> None:
    """Append this many records to each; None: the rest."""
    for source in sources:
        stage.fill(islice(source, count))


def feed(stage: Stage, load: Load, bars: Bars, ended: Callable[[], object] = lambda: None) -> KeptUp:
    """One run at a live rate, on a separate app, which is deleted at the end.

    Args:
        ended: called when all is sent, before the app is deleted.

    Raises:
        BenchError: a publisher failed, or the replicas reported nothing.
        LaunchError: a replica did not start.
    """
    bars.say(f"{load.what}: starting")
    app = events.app(load.app, SOURCES, load.replicas, kept=load.kept)
    running = stage.start_replicas(stage.describe(app), load.host)
    stage.wait_ready(running)
    feeders = Feeders(stage, load.app, "paced")
    feeders.wait_ready()
    t0_us = (math.ceil(time.time()) + LEAD_S) * 1_000_000
    plan = FeedPlan(rate=load.rate // SOURCES, t0_us=t0_us, seconds=load.length_s)
    with bars.bar(load.what, load.length_s) as at:
        feeders.begin(plan)
        seen = _watched(stage, running, load, plan, at)
    _wait_ended(feeders)
    running.processes.stop()
    ended()
    stage.forget(running.state)
    return judge(load, plan, seen)


@dataclass(frozen=True, slots=True)
class Glimpse:
    """One sample while rows are sent. `wall_us`: its time; `cpu_s`: processor time of the replicas until then;
    `closed_us`: the boundary, in the log, of the source that is furthest behind; and the statuses since the last
    sample.
    """

    wall_us: int
    cpu_s: float
    closed_us: int
    said: tuple[Status, ...]


def _watched(stage: Stage, running: Running, load: Load, plan: FeedPlan, at: At) -> list[Glimpse]:
    """From when the start is over until the last row."""
    since_us, until_us = (plan.t0_us + s * 1_000_000 for s in (load.startup_s, load.length_s))
    found = []
    reader = StatusReader(stage.log, load.app, running.started_ms)
    with closing(reader), closing(stage.log.lookup()) as lookup:
        while (now_us := wall_us()) < until_us:
            said = reader.poll()
            if now_us >= since_us:
                closed_us = min(_boundary(lookup, topics.source(load.app, f"s{i}")) for i in range(SOURCES))
                cpu_s = tree_cpu_s(running.pids.values())
                # its time is none before what it is compared with
                found.append(Glimpse(wall_us(), cpu_s, closed_us, tuple(s for s in said if s.at_wall_us >= since_us)))
            at(max(0.0, (now_us - plan.t0_us) / 1e6))
            time.sleep(LOOK_S)
    return found


def _boundary(lookup: Lookup, source: Feed) -> int:
    """What the last record of a source promises. Raises BenchError: it is of no publisher at work."""
    end = lookup.bounds(source)[1]
    for record in lookup.read(source, end - 1, end):
        header, _ = unpack_source(record.value)
        if isinstance(header, BatchHeader) and header.boundary is not None:
            return header.boundary
    raise BenchError(f"{source.topic}: nothing is published")


def _wait_ended(feeders: Feeders) -> None:
    deadline = time.monotonic() + END_S
    for name, process in feeders.processes.items():
        if process.wait(max(0.1, deadline - time.monotonic())):
            raise BenchError(f"{name} ended with code {process.returncode}; see {name}.log")


def judge(load: Load, plan: FeedPlan, seen: Sequence[Glimpse]) -> KeptUp:
    """Raises BenchError: there is nothing to judge by."""
    width = Buckets(events.BUCKET_US)
    said = [
        (min(look.closed_us, look.wall_us) - width.start(status.f_s), status)  # after END it is beyond all times
        for look in seen
        for status in look.said
    ]
    if len(seen) < 2 or {status.replica for _, status in said} != set(range(load.replicas)):
        raise BenchError(f"{load.app}: not every replica said how far it was")
    first, last = seen[0], seen[-1]
    seconds, cpu_s = (last.wall_us - first.wall_us) / 1e6, last.cpu_s - first.cpu_s
    return KeptUp(
        load=load,
        lag_s=max(0, *(lag_us for lag_us, _ in said)) / 1e6,
        fed_lag_s=max(look.wall_us - look.closed_us for look in seen) / 1e6,
        tentative=max(status.tentative_buckets for _, status in said),
        cpu_percent=100 * cpu_s / seconds,
        cpu_us=cpu_s * 1e6 / (seconds * plan.rate * SOURCES),
    )
