"""Kills the replica that runs, and watches what a reader of the live view sees of it; counts bytes and processor time.

Every replica of every query has a process of its own, so that a kill hits one query.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from statistics import median

import msgspec
import psutil

from borealis_py.app import launch
from borealis_py.app.explain import explain
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.recovering.forecast import Forecast, forecasts
from borealis_py.app.recovering.trial import try_nodes
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.state import StatusReader
from borealis_py.bench.experiments.recovery import cases
from borealis_py.bench.experiments.recovery.cases import (
    ACTIVE,
    PASSIVE,
    RATE,
    UPSTREAM,
    WayBytes,
    WayCores,
    WayStills,
    query_of,
    recovery_app,
)
from borealis_py.bench.load import events
from borealis_py.bench.load.feeders import Feeders
from borealis_py.bench.load.feeding import SOURCES, FeedPlan
from borealis_py.bench.load.listening import LiveListener
from borealis_py.bench.load.stage import Running, Stage, end
from borealis_py.bench.measure.cputime import tree_cpu_s
from borealis_py.bench.measure.gaps import Kill, longest, spacings
from borealis_py.bench.measure.volume import log_sizes
from borealis_py.bench.report.bars import Say
from borealis_py.bench.report.figures import BenchError
from borealis_py.client.publisher import wall_us
from borealis_py.log import topics
from borealis_py.log.clock import SystemClock
from borealis_py.node.checkpoint_topic import KAFKA
from borealis_py.protocol.settings import Timing
from borealis_py.query.recovery import RecoveryWay
from borealis_py.query.spec import AppSpec
from borealis_py.verify.kafka_reader import read_all

LEAD_S = 2
FILL_S = 5
"""After windows are full."""
QUIET_S = 1.2
"""Undisturbed time before each kill, in which ordinary spacings are measured."""
WATCH_S = 1.5
FLOWS_S, FLOWS = 0.6, 4
"""The stream flows again when so many arrivals are in so many seconds."""
OVER_S = 60.0
SETTLE_S = 120.0
KILL_S = 90
"""Upper bound of a kill with its restart: the publishers have rows for that long."""
LOOK_S = 0.05
GROWN_S = 0.25
SETTLE_BUSY_S = 5.0


def checkpoints_of(way: RecoveryWay) -> str:
    """Where replicas leave what another one begins with: in Kafka, as on machines that share nothing; those of the
    other ways begin with their own."""
    return KAFKA if way in (PASSIVE, UPSTREAM) else ""


def predicted(spec: AppSpec, rate: int) -> dict[tuple[str, RecoveryWay], Forecast]:
    """What `borealis explain` says of each query and way, at this many rows a second, tried on rows of the bench."""
    found = explain(spec, Timing())
    rates = dict.fromkeys(found.spec.sources, rate / SOURCES)
    rows = [events.event_json(i, events.START_US + i * 1_000) for i in range(1_000)]
    tried = try_nodes(found.spec, rates, {name: rows[i::SOURCES] for i, name in enumerate(found.spec.sources)})
    ways = forecasts(found, Timing(), tried, {})
    return {(name, one.way): one for name, some in ways.items() for one in some}


class _Apart:
    """An app with a process for each replica of each query, and its publishers."""

    def __init__(self, stage: Stage, way: RecoveryWay, windows_s: Sequence[int], replicas: int, suffix: str) -> None:
        self.stage, self.way, self.windows_s = stage, way, windows_s
        self.names = [ProcessName(k, query_of(w)) for w in windows_s for k in range(replicas)]
        state = stage.describe(recovery_app(f"recovery-{way.value}{suffix}", way, windows_s, replicas))
        processes = ReplicaProcesses(stage.work, state.name)
        self._spec = msgspec.structs.replace(
            ProcessSpec.unconfigured(stage.log, stage.work), checkpoints=checkpoints_of(way)
        )
        stage.endings.callback(processes.stop)
        pids = launch.start_processes(state, processes, self._spec, self.names)
        self.running = Running(state, processes, pids, SystemClock().wall_us() // 1000)
        stage.wait_ready(self.running)
        self._feeders = Feeders(stage, state.name)
        self._feeders.wait_ready()

    @property
    def name(self) -> str:
        return self.running.state.name

    def publish(self, rate: int, seconds: int) -> float:
        """Begin. Returns when, in seconds since 1970."""
        t0 = math.ceil(wall_us() / 1e6) + LEAD_S
        self._feeders.begin(FeedPlan(rate=round(rate / SOURCES), t0_us=t0 * 1_000_000, seconds=seconds))
        return float(t0)

    def check(self) -> None:
        """Raises BenchError: a publisher has ended."""
        for name, process in self._feeders.processes.items():
            if process.poll() is not None:
                raise BenchError(f"the publisher has ended; see {name}.log")

    def start_again(self, name: ProcessName) -> None:
        """Start a process that was killed, and wait until it is ready. Raises LaunchError, BenchError."""
        running, log = self.running, self.stage.log
        wait(lambda: running.processes.ended(name) is not None, 10.0, f"{name} survived kill -9")
        since_ms = SystemClock().wall_us() // 1000
        running.pids = launch.start_processes(running.state, running.processes, self._spec, self.names, take_over=True)
        only = {name: running.pids[name]}
        launch.wait_ready(log, running.state, running.processes, only, since_ms, timeout_s=SETTLE_S)

    def kinds(self, window_s: int) -> dict[str, str]:
        """Topic -> what it holds of the query with this window."""
        kept = [topics.kept_files(self.name, f"{query_of(window_s)}.r{k}") for k in range(2)]
        of = {name: kind for name in self._topics() if (kind := cases.kind_of(self.name, name, window_s)) is not None}
        return {**of, **dict.fromkeys(kept, cases.STATE_KIND)}

    def sizes(self) -> dict[str, int]:
        """Bytes of each topic as it lies in the broker's log."""
        names = {name for window_s in self.windows_s for name in self.kinds(window_s)}
        return log_sizes(self.stage.broker.data_dir / "log", dict(zip(names, names, strict=True)))

    def _topics(self) -> list[str]:
        admin = self.stage.log.admin()
        try:
            return [name for name in admin.topics() if name.startswith(f"{self.name}.")]
        finally:
            admin.close()

    def end(self) -> None:
        for process in self._feeders.processes.values():
            end(process)
        self.running.processes.stop()
        self.stage.forget(self.running.state)


