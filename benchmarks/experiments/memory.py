"""`make bench NAME=memory`: an input is missing while an hour of another one is read, and then delivers its own hour.

Everything goes through two replicas: the available input runs live, tentatively; rows beyond the budget leave memory;
later everything is corrected from the log. The memory of the replicas' processes is sampled throughout; at the end, the
corrected stream must equal the result of plain arithmetic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from benchmarks.load.steady import ORIGIN, Steady
from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions, Size
from borealis_py.app.state import AppState, StatusReader
from borealis_py.bench import events
from borealis_py.bench.catchup import totals
from borealis_py.bench.console import At, Bars
from borealis_py.bench.figures import BenchError
from borealis_py.bench.processes import MB
from borealis_py.bench.stage import Running, Stage, stage_for
from borealis_py.log import topics
from borealis_py.log.base import NewRecord
from borealis_py.log.messages import Status
from borealis_py.observe.process_tree import parts
from borealis_py.protocol.settings import Timing
from borealis_py.runtime.spark import class_archive

LIVE, CORRECTING = "live", "correcting"
"""Phases: the second input is missing; it is back."""
FLAT: float = goals("memory")["flat"]
"""Limit of the peak in the second half of a phase relative to the first: beyond it, memory grows with the failure."""
COLUMNS = (
    "replica",
    "start MB",
    "budget full MB",
    "live, 1st half MB",
    "2nd half MB",
    "correcting, 1st half MB",
    "2nd half MB",
    "end MB",
    "2nd / 1st",
    "MB per million rows: below the budget",
    "beyond",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One replica at one moment. `rows_read`: input rows taken so far. `live`, `stable`: its frontiers, as buckets.
    `pss_mb`: of all its processes.
    """

    replica: int
    at_s: float
    phase: str
    rows_read: int
    live: int
    stable: int
    pss_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAnswer:
    """The corrected stream compared with the truth. `expected`: number of correct results; `right`: those found;
    `wrong`: others, or with another value. `counted`: input rows in all results.
    """

    expected: int
    right: int
    wrong: int
    counted: int
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One replay.

    Attributes:
        seconds: of input. rows: of each source. live_s: from the first row until all replicas had run everything
            without the second source.
        corrected_s: from its first row until everything was corrected and published. restarts: of replicas.
        tentative_buckets: the smallest number that a replica ran live, of `buckets`.
    """

    host: str
    budget: int
    seconds: int
    rows: tuple[int, ...]
    looks: list[Look]
    live_s: float
    corrected_s: float
    restarts: int
    tentative_buckets: int
    buckets: int
    answer: WindowAnswer

    @property
    def lost(self) -> str:
        """Everything that is wrong; empty: nothing was lost."""
        answer, total = self.answer, sum(self.rows)
        said = {
            f"{answer.expected - answer.right} of {answer.expected} results are missing or wrong": answer.right
            < answer.expected,
            f"{answer.wrong} results are none": answer.wrong,
            f"{answer.counted} of {total} rows are counted": answer.counted != total,
            f"{answer.dead_letters} dead letters": answer.dead_letters,
        }
        return "; ".join(what for what, so in said.items() if so)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flatness:
    """The memory of one replica over time; megabytes. `live`, `correcting`: the peak in the first and second half of
    the phase, by buckets, once the budget was full. `below`, `beyond`: growth per million rows read, until the budget
    is full and after that, while everything runs live.
    """

    replica: int
    start_mb: float
    full_mb: float
    live_mb: tuple[float, float]
    correcting_mb: tuple[float, float]
    end_mb: float
    below: float
    beyond: float

    @property
    def growth(self) -> float:
        """The second half relative to the first, in the worse phase."""
        return max(later / first for first, later in (self.live_mb, self.correcting_mb))

    @property
    def jump(self) -> float:
        """The peak while it corrects relative to that before."""
        return max(self.correcting_mb) / max(self.live_mb)


def flatness(looks: Sequence[Look], replica: int, budget: int) -> Flatness:
    """Raises ValueError: the replica never read that much while it ran live, or was not sampled while correcting."""
    mine = [look for look in looks if look.replica == replica]
    live = [look for look in mine if look.phase == LIVE and look.rows_read >= budget]
    correcting = [look for look in mine if look.phase == CORRECTING]
    if not live or not correcting:
        raise ValueError(f"replica {replica} was not seen live with {budget} rows read, or not correcting")
    first, full = mine[0], live[0]
    return Flatness(
        replica=replica,
        start_mb=first.pss_mb,
        full_mb=full.pss_mb,
        live_mb=_halves(live, [look.live for look in live]),
        correcting_mb=_halves(correcting, [look.stable for look in correcting]),
        end_mb=mine[-1].pss_mb,
        below=_slope(first, full),
        beyond=_slope(full, live[-1]),
    )


def _halves(looks: Sequence[Look], at: Sequence[int]) -> tuple[float, float]:
    """The peak in each half of the way given by `at`. An empty half has the peak of what came before."""
    middle = (at[0] + at[-1]) / 2
    first = max(look.pss_mb for look, where in zip(looks, at, strict=True) if where <= middle)
    later = [look.pss_mb for look, where in zip(looks, at, strict=True) if where > middle]
    return first, max(later, default=first)


def _slope(one: Look, other: Look) -> float:
    rows = other.rows_read - one.rows_read
    return (other.pss_mb - one.pss_mb) / rows * 1e6 if rows else 0.0


def outcome(found: Replayed) -> Outcome:
    """All of it."""
    replicas = sorted({look.replica for look in found.looks})
    flat = [flatness(found.looks, replica, found.budget) for replica in replicas]
    worst = max(one.growth for one in flat)
    answer = found.answer
    return Outcome(
        name="memory",
        title=f"{_span(found.seconds)} of input with one of two sources missing: memory of a replica, and what is lost",
        published=published("memory"),
        setup=f"{' and '.join(f'{n:,}' for n in found.rows)} rows of two sources, as publishers write them at "
        f"{' and '.join(f'{n // found.seconds:,}' for n in found.rows)} tuples/s, replayed as fast as it goes through "
        f"{len(replicas)} replicas (host {found.host}) with buffer_rows_max {found.budget:,}. The second source is not "
        "there until every replica has run all of the first one, tentatively. Both are read while they are written. "
        "Start: before there are rows. Memory is PSS of all of a replica's "
        f"processes, twice a second. Live took {found.live_s:.1f} s, {found.buckets:,} buckets; then from the second "
        f"source's first row until all was corrected and published {found.corrected_s:.1f} s.",
        worse=_worse(found, flat),
        columns=[COLUMNS[0], *(f"{name}>" for name in COLUMNS[1:])],
        rows=[_row(one) for one in flat],
        ratios={
            "memory in the first half to the second": 1 / worst,
            "final results that are right": answer.right / (answer.expected + answer.wrong),
            "rows that are counted": min(answer.counted, sum(found.rows)) / sum(found.rows),
            "buckets that ran live": found.tentative_buckets / found.buckets,
        },
        data={"replay": asdict(found), "flatness": [{**asdict(one), "growth": one.growth} for one in flat]},
        panels=_panels(found, replicas),
    )


def _span(seconds: int) -> str:
    return f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds / 60:g} min"


def _row(one: Flatness) -> list[str]:
    sizes = (one.start_mb, one.full_mb, *one.live_mb, *one.correcting_mb, one.end_mb)
    return [
        str(one.replica),
        *(f"{mb:.0f}" for mb in sizes),
        f"{one.growth:.2f}",
        f"{one.below:.0f}",
        f"{one.beyond:.0f}",
    ]


def _worse(found: Replayed, flat: Sequence[Flatness]) -> str:
    worst, jump = max(one.growth for one in flat), max(one.jump for one in flat)
    said = [f"nothing was lost: {found.answer.right:,} results, each right"]
    if found.lost:
        said = [f"LOST: {found.lost}"]
    if worst > FLAT:
        said.append(f"not flat: in the second half of a phase up to {worst:.2f} times the first (goal {FLAT:g})")
    if jump > FLAT:
        said.append(f"correcting takes {jump:.2f} times the memory of running live")
    if found.restarts:
        said.append(f"replicas started again {found.restarts} times")
    if found.tentative_buckets < found.buckets:
        said.append(f"{found.buckets - found.tentative_buckets:,} of {found.buckets:,} buckets never ran live")
    return "; ".join(said)


def _panels(found: Replayed, replicas: Sequence[int]) -> list[Panel]:
    looks = {
        (replica, phase): [look for look in found.looks if (look.replica, look.phase) == (replica, phase)]
        for replica in replicas
        for phase in (LIVE, CORRECTING)
    }
    names = {key: f"replica {key[0]}, {key[1]}" for key in looks}
    weights = [
        Curve(label=names[key], x=[x.rows_read / 1e6 for x in of], y=[x.pss_mb for x in of])
        for key, of in looks.items()
    ]
    over_time = [Curve(label=names[key], x=[x.at_s for x in of], y=[x.pss_mb for x in of]) for key, of in looks.items()]
    read = [
        Curve(label=names[key], x=[x.at_s for x in of], y=[x.rows_read / 1e6 for x in of]) for key, of in looks.items()
    ]
    top = max(look.pss_mb for look in found.looks)
    budget = Curve(label="budget", x=[found.budget / 1e6] * 2, y=[0.0, top])
    return [
        Panel(title="Memory against rows read", x="million rows read", y="PSS, MB", curves=[*weights, budget]),
        Panel(title="Memory over time", x="s", y="PSS, MB", curves=over_time),
        Panel(title="Rows read", x="s", y="million rows", curves=read, bound=found.budget / 1e6),
    ]


APP, REPLICAS = "bench-memory", 2
LOOK_S = 0.5
STILL_S = 60.0
"""If nothing has moved for this long, it never will."""
TICK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """`seconds` of input; the first source is present, the second one is missing at first.

    Attributes:
        rates: rows per second of each source, multiples of 10. budget: `buffer_rows_max` of the app.
    """

    seconds: int
    rates: tuple[int, int] = (1_000, 1_000)
    budget: int = Timing().buffer_rows_max

    @property
    def input(self) -> Steady:
        """Of both sources."""
        return Steady(tuple(rate // 10 for rate in self.rates), self.seconds * 10)


HOURS: dict[Size, Hour] = {
    "short": Hour(seconds=900, budget=60_000),
    "usual": Hour(seconds=3_600),
    "full": Hour(seconds=7_200),
}


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Replay it once.

    Raises:
        BenchError: the replicas did not get through it.
        BrokerError, LaunchError, LogError, SparkUnavailable: something to be measured did not start.
    """
    if options.host == "spark":
        class_archive.prepare(bars.say)
    with stage_for(options.work, bars) as stage:
        return outcome(measure(stage, HOURS[options.size], options.host, bars))


