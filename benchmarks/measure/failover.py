"""`make bench NAME=failover`: how long readers of a query stall when one of its replicas is killed.

A real broker, a chain of two nodes with two replicas each, every one in a separate process, publishers that keep step
with the wall clock, and two readers: a live subscriber and a reader of the corrected stream. A third of the kills (kill
-9) hits a replica that the subscriber reads, a third one that the second node reads, each index in turn, and a third
the writer of the corrected stream. The gap of a kill is the longest time between two consecutive arrivals at the reader
around it, minus the ordinary one (`gaps`). A killed replica is restarted and ready before the next kill. At the
end, another Kafka client reads the corrected stream and counts what is repeated or missing.
"""

from __future__ import annotations

import csv
import json
import math
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from benchmarks.measure.gaps import ENOUGH, GapFigures, Kill, gap_figures, spacings
from borealis_py.app.child_processes import terminated_as_interrupt
from borealis_py.app.replicas import ProcessName
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Running, Stage, directory, staged
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.clock import SystemClock
from borealis_py.log.corrected import Progress
from borealis_py.query import App
from borealis_py.verify.kafka_reader import read_all
from tests.harness.readers import CorrectedListener, Listener, LiveListener
from tests.harness.staging import start_again, wait

NODE, QUERY = "cleaned", "rows"
SOURCES = 2
REPLICAS = 2
PROCESSES = [ProcessName(k, node) for node in (NODE, QUERY) for k in range(REPLICAS)]
"""Apart, so that one stream alone loses a writer."""
RATE = 50
"""Tuples a second of one source: some in every bucket."""
LIVE_TARGET_MS = 200.0
CORRECTED_TARGET_MS = 2_500.0

LEAD_S = 5
BASE_US = 1_000_000
QUIET_S = 1.2
"""Undisturbed time before each kill, at least, in which ordinary spacings are measured."""
LIVE_WATCH_S = 1.0
CORRECTED_WATCH_S = 0.5
"""Observation time after another replica has taken over."""
TAKEOVER_S = 20.0
READY_S = 60.0
KINDS = 3
KILL_S = 25
"""Upper bound of a kill with its restart: the publishers have rows for that long."""
LOOK_S = 0.05

Tick = Callable[[int, str], None]
"""Called with how many kills are done, and the current step."""


@dataclass(frozen=True, slots=True)
class Content:
    """What another client found in the corrected stream: rows, ids that are there twice, rows that are not there."""

    rows: int
    repeated: int
    missing: int


