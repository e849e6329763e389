"""The main job: publish flights, cut one source off, watch, heal, wait until all is stable, check everything.

Starts a real broker, two Spark applications whose tasks are the replicas, and three publishers, and stops all of them
whatever happens.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from borealis_py.app import launch
from borealis_py.app.child_processes import end, terminated_as_interrupt
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ReplicaProcesses
from borealis_py.app.state import AppState
from borealis_py.demo import data, flights
from borealis_py.demo.measure import AddedDelays, measure
from borealis_py.demo.report import LOOKED_UP, DemoVerdict, Facts, finish
from borealis_py.demo.screen import Screen
from borealis_py.demo.watch import QueryWatcher, StatusFollower
from borealis_py.engine.keyed.table_file import known
from borealis_py.kafka.broker import LocalBroker, free_port
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Appender, Feed, NewRecord
from borealis_py.log.clock import SystemClock
from borealis_py.log.messages import SourceFailure, encode
from borealis_py.protocol.settings import Timing
from borealis_py.runtime.spark import class_archive
from borealis_py.runtime.spark.session import ReplicaSession
from reconcile.audit import AuditResult, audit_on_spark, audit_specs

LEAD_S = 6
"""From deciding T0 to T0: the publishers start in it."""
SETTLE_S = 90.0
"""After the last row: by then everything is stable, or the demo says that it is not."""
ON_SPARK = Timing(inline_us=0)
"""Spark takes over half a minute of flights, however soon this process could."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How the demo runs. `cut_after_s` after T0 (just before a window ends) `source` is cut off for `cut_s`."""

    out: Path
    days: int = data.DAYS
    threshold_s: float = 3.0
    source: str = "lga"
    cut_after_s: float = 19.9
    cut_s: float = 15.0
    spark: bool = True
    port: int | None = None
    timing: Timing = ON_SPARK


class DemoFailed(Exception):
    """The demo could not run to its end; the message says what happened."""


@dataclass(slots=True)
class _DemoRun:
    """Everything that was started and found out."""

    options: DemoOptions
    screen: Screen
    log: KafkaLog
    state: AppState
    t0_us: int
    stop: threading.Event
    statuses: StatusFollower
    followers: list[QueryWatcher]
    publishers: list[subprocess.Popen[bytes]]
    published: dict[str, int]
    drill: Appender
    cut_us: tuple[int, int] = (0, 0)


def run(options: DemoOptions, console: Console | None = None) -> int:
    """Run it all. Returns the exit code: 0 only if every promise held."""
    console = console or Console(stderr=True)
    options.out.mkdir(parents=True, exist_ok=True)
    with terminated_as_interrupt(), ExitStack() as stack:
        screen = stack.enter_context(Screen(console, options.days))
        try:
            verdict = _run(options, screen, stack)
        except KeyboardInterrupt:
            screen.stop()
            console.print("interrupted: stopping everything that was started")
            return 130
    verdict.print(console)
    return 0 if verdict.ok else 1


def _run(options: DemoOptions, screen: Screen, stack: ExitStack) -> DemoVerdict:
    work = options.out / "run"
    shutil.rmtree(work, ignore_errors=True)
    screen.step("writing the flights out of New York in 2013, one file an airport")
    published = data.write_sources(work / "data", options.days)
    broker = LocalBroker(work / "kafka", options.port or free_port())
    screen.step(f"starting Apache Kafka on port {broker.port}")
    stack.callback(broker.down)
    broker.up()
    log = KafkaLog(f"localhost:{broker.port}")
    state, processes = _start_app(options, screen, log, work, stack)
    run_ = _begin(options, screen, log, state, published, work, stack)
    _watch(run_)
    _stop_following(run_)
    delays = {f.query: _delays(run_, f) for f in run_.followers}
    content = _check_content(run_, work)
    processes.stop()
    audits = _audit(run_, work) if options.spark else []
    facts = Facts(
        options.threshold_s,
        options.source,
        run_.cut_us,
        run_.t0_us,
        options.days,
        published,
        run_.statuses.story,
        delays,
        next(f.stable for f in run_.followers if f.query == LOOKED_UP),
        content,
        audits,
        options.spark,
        state.spec.bucket_us,
    )
    return finish(facts, options.out)