def wait(condition: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
    """Raises BenchError: `otherwise`, in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise BenchError(f"{otherwise}, within {timeout_s:g} s")
        time.sleep(LOOK_S)


@contextmanager
def apart(
    stage: Stage, way: RecoveryWay, windows_s: Sequence[int], replicas: int = 2, suffix: str = ""
) -> Iterator[_Apart]:
    """Such an app, whose topics are deleted in the end."""
    app = _Apart(stage, way, windows_s, replicas, suffix)
    try:
        yield app
    finally:
        app.end()


def bytes_alone(stage: Stage, windows_s: Sequence[int], seconds: float, say: Say) -> list[WayBytes]:
    """Of one replica. Raises BenchError, LaunchError."""
    say(f"one replica alone: bytes in {seconds:g} s")
    with apart(stage, ACTIVE, windows_s, 1, "-alone") as app:
        t0 = app.publish(RATE, math.ceil(seconds) + 3 * FILL_S)
        time.sleep(max(0.0, t0 + FILL_S - time.time()))
        return [WayBytes(way="", window_s=w, by_kind=b) for w, b in grown(app, seconds).items()]


def grown(app: _Apart, seconds: float) -> dict[int, dict[str, float]]:
    """Bytes a second by window and kind. Raises BenchError: nothing came."""
    began, sizes = time.monotonic(), [app.sizes()]
    while time.monotonic() < began + seconds:
        time.sleep(GROWN_S)
        sizes.append(app.sizes())
    took_s, bytes_ = time.monotonic() - began, written_bytes(sizes)
    found: dict[int, dict[str, float]] = {w: dict.fromkeys(cases.KINDS, 0.0) for w in app.windows_s}
    for window_s, by in found.items():
        for name, kind in app.kinds(window_s).items():
            by[kind] += bytes_.get(name, 0) / took_s
        if by[cases.SOURCE_KIND] <= 0:
            raise BenchError("nothing was written to the sources while bytes were counted")
    return found


def written_bytes(sizes: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """What was written to each topic while these sizes were looked at: checkpoints are deleted soon, and then their
    topics are shorter than before."""
    found: Counter[str] = Counter()
    for before, after in pairwise(sizes):
        for name, size in after.items():
            found[name] += max(0, size - before.get(name, 0))
    return dict(found)


def killed(
    stage: Stage, way: RecoveryWay, windows_s: Sequence[int], kills: int, seconds: float, say: Say
) -> tuple[list[WayStills], list[WayBytes]]:
    """One way: first its bytes for `seconds`, then `kills` kills of each window.

    Raises:
        BenchError: the streams do not flow, or nobody took over. CannotRead: a result cannot be read back.
        LaunchError: a replica did not start.
    """
    say(f"{way}: starting")
    with apart(stage, way, windows_s) as app, ExitStack() as stack:
        of = predicted(app.running.state.spec, RATE)
        t0 = app.publish(RATE, max(windows_s) + round(seconds) + kills * len(windows_s) * KILL_S)
        drills = [_Drill(app, w, stack) for w in windows_s]
        say(f"{way}: windows fill")
        time.sleep(max(0.0, t0 + max(windows_s) + FILL_S - time.time()))
        say(f"{way}: bytes in {seconds:g} s")
        written = grown(app, seconds)
        found = []
        for drill in drills:
            for number in range(kills):
                say(f"{way}, window of {drill.window_s} s: kill {number + 1} of {kills}")
                drill.kill(number)
            known = of[query_of(drill.window_s), way].predicted
            assert known is not None
            found.append(drill.figures(known.still_s))
    return found, [_way_bytes(way, w, by, of) for w, by in written.items()]


def _way_bytes(
    way: RecoveryWay, window_s: int, by: dict[str, float], of: Mapping[tuple[str, RecoveryWay], Forecast]
) -> WayBytes:
    known = of[query_of(window_s), way].predicted
    return WayBytes(way=way.value, window_s=window_s, by_kind=by, predicted=0.0 if known is None else known.bytes_per_s)


class _Drill:
    """The kills of one query's replicas, and the reader of its live view."""

    def __init__(self, app: _Apart, window_s: int, stack: ExitStack) -> None:
        self.window_s = window_s
        self._app, self._query = app, query_of(window_s)
        self._clock, self._rng = SystemClock(), random.Random(window_s)
        self._kills: list[Kill] = []
        stop = threading.Event()
        state, log = app.running.state, app.stage.log
        self._reader = LiveListener(f"live view of {self._query}", log, state, self._query, stop)
        self._statuses = StatusReader(log, state.name, app.running.started_ms)
        stack.callback(self._statuses.close)
        self._reader.start()
        stack.callback(self._reader.join, 10)
        stack.callback(stop.set)

    def kill(self, number: int) -> None:
        """Kill the replica that runs, watch until the stream flows again, and start it as a standby."""
        name = ProcessName(self._runner(number), self._query)
        quiet = self._clock.now_us()
        time.sleep(QUIET_S + self._rng.random() / 10)  # kills fall anywhere in a bucket
        process, at = psutil.Process(self._app.running.pids[name]), self._clock.now_us()
        process.kill()
        time.sleep(WATCH_S)
        wait(self._flows, OVER_S, f"{name} was killed, and the live view stands still")
        self._kills.append(Kill(quiet, at, self._clock.now_us()))
        self._app.start_again(name)

    def _flows(self) -> bool:
        self._app.check()
        if self._reader.error is not None:
            raise BenchError(self._reader.error)
        now = self._clock.now_us()
        return len(spacings(self._reader.times, now - round(FLOWS_S * 1e6), now)) >= FLOWS

    def _runner(self, number: int) -> int:
        """Who runs, once the others stand by; where all run, each in turn."""
        active, wanted = self._app.way is ACTIVE, {"STABLE"} if self._app.way is ACTIVE else {"STABLE", "STANDBY"}
        wait(lambda: set(self._states().values()) == wanted and self._flows(), SETTLE_S, f"{self._query} is not ready")
        return number % 2 if active else next(k for k, state in self._states().items() if state == "STABLE")

    def _states(self) -> dict[int, str]:
        self._statuses.poll()
        pids = self._app.running.pids
        now = {k: self._statuses.newest.get((self._query, k)) for k in range(2)}
        return {
            k: "" if said is None or said.pid != pids[ProcessName(k, self._query)] else said.state
            for k, said in now.items()
        }

    def figures(self, predicted_s: float) -> WayStills:
        """Of all kills so far. Raises CannotRead, BenchError."""
        times = self._reader.times
        ordinary = [us for kill in self._kills for us in spacings(times, kill.quiet, kill.at)]
        if not ordinary:
            raise BenchError(f"{self._query}: nothing arrived before the kills")
        usual = median(ordinary)
        rows, repeated, missing = read_back(self._app.stage.log.bootstrap, topics.stream(self._app.name, self._query))
        return WayStills(
            way=self._app.way.value,
            window_s=self.window_s,
            stills_s=[max(0.0, longest(times, k.at, k.until) - usual) / 1e6 for k in self._kills],
            quiet_s=[max(0.0, max(spacings(times, k.quiet, k.at), default=0) - usual) / 1e6 for k in self._kills],
            spacing_s=usual / 1e6,
            predicted_s=predicted_s,
            tentative=self._reader.tentative,
            rows=rows,
            repeated=repeated,
            missing=missing,
        )


def read_back(bootstrap: str, topic: str) -> tuple[int, int, int]:
    """Rows of a corrected stream, how many are there twice, and how many windows of customers are not there between the
    first and the last. Reads with kafka-python. Raises CannotRead."""
    return counted_windows([json.loads(record.value or b"null") for record in read_all(bootstrap, topic)])


def counted_windows(rows: Sequence[Mapping[str, object]]) -> tuple[int, int, int]:
    """The same of rows that were read. The first second has no row of some customers."""
    times: Counter[int] = Counter(int(str(row["window_start"])) for row in rows)
    once = {(row["window_start"], row["customer"]) for row in rows}
    full = [start for start, n in times.items() if n >= events.CUSTOMERS]
    if not full:
        return len(rows), len(rows) - len(once), 0
    wanted = range(min(full), max(times), events.WINDOW_US)
    missing = sum(max(0, events.CUSTOMERS - times[start]) for start in wanted)
    return len(rows), len(rows) - len(once), missing


def cores(stage: Stage, way: RecoveryWay | None, seconds: float, say: Say) -> WayCores:
    """Processor time of all replicas at `BUSY_RATE`. `way`: None: of one replica alone.

    Raises:
        BenchError: a publisher failed. LaunchError: a replica did not start.
    """
    say(f"{way or 'one replica alone'}: {cases.BUSY_RATE:,} tuples/s for {seconds:g} s")
    windows_s = [cases.BUSY_WINDOW_S]
    with apart(stage, way or ACTIVE, windows_s, 2 if way else 1, "-busy" if way else "-busy-alone") as app:
        t0 = app.publish(cases.BUSY_RATE, math.ceil(cases.BUSY_WINDOW_S + SETTLE_BUSY_S + seconds) + FILL_S)
        time.sleep(max(0.0, t0 + cases.BUSY_WINDOW_S + SETTLE_BUSY_S - time.time()))
        pids = app.running.pids.values()
        began, before = time.monotonic(), tree_cpu_s(pids)
        time.sleep(seconds)
        found = (tree_cpu_s(pids) - before) / (time.monotonic() - began)
        app.check()
        beside = None
        if way is not None:
            name = query_of(cases.BUSY_WINDOW_S)
            beside = predicted(app.running.state.spec, cases.BUSY_RATE)[name, way].predicted
    return WayCores(way=way.value if way else "", cores=found, predicted=0.0 if beside is None else beside.cores)