@dataclass(frozen=True, slots=True)
class FailoverFigures:
    """`live`: the gap of the live stream when a replica that the subscriber reads is killed; `upstream`: when one is
    that the node before it reads. `tentative`: buckets that the live stream showed before they were stable, though one
    replica of each node lived. `kills`: of each kind. `seconds`: how long all of it took.
    """

    live: GapFigures
    upstream: GapFigures
    corrected: GapFigures
    content: Content
    tentative: int
    kills: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Every target is met, nothing is repeated or missing."""
        met = all(gap.met for gap in (self.live, self.upstream, self.corrected))
        return met and not self.content.repeated and not self.content.missing


def app(name: str) -> App:
    """A query over two nodes that gives a row for each tuple, so that every bucket has results."""
    built = App(name, bucket="100ms")
    sources = [built.source(f"s{i}", schema={"n": "int64", "feed": "string"}) for i in range(SOURCES)]
    cleaned = built.union(*sources).filter("n >= 0").node(NODE)
    built.query(QUERY, cleaned.filter("feed IS NOT NULL"), delay_threshold="3s", replicas=REPLICAS)
    return built


def run(kills: int, work: Path | None, tick: Tick) -> FailoverFigures:
    """Measure on a broker of its own.

    Args:
        kills: of each kind.
        work: gets a directory of the run's data and logs; None: none stays.

    Raises:
        BenchError, CannotRead: something could not be measured.
        BrokerError, LaunchError, LogError: what it was to be measured on did not start.
    """
    with terminated_as_interrupt(), directory(work) as mine:
        tick(0, "starting Apache Kafka and the replicas")
        with staged(mine) as stage:
            return measure(stage, kills, tick)


def measure(stage: Stage, kills: int, tick: Tick) -> FailoverFigures:
    """Kill, watch and start again, `kills` times each way.

    Raises:
        BenchError: the streams do not flow, or nobody took over.
        LaunchError: a replica did not start.
    """
    started = time.monotonic()
    with ExitStack() as stack:
        drill = _Drill(stage, stack, kills)
        live = [drill.live(ProcessName(n % REPLICAS, QUERY), "the subscriber", tick, n) for n in range(kills)]
        nodes = [ProcessName(n % REPLICAS, NODE) for n in range(kills)]
        upstream = [drill.live(name, "the next node", tick, kills + n) for n, name in enumerate(nodes)]
        corrected = [drill.corrected(tick, 2 * kills + n) for n in range(kills)]
        tick(KINDS * kills, "reading the corrected stream back")
        drill.check()
    content = read_back(stage.log.bootstrap, topics.stream(drill.running.state.name, QUERY))
    times = drill.live_listener.times
    return FailoverFigures(
        gap_figures("live stream, a replica that the subscriber reads", LIVE_TARGET_MS, times, live),
        gap_figures("live stream, a replica that the next node reads", LIVE_TARGET_MS, times, upstream),
        gap_figures(
            "corrected stream, the replica that writes it",
            CORRECTED_TARGET_MS,
            drill.corrected_listener.times,
            corrected,
        ),
        content,
        drill.live_listener.tentative,
        kills,
        time.monotonic() - started,
    )


class _Drill:
    """The app under test, its publishers and readers, and the actions on its replicas."""

    def __init__(self, stage: Stage, stack: ExitStack, kills: int) -> None:
        self._stage = stage
        self._rng = random.Random(kills)  # kills fall anywhere in a bucket, at the same places in every run
        self._clock = SystemClock()
        self.running: Running = stage.start_replicas(stage.describe(app("bench-failover")), names=PROCESSES)
        stage.wait_ready(self.running)
        self._publish(KINDS * kills * KILL_S + 60)
        stop = threading.Event()
        state, log = self.running.state, stage.log
        self.live_listener = LiveListener("live subscriber", log, state, QUERY, stop)
        self.corrected_listener = CorrectedListener("reader of the corrected stream", log, state, QUERY, stop)
        self._lookup = log.lookup()
        stack.callback(self._lookup.close)
        for listener in self._listeners:
            listener.start()
            stack.callback(listener.join, 10)
        stack.callback(stop.set)
        self._flowing()

    @property
    def _listeners(self) -> tuple[Listener, Listener]:
        return self.live_listener, self.corrected_listener

    def _publish(self, seconds: int) -> None:
        t0_us = (math.ceil(time.time()) + LEAD_S) * 1_000_000
        pace = ["--stime", "at", "--speed", "1", "--base", str(BASE_US), "--start", str(t0_us)]
        for i in range(SOURCES):
            path = self._stage.work / f"f{i}.csv"
            write_source(path, i, seconds)
            name = self.running.state.name
            self._stage.borealis(f"publish-s{i}", "publish", f"s{i}", str(path), "--app", name, *pace)

    def _flowing(self) -> None:
        """Both readers see rows."""
        self._until(lambda: all(len(x.times) > 5 for x in self._listeners), LEAD_S + 30.0, "the streams do not flow")

    def check(self) -> None:
        """Raises BenchError when a reader has ended."""
        for listener in self._listeners:
            if listener.error is not None:
                raise BenchError(listener.error)

    def live(self, name: ProcessName, reader: str, tick: Tick, number: int) -> Kill:
        """Kill a process whose replica `reader` reads, as it does all replicas of that node."""
        quiet = self._quiet(tick, number, f"kill -9 of {name}, which {reader} reads")
        at = self._kill(name)
        time.sleep(LIVE_WATCH_S)
        until = self._clock.now_us()
        self._start_again(name)
        return Kill(quiet, at, until)

    def corrected(self, tick: Tick, number: int) -> Kill:
        """Kill the writer of the corrected stream."""
        quiet = self._quiet(tick, number, "kill -9 of the replica that writes the corrected stream")
        writer = self._writer().replica
        name = ProcessName(writer, QUERY)
        at = self._kill(name)
        self._until(
            lambda: self._writer().replica != writer,
            TAKEOVER_S,
            f"{name} was killed, and nobody went on with the corrected stream",
        )
        time.sleep(CORRECTED_WATCH_S)
        until = self._clock.now_us()
        self._start_again(name)
        return Kill(quiet, at, until)

    def _quiet(self, tick: Tick, number: int, what: str) -> int:
        tick(number, what)
        self.check()
        since = self._clock.now_us()
        time.sleep(QUIET_S + self._rng.random() / 10)
        self._until(lambda: self._enough(since), TAKEOVER_S, "the streams stand still before anything is killed")
        return since

    def _enough(self, since: int) -> bool:
        now = self._clock.now_us()
        return all(len(spacings(each.times, since, now)) >= ENOUGH for each in self._listeners)

    def _writer(self) -> Progress:
        """Who wrote the last committed progress."""
        feed = Feed(topics.progress(self.running.state.name, QUERY))
        first, end = self._lookup.bounds(feed)
        last = list(self._lookup.read(feed, max(first, end - 8), end)) or list(self._lookup.read(feed, first, end))
        if not last or last[-1].value is None:
            raise BenchError("nobody writes the corrected stream")
        return msgspec.json.decode(last[-1].value, type=Progress)

    def _kill(self, name: ProcessName) -> int:
        process = psutil.Process(self.running.pids[name])
        at = self._clock.now_us()
        process.kill()
        return at

    def _start_again(self, name: ProcessName) -> None:
        start_again(self._stage, self.running, name, READY_S, check=self.check)

    def _until(self, condition: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
        wait(condition, timeout_s, otherwise, self.check)


def write_source(path: Path, source: int, seconds: int) -> None:
    """The rows of one source as CSV, evenly spaced and numbered from 0, a little apart from those of the others."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["at", "n", "feed"])
        for n in range(RATE * seconds):
            writer.writerow([BASE_US + n * 1_000_000 // RATE + source * 1_000_000 // (RATE * SOURCES), n, f"s{source}"])


def read_back(bootstrap: str, topic: str) -> Content:
    """Read the topic with kafka-python and count. Shares no code with what wrote it.

    A source's rows are numbered from 0 and lie in the stream in that order, so a hole below the last is a missing row.

    Raises:
        CannotRead: the topic could not be read to its end.
    """
    return counted([(dict(r.headers)["id"], json.loads(r.value or b"null")) for r in read_all(bootstrap, topic)])


def counted(rows: list[tuple[bytes, dict[str, object]]]) -> Content:
    """What is repeated (an id, or a source's number) and what is missing among (id, row) pairs."""
    ids = {row_id for row_id, _ in rows}
    numbers: dict[object, list[int]] = {}
    for _, row in rows:
        numbers.setdefault(row["feed"], []).append(int(str(row["n"])))
    repeated = max(len(rows) - len(ids), sum(len(n) - len(set(n)) for n in numbers.values()))
    missing = sum(max(n) + 1 - len(set(n)) for n in numbers.values())
    return Content(len(rows), repeated, missing)
