"""Throughput of a partitioned query, by its number of partitions and where they run.

One node reads the source and divides by key, in a process of its own; the query's partitions run as threads of one
process, or as tasks of a Spark application, each in a Python worker. All of them are at work already (a first window
has gone through, transactions are open) when the source is held back, filled, and let go: time counts from then until
every partition has published everything.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import psutil

from borealis_py.bench import events, keyed
from borealis_py.bench.bars import Say
from borealis_py.bench.events import Backlog
from borealis_py.bench.figures import BenchError
from borealis_py.bench.scaling_figures import KeyedFigures, KeyedRun, keyed_figures
from borealis_py.bench.stage import Running, Stage
from borealis_py.host import launch
from borealis_py.host.appstate import AppState, StatusReader, put_settings
from borealis_py.host.replicas import ProcessName, ReplicaProcesses
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.clock import SystemClock
from borealis_py.log.corrected import read_progress
from borealis_py.log.description import Life
from borealis_py.log.messages import SourceFailure
from borealis_py.log.records import pack, unpack_source
from borealis_py.query.partitions import parts_of

WARM_BUCKETS = events.WINDOW_US // events.BUCKET_US
"""The first window goes through before time counts."""
NODE_PROCESS, QUERY_PROCESS = ProcessName(0, keyed.NODE), ProcessName(0, keyed.QUERY)
HELD_US = 2**52
LET_GO_US = 300_000
"""From writing that the source is to be read again until it is: by then its reader knows."""
TIMEOUT_S = 180.0
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Source:
    """The log of a source, to be written again and again. `records`: the claim, then one a bucket."""

    backlog: Backlog
    records: list[NewRecord]

    @classmethod
    def of(cls, measured: int, per_bucket: int) -> Source:
        """Events for a first window, and `measured` events after it.

        Raises:
            ValueError: there are none, or they do not fill whole windows.
        """
        if measured < 1:
            raise ValueError(f"{measured} events: nothing would be measured")
        backlog = Backlog(measured + WARM_BUCKETS * per_bucket, per_bucket)
        return cls(backlog, list(backlog.records(Feed(keyed.SOURCE), "")))

    @property
    def measured(self) -> int:
        return self.backlog.events - WARM_BUCKETS * self.backlog.per_bucket

    def fill(self, stage: Stage, state: AppState, first: int, end: int | None = None) -> None:
        """Append records `first` to `end`. Raises BenchError."""
        stage.fill(_of(state, record) for record in self.records[first:end])


def _of(state: AppState, record: NewRecord) -> NewRecord:
    """The same record, for this app."""
    header, payload = unpack_source(record.value)
    value = pack(msgspec.structs.replace(header, app_uid=state.app_uid), bytes(payload))
    return msgspec.structs.replace(record, feed=topics.source(state.name, keyed.SOURCE), value=value)


def measure(
    stage: Stage, source: Source, length: int, counts: Sequence[int], hosts: Sequence[str], runs: int, say: Say
) -> tuple[list[KeyedFigures], AppState]:
    """Every host and number of partitions in turn, `runs` times.

    Args:
        length: of the names, see `keyed.app`.

    Returns:
        Figures, and the app of the last run, whose topics stay; those of the others are deleted.

    Raises:
        BenchError: a run failed, or gave other results than the first.
        LaunchError, LogError: something did not start.
    """
    found: dict[tuple[str, int], list[KeyedRun]] = {(host, n): [] for host in hosts for n in counts}
    expected: keyed.Results = {}
    state: AppState | None = None
    for run in range(runs):
        for host, n in found:
            say(f"{n} partitions, {host} host, {run + 1} of {runs}")
            if state is not None:
                stage.forget(state)
            spec = keyed.app(f"bench-{host}-{n}-{run}", n, policy="suspend", length=length)  # held back is no failure
            state = stage.describe(spec, str(events.START_US))
            found[host, n].append(_run(stage, source, state, host))
            results = keyed.results(read_corrected(stage, state))
            expected = expected or results
            keyed.check(results, expected, source.backlog.events, f"{n} partitions on the {host} host")
    assert state is not None
    return keyed_figures(source.measured, os.cpu_count() or 1, found), state


def read_corrected(stage: Stage, state: AppState) -> list[list[Record]]:
    """The corrected stream's records, by partition."""
    return [stage.read(topics.corrected(state.name, part)) for part in parts_of(state.spec, keyed.QUERY)]