def measure(stage: Stage, hour: Hour, host: str, bars: Bars) -> Replayed:
    """Raises as `run`."""
    rows = hour.input
    timing = replace(Timing(), buffer_rows_max=hour.budget)
    state = stage.describe(events.app(APP, len(hour.rates), REPLICAS), str(events.START_US), timing)
    bars.say(f"starting {REPLICAS} replicas")
    running = stage.start_replicas(state, host)
    stage.wait_ready(running)
    watch = MemoryWatch(stage, running)
    try:
        watch.first()
        began = time.monotonic()
        _fill(stage, state, rows, 0, bars, watch)
        with bars.bar("live, without the second input: buckets", rows.buckets) as at:
            watch.until(LIVE, lambda s: s.f_l, rows.end, at)
        back = time.monotonic()
        _fill(stage, state, rows, 1, bars, watch)
        with bars.bar("all of it corrected: buckets", rows.buckets) as at:
            watch.until(CORRECTING, lambda s: min(s.f_s, s.progress), rows.end, at)
        live_s, corrected_s = back - began, time.monotonic() - back
        newest = watch.newest()
    finally:
        watch.close()
        running.processes.stop()
    bars.say("comparing with plain arithmetic")
    return Replayed(
        host=host,
        budget=hour.budget,
        seconds=hour.seconds,
        rows=tuple(rate * hour.seconds for rate in hour.rates),
        looks=watch.looks,
        live_s=live_s,
        corrected_s=corrected_s,
        restarts=sum(status.inc - 1 for status in newest),
        tentative_buckets=min(status.tentative_buckets for status in newest),
        buckets=rows.buckets,
        answer=_answer(stage, rows),
    )