def _start_app(
    options: DemoOptions, screen: Screen, log: KafkaLog, work: Path, stack: ExitStack
) -> tuple[AppState, ReplicaProcesses]:
    spec = flights.app.describe().with_files(known)
    threshold_us = int(options.threshold_s * 1e6)
    queries = {n: q.model_copy(update={"threshold_us": threshold_us}) for n, q in spec.queries.items()}
    spec = spec.model_copy(update={"queries": queries})
    reports = launch.check(spec, options.timing)
    now_us = SystemClock().wall_us()
    state = launch.describe(log, spec, reports, "now", now_us, options.timing)
    processes = ReplicaProcesses(work, spec.name)
    stack.callback(processes.stop)
    if options.spark:
        class_archive.prepare(screen.step)
    screen.step("starting two replicas, each a Spark application of its own (about 20 s)")
    host = "spark" if options.spark else "process"
    pids = launch.start_processes(state, processes, ProcessSpec.unconfigured(log, work, host))
    launch.wait_ready(log, state, processes, pids, now_us // 1000)
    return state, processes


def _begin(
    options: DemoOptions,
    screen: Screen,
    log: KafkaLog,
    state: AppState,
    published: dict[str, int],
    work: Path,
    stack: ExitStack,
) -> _DemoRun:
    stop = threading.Event()
    stack.callback(stop.set)
    followers = [QueryWatcher(log, state, query, stop) for query in state.spec.queries]
    statuses = StatusFollower(log, state.name, stop)
    for thread in (*followers, statuses):
        thread.start()
    t0_us = (math.ceil(time.time()) + LEAD_S) * 1_000_000
    screen.step(f"publishing {sum(published.values())} flights, one day a second, {options.days} s")
    publishers = [_publisher(log, name, work, t0_us) for name in data.SOURCES]
    for process in publishers:
        stack.callback(end, process)
    drill = log.appender(lambda: None)
    stack.callback(drill.close)
    drill.append(_failure(state, options.source, 0))  # the first append looks the broker up: not when it counts
    screen.begin(t0_us)
    return _DemoRun(options, screen, log, state, t0_us, stop, statuses, followers, publishers, published, drill)


def _failure(state: AppState, source: str, until_us: int) -> NewRecord:
    """What `borealis fail source` writes."""
    failure = encode(SourceFailure(until_us, state.app_uid))
    return NewRecord(Feed(topics.settings(state.name)), failure, f"fail/{source}".encode())


def _publisher(log: KafkaLog, source: str, work: Path, t0_us: int) -> subprocess.Popen[bytes]:
    """One `borealis publish`, as a user would run it."""
    command = [sys.executable, "-m", "borealis_py.cli.main", "publish", source, str(work / "data" / f"{source}.csv")]
    command += ["--bootstrap", log.bootstrap, "--app", "flights", "--stime", "sched"]
    command += ["--speed", str(data.SPEED), "--base", data.START.isoformat(), "--start", str(t0_us)]
    with (work / f"publish-{source}.log").open("wb") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def _watch(run_: _DemoRun) -> None:
    """Cut the source off when it is time; go on until every query has ended and every replica is STABLE."""
    options, screen, clock = run_.options, run_.screen, SystemClock()
    cut_at = run_.t0_us + int(options.cut_after_s * 1e6)
    deadline = run_.t0_us + int((options.days + SETTLE_S) * 1e6)
    while not _settled(run_):
        wall = clock.wall_us()
        if not run_.cut_us[0] and wall >= cut_at:
            run_.cut_us = (wall, wall + int(options.cut_s * 1e6))
            run_.drill.append(_failure(run_.state, options.source, run_.cut_us[1]))
            screen.event(wall, f"{options.source.upper()} is cut off for {options.cut_s:g} s", "bold red")
        for status in run_.statuses.fresh():
            screen.tell(status)
        screen.show(run_.statuses.story.newest, run_.followers, wall)
        _refuse_dead(run_)
        if wall > deadline:
            raise DemoFailed(f"not all is stable {SETTLE_S:g} s after the last row; see {options.out / 'run'}")
        run_.stop.wait(0.1)
    for status in run_.statuses.fresh():
        screen.tell(status)
    screen.stop()


def _settled(run_: _DemoRun) -> bool:
    newest = run_.statuses.story.newest.values()
    expected = sum(q.replicas for q in run_.state.spec.queries.values())
    stable = len(newest) == expected and all(s.state == "STABLE" and all(i.ended for i in s.inputs) for s in newest)
    return stable and all(f.ended for f in run_.followers) and _all_published(run_)


def _all_published(run_: _DemoRun) -> bool:
    best: dict[str, int] = {}
    for s in run_.statuses.story.newest.values():
        best[s.node] = max(best.get(s.node, 0), s.progress)
    return all(best[q] >= max(s.f_s for s in run_.statuses.story.newest.values() if s.node == q) for q in best)


def _refuse_dead(run_: _DemoRun) -> None:
    for follower in run_.followers:
        if follower.error is not None:
            raise DemoFailed(f"the live view of {follower.query} stopped: {follower.error}")
    for source, process in zip(data.SOURCES, run_.publishers, strict=True):
        if process.poll():
            log = run_.options.out / "run" / f"publish-{source}.log"
            raise DemoFailed(f"the publisher of {source} ended with code {process.returncode}:\n{log.read_text()}")


def _stop_following(run_: _DemoRun) -> None:
    run_.stop.set()
    for thread in (*run_.followers, run_.statuses):
        thread.join(timeout=10)
    for process in run_.publishers:
        process.wait(timeout=30)


def _delays(run_: _DemoRun, follower: QueryWatcher) -> AddedDelays:
    width = run_.state.spec.bucket_us
    first = run_.t0_us // width
    end = first + run_.options.days * 1_000_000 // width
    return measure(follower.arrivals, width, first, end, run_.cut_us[0])


def _check_content(run_: _DemoRun, work: Path) -> Path:
    """The independent checker, in a process of its own: it shares no code with the product."""
    run_.screen.step("checking every result against an independent recomputation in pandas")
    out = work / "content.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m", "borealis_py.demo.content_check", "--bootstrap", run_.log.bootstrap]
    command += ["--app", run_.state.name, "--t0-us", str(run_.t0_us), "--days", str(run_.options.days)]
    command += ["--origin-us", str(run_.state.origin * run_.state.spec.bucket_us)]
    command += ["--data-dir", str(work / "data"), "--out", str(out)]
    result = subprocess.run(command, check=False)
    if not out.exists():
        raise DemoFailed(f"the checker ended with code {result.returncode} and no report")
    return out


def _audit(run_: _DemoRun, work: Path) -> list[AuditResult]:
    run_.screen.step("recomputing both queries from their sources on Spark (borealis audit)")
    session = ReplicaSession.start_spark("audit", output=work / "spark-audit.log")
    try:
        spec = run_.state.spec
        timing = run_.state.timing
        how = run_.state.origin, timing.ahead_max_us, run_.state.app_uid, False, timing.row_max_bytes
        specs = [one for q in spec.queries for one in audit_specs(spec, q, run_.log, *how)]
        return audit_on_spark(session.context, specs)
    finally:
        session.stop()
