"""`borealis bench quick`: delay, throughput, redo speed and memory, in under three minutes."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from borealis_py.bench import delay, memory, redo, throughput
from borealis_py.bench.events import Backlog
from borealis_py.bench.figures import BenchError, DelayFigures, ProcessMemory, RedoFigures, ThroughputFigures
from borealis_py.bench.stage import Running, Stage, directory, staged
from borealis_py.bench.throughput import Prepared
from borealis_py.demo.measure import STARTUP_US
from borealis_py.host.tidy import terminated_as_interrupt
from borealis_py.kafka.checksums import KAFKA_VERSION

RAW_LOOP = Path(__file__).parents[2] / "bench" / "raw_loop.py"
PACKAGES = ("borealis-py", "confluent-kafka", "duckdb", "msgspec", "orjson", "pyarrow", "pyspark")


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured. `work`: gets a directory of the run's data and logs; None: none stays."""

    seconds: int = 20
    events: int = 1_000_000
    per_record: int = 5_000
    redo_rows: int = 200_000
    spark: bool = True
    work: Path | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured. `load`: the system's load average of the last minute, before and after."""

    cpus: int
    load: tuple[float, float]
    system: str
    python: str
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was measured; `seconds`: how long that took."""

    machine: Machine
    delay: DelayFigures
    throughput: ThroughputFigures
    redo: list[RedoFigures]
    memory: list[ProcessMemory]
    seconds: float


def run(options: Options, console: Console) -> Report:
    """Measure everything.

    Args:
        options: that passed `check`.
        console: progress goes here.

    Raises:
        BenchError: something could not be measured, or what was computed is wrong.
        BrokerError, LaunchError, LogError, SparkUnavailable: what it was to be measured on did not start.
    """
    started, load = time.monotonic(), os.getloadavg()[0]
    with _bars(console) as bars, directory(options.work) as work, terminated_as_interrupt():
        bars.say("starting Apache Kafka")
        with staged(work) as stage:
            running, delays, processes = _delay(stage, options, bars)
            prepared, throughputs = _backlog(stage, options, bars)
            bars.say("redo, inline and on Spark" if options.spark else "redo, inline")
            cases = [redo.lived(running, delays.tuples), redo.backlog(prepared, options.redo_rows)]
            redos = redo.measure(stage, cases, options.spark)
            bars.say("stopping")
    machine = Machine(
        cpus=os.cpu_count() or 0,
        load=(load, os.getloadavg()[0]),
        system=platform.platform(),
        python=platform.python_version(),
        versions={"kafka": KAFKA_VERSION} | {name: version(name) for name in PACKAGES},
    )
    return Report(machine, delays, throughputs, redos, processes, time.monotonic() - started)


def check(options: Options) -> None:
    """Everything that is needed is there. Raises BenchError."""
    if not RAW_LOOP.is_file():
        raise BenchError(f"{RAW_LOOP} is not there: the benchmark runs from a checkout (`pip install -e '.[bench]'`)")
    if find_spec("orjson") is None:
        raise BenchError("the raw loop needs orjson: pip install 'borealis-py[bench]'")
    try:
        backlog = Backlog(options.events, options.per_record)
    except ValueError as exc:
        raise BenchError(str(exc)) from exc
    if options.redo_rows % backlog.per_bucket or not 0 < options.redo_rows <= backlog.events:
        raise BenchError(f"a redo of {options.redo_rows} rows is not whole records of {backlog.per_bucket} events")


def _delay(stage: Stage, options: Options, bars: _Bars) -> tuple[Running, DelayFigures, list[ProcessMemory]]:
    bars.say(f"starting {delay.REPLICAS} replicas" + (", each a Spark application" if options.spark else ""))
    running = delay.start(stage, options.spark)
    length_s = options.seconds + STARTUP_US // 1_000_000
    with bars.bar(f"delay: {delay.RATE} tuples/s for {length_s} s", length_s) as at:
        figures = delay.measure(stage, running, options.seconds, at)
    processes = memory.measure(stage, running)
    running.processes.stop()
    return running, figures, processes


def _backlog(stage: Stage, options: Options, bars: _Bars) -> tuple[Prepared, ThroughputFigures]:
    backlog = Backlog(options.events, options.per_record)
    written = 0
    with bars.bar(f"writing {backlog.events} events, twice", 2 * backlog.events) as at:

        def tick(more: int) -> None:
            nonlocal written
            written += more
            at(written)

        prepared = throughput.prepare(stage, backlog, tick)
    return prepared, throughput.measure(stage, RAW_LOOP, prepared, lambda what: bars.say(f"throughput: {what}"))


class _Bars:
    """One line for each step, done ones stay."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def step(self, what: str, total: float | None = None) -> TaskID:
        """Begin a step, which ends the one before."""
        self.done()
        self._task = self._progress.add_task(what, total=total)
        return self._task

    def say(self, what: str) -> None:
        """A step of unknown length."""
        self.step(what)

    def done(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=1, completed=1)
            self._progress.stop_task(self._task)
            self._task = None

    @contextmanager
    def bar(self, what: str, total: float) -> Iterator[_At]:
        """A step with a known length."""
        yield _At(self._progress, self.step(what, total))
        self.done()


class _At:
    """Call it with how much is done."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def __call__(self, completed: float) -> None:
        self._progress.update(self._task, completed=completed)


@contextmanager
def _bars(console: Console) -> Iterator[_Bars]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bars = _Bars(progress)
        yield bars
        bars.done()
