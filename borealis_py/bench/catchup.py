"""One replica over a backlog of JSON events, compared with the raw loop over the same events in a separate topic.

The raw loop's topic has one event per record. A source's log has what a publisher writes: one record per bucket, its
rows a JSON array. It is checked that both parse the same JSON and give the same results.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import msgspec
import psutil

from borealis_py.app.replicas import ProcessName
from borealis_py.app.state import AppState
from borealis_py.bench import events
from borealis_py.bench.events import Backlog, Totals
from borealis_py.bench.figures import BenchError, RunFigures, ThroughputFigures, compared, run_figures
from borealis_py.bench.processes import tree_cpu_s
from borealis_py.bench.stage import Running, Stage
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.corrected import read_progress
from borealis_py.log.description import Life

RAW_LOOP = Path(__file__).with_name("raw_loop.py")
APP = "bench-catchup"
RAW_EVENTS = "bench-raw.events"
RAW_RESULTS = "bench-raw.results-{run}"
TIMEOUT_S = 120.0
ONLY = ProcessName(0)
"""The one process of the app."""

Tick = Callable[[int], None]
"""Called with how many events have been written."""


class _LoopResult(msgspec.Struct):
    """One result of either program."""

    window_start: int
    customer: str
    n: int
    total: float


@dataclass(slots=True)
class Prepared:
    """Both topics are filled."""

    state: AppState
    backlog: Backlog
    record_bytes: int


def prepare(stage: Stage, backlog: Backlog, tick: Tick) -> Prepared:
    """Write the backlog twice: plain, and as a source's log. The app's origin is its first event."""
    stage.create(RAW_EVENTS)
    feed = Feed(RAW_EVENTS)
    stage.fill(_ticking((NewRecord(feed, event) for event in backlog.plain()), 1, tick))
    spec = events.app(APP, 1, 1)
    source = Feed(topics.stream(APP, "s0"))
    sizes: list[int] = []
    state = stage.describe(spec, str(events.START_US))
    stage.fill(_ticking(_measured(backlog.records(source, state.app_uid), sizes), backlog.per_bucket, tick))
    return Prepared(state, backlog, max(sizes))


def _ticking(records: Iterator[NewRecord], events_each: int, tick: Tick) -> Iterator[NewRecord]:
    done = 0
    for record in records:
        yield record
        done += events_each
        if done % 5_000 == 0:
            tick(5_000)


def _measured(records: Iterator[NewRecord], sizes: list[int]) -> Iterator[NewRecord]:
    for record in records:
        sizes.append(len(record.value or b""))
        yield record


def needs_raw_loop() -> None:
    """Raises BenchError: it cannot run."""
    if find_spec("orjson") is None:
        raise BenchError("the raw loop needs orjson: pip install 'borealis-py[bench]'")


def raw_run(stage: Stage, script: Path, backlog: Backlog, run: int) -> tuple[RunFigures, Totals]:
    """The raw loop once, as a process of its own.

    Raises:
        BenchError: it failed; what it said is in the message.
    """
    return raw_loop(stage, script, [RAW_EVENTS], backlog.events, RAW_RESULTS.format(run=run))


def raw_loop(
    stage: Stage, script: Path, sources: Sequence[str], events: int, results: str, arrays: bool = False
) -> tuple[RunFigures, Totals]:
    """Likewise over any topics, into one that is made.

    Args:
        arrays: a record is a JSON array of events.

    Raises:
        BenchError: it failed.
    """
    stage.create(results)
    command = [sys.executable, str(script), "--bootstrap", stage.log.bootstrap, "--events", str(events)]
    done = subprocess.run(
        [*command, *(["--arrays"] if arrays else []), *sources, results],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"{script.name} failed:\n{done.stderr.strip()}")
    said = json.loads(done.stdout)
    name = "raw loop, arrays" if arrays else "raw loop"
    return run_figures(name, events, said["seconds"], said["cpu_s"]), totals(stage.read(results))


def replica_run(stage: Stage, prepared: Prepared) -> tuple[RunFigures, Totals, float]:
    """One replica from the beginning of its work until the corrected stream has everything, without Spark: nothing is
    redone.

    Returns:
        Its figures, its results, and the seconds before that: interpreter, imports, kernel.

    Raises:
        BenchError: the corrected stream did not get there.
    """
    backlog = prepared.backlog
    watch = _FrontierWatch(stage, prepared.state, backlog.end)
    before = time.time()
    running = stage.start_replicas(prepared.state)
    try:
        began, ended, cpu_s = watch.wait(running)
    finally:
        watch.close()
        running.processes.stop()
    figures = run_figures("one replica", backlog.events, ended - began, cpu_s)
    return figures, totals(stage.read(topics.stream(APP, events.QUERY))), began - before


class _FrontierWatch:
    """Sees a replica begin (it writes its incarnation, the last thing before it reads its sources) and the corrected
    stream's progress reach `bucket`."""

    def __init__(self, stage: Stage, state: AppState, bucket: int) -> None:
        self._life = Life(state.app_uid)
        self._bucket = bucket
        self._woken = threading.Event()
        self._progress = Feed(topics.progress(APP, events.QUERY))
        self._settings = Feed(topics.settings(APP))
        self._reader = stage.log.reader(self._woken.set)
        for feed in (self._progress, self._settings):
            self._reader.open(feed, 0)

    def wait(self, running: Running) -> tuple[float, float, float]:
        """Beginning and end in seconds since 1970, processor time between them in seconds. Raises BenchError."""
        process = psutil.Process(running.pids[ONLY])
        began: tuple[float, float] | None = None
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline and running.processes.ended(ONLY) is None:
            self._woken.clear()
            for record in self._reader.poll():
                if record.feed == self._settings and (record.key or b"").startswith(b"incarnation/"):
                    began = record.timestamp_ms / 1000, tree_cpu_s([process.pid])
                elif (
                    began
                    and record.feed == self._progress
                    and (read_progress(record, self._life, 0) or 0) >= self._bucket
                ):
                    return began[0], time.time(), tree_cpu_s([process.pid]) - began[1]
            self._woken.wait(0.5)
        raise BenchError(f"the replica did not get through its backlog:\n{running.processes.log_tail(ONLY)}")

    def close(self) -> None:
        self._reader.close()