def _fill(stage: Stage, state: AppState, rows: Steady, source: int, bars: Bars, watch: MemoryWatch) -> None:
    """Write all rows of a source. Replicas, which are watched meanwhile, read them at the same time."""
    phase = (LIVE, CORRECTING)[source]
    feed = topics.source(state.name, f"s{source}")
    total = rows.buckets * rows.per_bucket[source]

    def ticking(at: At) -> Iterator[NewRecord]:
        for n, record in enumerate(rows.records(feed, state.app_uid, source)):
            yield record
            if n % TICK == 0:
                at(n)
                watch.look(phase)

    with bars.bar(f"writing {total:,} rows of source {source}", rows.buckets) as at:
        stage.fill(ticking(at))


class MemoryWatch:
    """Samples the replicas of an app: their progress, from statuses, and the memory of their processes."""

    def __init__(self, stage: Stage, running: Running) -> None:
        self.looks: list[Look] = []
        self._running = running
        self._began = time.monotonic()
        self._looked = 0.0
        self._statuses = StatusReader(stage.log, running.state.name, running.started_ms)

    def newest(self) -> list[Status]:
        """The newest status of each replica that has one, in the order of replica indices."""
        self._statuses.poll()
        found = self._statuses.newest
        return [found[key] for key in sorted(found)]

    def look(self, phase: str) -> None:
        """Take a sample, at most twice a second."""
        now = time.monotonic()
        if now < self._looked + LOOK_S:
            return
        self._looked = now
        weights: dict[int, float] = {}
        for part in parts(self._running.processes):
            size = part.rss_bytes if part.pss_bytes is None else part.pss_bytes
            replica = part.process.replica
            weights[replica] = weights.get(replica, 0.0) + size / MB
        for status in self.newest():
            if status.replica in weights:
                look = Look(
                    replica=status.replica,
                    at_s=now - self._began,
                    phase=phase,
                    rows_read=status.tuples_in,
                    live=status.f_l,
                    stable=status.f_s,
                    pss_mb=weights[status.replica],
                )
                self.looks.append(look)

    def first(self) -> None:
        """Take a sample of every replica, before there are rows.

        Raises:
            BenchError: one does not report.
        """
        deadline = time.monotonic() + STILL_S
        while {look.replica for look in self.looks} != set(range(REPLICAS)):
            if time.monotonic() > deadline:
                raise BenchError(f"after {STILL_S:g} s only {len(self.newest())} of {REPLICAS} replicas have reported")
            self.look(LIVE)
            time.sleep(LOOK_S / 5)

    def until(self, phase: str, where: Callable[[Status], int], end: int, at: At) -> None:
        """Keep sampling until every replica is at bucket `end`.

        Raises:
            BenchError: a replica has ended, or nothing moves any more.
        """
        moved = time.monotonic()
        last: list[tuple[int, int, int, int]] = []
        while True:
            self.look(phase)
            newest = self.newest()
            if len(newest) == REPLICAS and all(where(status) >= end for status in newest):
                return
            if newest:
                at(max(0, min(map(where, newest)) - ORIGIN))
            marks = [(s.tuples_in, s.f_l, s.f_s, s.progress) for s in newest]
            if marks != last:
                moved, last = time.monotonic(), marks
            if time.monotonic() > moved + STILL_S or not self._running.processes.running():
                said = ", ".join(f"replica {s.replica} {s.state} at {where(s)}" for s in newest) or "no replica spoke"
                raise BenchError(f"{phase}: nothing moves any more before bucket {end}: {said}")
            time.sleep(LOOK_S / 5)

    def close(self) -> None:
        self._statuses.close()


def _answer(stage: Stage, rows: Steady) -> WindowAnswer:
    """Raises BenchError for a duplicate result."""
    true = rows.truth()
    found = totals(stage.read(topics.stream(APP, events.QUERY)))
    return WindowAnswer(
        expected=len(true),
        right=sum(found.get(key) == value for key, value in true.items()),
        wrong=sum(key not in true or true[key] != value for key, value in found.items()),
        counted=sum(n for n, _ in found.values()),
        dead_letters=len(stage.read(topics.deadletter(APP))),
    )
