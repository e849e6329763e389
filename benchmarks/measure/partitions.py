"""Throughput of a partitioned query, by its number of partitions and where they run.

One node reads the source and divides it by key, in a separate process; the query's partitions run as threads of one
process, or as tasks of a Spark application, each in a Python worker. All of them are already working (a first window
has gone through, transactions are open) when the source is held back, filled, and released: the measurement runs from
then until every partition has published everything.

Beside them, two apps that know nothing of each other, each with such a node, one partition and half of the rows of each
bucket: what this machine can do at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec

from benchmarks.load import keyed
from benchmarks.measure.scaling_figures import APPS, UNRELATED, KeyedFigures, KeyedRun, keyed_figures
from borealis_py.app import launch
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.state import AppState
from borealis_py.bench import events
from borealis_py.bench.console import Say
from borealis_py.bench.events import Backlog
from borealis_py.bench.processes import tree_cpu_s
from borealis_py.bench.stage import Running, Stage
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.clock import SystemClock
from borealis_py.log.records import pack, unpack_source
from borealis_py.query.partitions import parts_of
from tests.harness.held import Reached, hold, let_go

WARM_BUCKETS = events.WINDOW_US // events.BUCKET_US
"""The first window goes through before time counts."""
NODE_PROCESS, QUERY_PROCESS = ProcessName(0, keyed.NODE), ProcessName(0, keyed.QUERY)


@dataclass(frozen=True, slots=True)
class PartitionSource:
    """The log of a source, to be written again and again. `records`: the claim, then one a bucket."""

    backlog: Backlog
    records: list[NewRecord]

    @classmethod
    def of(cls, measured: int, per_bucket: int) -> PartitionSource:
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
    stage: Stage,
    source: PartitionSource,
    length: int,
    counts: Sequence[int],
    hosts: Sequence[str],
    runs: int,
    say: Say,
    prefix: str = "bench",
) -> tuple[list[KeyedFigures], AppState]:
    """Every host and number of partitions in turn, `runs` times.

    Args:
        length: of the names, see `keyed.app`. prefix: of the apps' names.

    Returns:
        Figures, and the app of the last run in partitions, whose topics stay; those of the others are deleted.

    Raises:
        BenchError: a run failed, or gave other results than the first.
        LaunchError, LogError: something did not start.
    """
    found: dict[tuple[str, int], list[KeyedRun]] = {(host, n): [] for host in hosts for n in counts}
    found[UNRELATED, APPS] = []
    expected: keyed.Results = {}
    state: AppState | None = None
    for run in range(runs):
        for host, n in found:
            if host == UNRELATED:
                say(f"{APPS} unrelated apps, {run + 1} of {runs}")
                found[host, n].append(_unrelated(stage, source, length, f"{prefix}-{UNRELATED}-{run}"))
                continue
            say(f"{n} partitions, {host} host, {run + 1} of {runs}")
            if state is not None:
                stage.forget(state)
            # being held back is not a failure
            spec = keyed.app(f"{prefix}-{host}-{n}-{run}", n, policy="suspend", length=length)
            state = stage.describe(spec, str(events.START_US))
            found[host, n].append(_run(stage, source, [state], host))
            results = keyed.results(read_corrected(stage, state))
            expected = expected or results
            keyed.check(results, expected, source.backlog.events, f"{n} partitions on the {host} host")
    assert state is not None
    return keyed_figures(source.measured, os.cpu_count() or 1, found), state


def _unrelated(stage: Stage, source: PartitionSource, length: int, name: str) -> KeyedRun:
    """`APPS` apps with their share of each bucket's rows, which know nothing of each other, in plain processes."""
    share = PartitionSource.of(source.measured // APPS, source.backlog.per_bucket // APPS)
    specs = [keyed.app(f"{name}-{n}", 1, policy="suspend", length=length) for n in range(APPS)]
    states = [stage.describe(spec, str(events.START_US)) for spec in specs]
    took = _run(stage, share, states, "process")
    first: keyed.Results = {}
    for state in states:
        results = keyed.results(read_corrected(stage, state))
        first = first or results
        keyed.check(results, first, share.backlog.events, state.name)
        stage.forget(state)
    return took


def read_corrected(stage: Stage, state: AppState) -> list[list[Record]]:
    """The corrected stream's records, by partition."""
    return [stage.read(topics.corrected(state.name, part)) for part in parts_of(state.spec, keyed.QUERY)]


class _HeldApp:
    """One app, warm and with its source held back, so that it can be measured from when that is let go.

    Raises:
        BenchError: it does not get there.
        LaunchError, LogError: something did not start.
    """

    def __init__(self, stage: Stage, source: PartitionSource, state: AppState, host: str) -> None:
        self._stage = stage
        self._source = source
        source.fill(stage, state, 0, 1 + WARM_BUCKETS)
        self._running = _start(stage, state, host)
        self._progress = Reached(stage, self._running, keyed.QUERY)
        try:
            self._progress.wait(source.backlog.origin + WARM_BUCKETS)
            hold(stage, self._running, [keyed.SOURCE], [(keyed.NODE, 0)])
            source.fill(stage, state, 1 + WARM_BUCKETS)
        except BaseException:
            self.close()
            raise

    def cpu(self) -> tuple[float, float]:
        """Processor time so far of the node's process and of the query's, with all below them, in seconds."""
        pids = self._running.pids
        return tree_cpu_s([pids[NODE_PROCESS]]), tree_cpu_s([pids[QUERY_PROCESS]])

    def let_go(self) -> float:
        """Returns when, in seconds since 1970."""
        return let_go(self._stage, self._running, [keyed.SOURCE])

    def ended(self) -> float:
        """When everything was published, in seconds since 1970. Raises BenchError."""
        return self._progress.wait(self._source.backlog.end).published

    def close(self) -> None:
        """Stop its processes."""
        self._progress.close()
        self._running.processes.stop()


def _run(stage: Stage, source: PartitionSource, states: Sequence[AppState], host: str) -> KeyedRun:
    """All these apps at once, from when the first one is let go until the last one is done."""
    with ExitStack() as opened:
        apps: list[_HeldApp] = []
        for state in states:
            apps.append(_HeldApp(stage, source, state, host))
            opened.callback(apps[-1].close)
        before = [app.cpu() for app in apps]  # later they may be done
        with ThreadPoolExecutor(len(apps)) as threads:
            began = min(threads.map(_HeldApp.let_go, apps))
            ended = max(threads.map(_HeldApp.ended, apps))
        after = [app.cpu() for app in apps]
    node, query = (sum(b[i] - a[i] for a, b in zip(before, after, strict=True)) for i in (0, 1))
    return KeyedRun(ended - began, node, query)


def _start(stage: Stage, state: AppState, host: str) -> Running:
    """The node in a plain process, the query on `host`."""
    processes = ReplicaProcesses(stage.work, state.name)
    stage.endings.callback(processes.stop)
    started_ms = SystemClock().wall_us() // 1000
    plain = ProcessSpec.unconfigured(stage.log, stage.work)
    processes.start_process(NODE_PROCESS, plain)
    spark = ProcessSpec.unconfigured(stage.log, stage.work, "spark", redo_slots=0)
    pids = launch.start_processes(state, processes, spark if host == "spark" else plain, (NODE_PROCESS, QUERY_PROCESS))
    return Running(state, processes, pids, started_ms)
