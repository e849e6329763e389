"""`make bench NAME=memory`: an input is missing while an hour of another one is read, and then delivers its own hour.

Everything goes through two replicas: the available input runs live, tentatively; rows beyond the budget leave memory;
later everything is corrected from the log. The memory of the replicas' processes is sampled throughout; at the end, the
corrected stream must equal the result of plain arithmetic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from benchmarks.experiments import memory_tables
from benchmarks.experiments.memory_tables import CORRECTING, LIVE, Look, Replayed, WindowAnswer
from benchmarks.load.steady import ORIGIN, Steady
from benchmarks.report.outcome import Outcome
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
        return memory_tables.outcome(measure(stage, HOURS[options.size], options.host, bars))


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