def totals(records: list[Record]) -> Totals:
    """The results in a topic.

    Raises:
        BenchError: the same result twice.
    """
    decode = msgspec.json.Decoder(_LoopResult).decode
    found: Totals = {}
    for record in records:
        result = decode(record.value or b"")
        key = result.window_start, result.customer
        if key in found:
            raise BenchError(f"{record.feed.topic}: result {key} is there twice")
        found[key] = result.n, result.total
    return found


def measure(stage: Stage, script: Path, prepared: Prepared, step: Callable[[str], None]) -> ThroughputFigures:
    """Raw loop, replica, raw loop again; the machine's mood shows between the raw runs.

    Raises:
        BenchError: a run failed, or the programs disagree about a result.
    """
    backlog = prepared.backlog
    step("raw loop")
    first, expected = raw_run(stage, script, backlog, 1)
    step("one replica")
    replica, found, ready_s = replica_run(stage, prepared)
    step("raw loop again")
    second, again = raw_run(stage, script, backlog, 2)
    check(backlog, expected, found, again)
    ratio, cpu_ratio = compared([first, second], replica)
    return ThroughputFigures(
        events=backlog.events,
        results=len(found),
        per_record=backlog.per_bucket,
        record_bytes=prepared.record_bytes,
        raw=(first, second),
        replica=replica,
        ready_s=ready_s,
        ratio=ratio,
        cpu_ratio=cpu_ratio,
    )


def check(backlog: Backlog, raw: Totals, replica: Totals, again: Totals) -> None:
    """Every event counted, and the same results from all. Raises BenchError."""
    if sum(n for n, _ in raw.values()) != backlog.events:
        raise BenchError(f"the raw loop counted {sum(n for n, _ in raw.values())} of {backlog.events} events")
    if again != raw or replica != raw:
        wrong = sorted(k for k in raw.keys() | replica.keys() if raw.get(k) != replica.get(k))
        example = f", first {wrong[0]}: {raw.get(wrong[0])} and {replica.get(wrong[0])}" if wrong else ""
        raise BenchError(f"raw loop and replica differ in {len(wrong)} results{example}")