def _run(stage: Stage, source: Source, state: AppState, host: str) -> KeyedRun:
    source.fill(stage, state, 0, 1 + WARM_BUCKETS)
    running = _start(stage, state, host)
    progress = _Progress(stage, state, running)
    try:
        progress.wait(source.backlog.origin + WARM_BUCKETS)
        _hold(stage, state, running)
        source.fill(stage, state, 1 + WARM_BUCKETS)
        began = _let_go(stage, state)
        before = _cpu(running)
        ended = progress.wait(source.backlog.end)
        after = _cpu(running)
    finally:
        progress.close()
        running.processes.stop()
    node, query = (b - a for a, b in zip(before, after, strict=True))
    return KeyedRun(ended - began, node, query)


def _start(stage: Stage, state: AppState, host: str) -> Running:
    """The node in a plain process, the query as `host` says."""
    processes = ReplicaProcesses(stage.work, state.name)
    stage.endings.callback(processes.stop)
    started_ms = SystemClock().wall_us() // 1000
    plain = launch.ProcessOptions(stage.log, stage.work)
    processes.start(NODE_PROCESS, plain.arguments(state.name, NODE_PROCESS), plain.environment())
    spark = launch.ProcessOptions(stage.log, stage.work, host="spark", redo_slots=0)
    pids = launch.start(state, processes, spark if host == "spark" else plain, (NODE_PROCESS, QUERY_PROCESS))
    return Running(state, processes, pids, started_ms)


def _hold(stage: Stage, state: AppState, running: Running) -> None:
    """Have the source not read, and wait until it is not."""
    put_settings(stage.log, state.name, {f"fail/{keyed.SOURCE}": SourceFailure(HELD_US)})
    reader = StatusReader(stage.log, state.name, running.started_ms)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            reader.poll()
            status = reader.newest.get((keyed.NODE, 0))
            if status is not None and not status.inputs[0].reachable:
                return
            time.sleep(LOOK_S)
    finally:
        reader.close()
    raise BenchError(f"the source was still read {TIMEOUT_S:g} s after it was to be held back")


def _let_go(stage: Stage, state: AppState) -> float:
    """Have the source read again. Returns when, in seconds since 1970: now."""
    at_us = SystemClock().wall_us() + LET_GO_US
    put_settings(stage.log, state.name, {f"fail/{keyed.SOURCE}": SourceFailure(at_us)})
    time.sleep(max(0.0, at_us / 1e6 - time.time()))
    return at_us / 1e6


def _cpu(running: Running) -> tuple[float, float]:
    """Processor time so far of the node's process and of the query's, with all below them, in seconds."""
    return _tree_cpu_s(running.pids[NODE_PROCESS]), _tree_cpu_s(running.pids[QUERY_PROCESS])


def _tree_cpu_s(pid: int) -> float:
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                total += float(times.user + times.system)
    return total


class _Progress:
    """What every partition has published."""

    def __init__(self, stage: Stage, state: AppState, running: Running) -> None:
        self._running = running
        self._life = Life(state.app_uid)
        self._woken = threading.Event()
        parts = parts_of(state.spec, keyed.QUERY)
        self._reached = {Feed(topics.progress(state.name, part)): 0 for part in parts}
        self._reader = stage.log.reader(self._woken.set)
        for feed in self._reached:
            self._reader.open(feed, 0)

    def wait(self, bucket: int) -> float:
        """Until everything below `bucket` is published. Returns when, in seconds since 1970. Raises BenchError."""
        deadline = time.monotonic() + TIMEOUT_S
        while min(self._reached.values()) < bucket:
            self._refuse_ended()
            if time.monotonic() > deadline:
                far = {feed.topic: reached for feed, reached in self._reached.items()}
                raise BenchError(f"not at bucket {bucket} after {TIMEOUT_S:g} s: {far}")
            self._woken.wait(LOOK_S)
            self._woken.clear()
            for record in self._reader.poll():
                self._reached[record.feed] = max(self._reached[record.feed], read_progress(record, self._life, 0) or 0)
        return time.time()

    def _refuse_ended(self) -> None:
        for name in self._running.pids:
            if self._running.processes.ended(name) is not None:
                raise BenchError(f"{name} ended:\n{self._running.processes.log_tail(name)}")

    def close(self) -> None:
        self._reader.close()
