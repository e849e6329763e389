"""The test bed: a separate broker on a free port, and apps whose replicas are processes, as `borealis up` starts them.
Everything ends with the stage.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from borealis_py.app import launch
from borealis_py.app.child_processes import end as end
from borealis_py.app.child_processes import terminated_as_interrupt
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.state import AppState
from borealis_py.app.topics import redo_topics_of, topics_of
from borealis_py.bench.console import Bars, bars_on
from borealis_py.bench.figures import BenchError
from borealis_py.kafka.broker import LocalBroker, free_port
from borealis_py.kafka.errors import BrokerError
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed, NewRecord, Record, TopicSpec
from borealis_py.log.clock import SystemClock
from borealis_py.protocol.settings import Timing
from borealis_py.query import App

FILL = (("linger.ms", "20"), ("queue.buffering.max.messages", "500000"))
"""For filling topics ahead: large batches."""
DRAIN_EVERY = 10_000
TRIES = 3


@dataclass(slots=True)
class Running:
    """An app on the stage and its replica processes."""

    state: AppState
    processes: ReplicaProcesses
    pids: dict[ProcessName, int]
    started_ms: int


class Stage:
    """A running broker and the operations on it."""

    def __init__(self, work: Path, broker: LocalBroker) -> None:
        self.work = work
        self.broker = broker
        self.log = KafkaLog(broker.bootstrap)
        self.endings = ExitStack()

    def describe(self, app: App, origin: str = "now", timing: Timing | None = None) -> AppState:
        """The app's topics and its description."""
        spec, timing = app.describe(), timing or Timing()
        reports = launch.check(spec, timing)
        return launch.describe(self.log, spec, reports, origin, SystemClock().wall_us(), timing)

    def start_replicas(self, state: AppState, host: str = "process", names: Sequence[ProcessName] = ()) -> Running:
        """Start every replica of a described app.

        Args:
            host: as `borealis up --host` takes it. names: of the processes; none: one an index.
        """
        processes = ReplicaProcesses(self.work, state.name)
        self.endings.callback(processes.stop)
        started_ms = SystemClock().wall_us() // 1000
        pids = launch.start_processes(state, processes, ProcessSpec.unconfigured(self.log, self.work, host), names)
        return Running(state, processes, pids, started_ms)

    def wait_ready(self, running: Running) -> None:
        """Raises LaunchError."""
        launch.wait_ready(self.log, running.state, running.processes, running.pids, running.started_ms)

    def borealis(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A command, as a user would run it; its output goes to `<name>.log`."""
        return self.module(name, "borealis_py.cli.main", *arguments, "--bootstrap", self.log.bootstrap)

    def module(
        self, name: str, module: str, *arguments: str, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """A Python module as a process of its own; its output goes to `<name>.log`."""
        command = [sys.executable, "-m", module, *arguments]
        with (self.work / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(command, stdin=stdin, stdout=output, stderr=output)
        self.endings.callback(end, process)
        return process

    def create(self, *names: str) -> None:
        """Create topics of one partition that belong to no app."""
        admin = self.log.admin()
        try:
            admin.create([TopicSpec(name) for name in names])
        finally:
            admin.close()

    def forget(self, state: AppState) -> None:
        """Delete the topics of an app that no longer runs."""
        self.delete(spec.name for spec in (*topics_of(state.spec), *redo_topics_of(state.spec)))

    def delete(self, names: Iterable[str]) -> None:
        """Topics; those that are not there do not matter."""
        admin = self.log.admin()
        try:
            admin.delete(sorted(set(names) & set(admin.topics())))
        finally:
            admin.close()

    def fill(self, records: Iterator[NewRecord]) -> None:
        """Append all of them and wait until they lie in the log.

        Raises:
            BenchError: they do not.
        """
        appender = KafkaLog(self.log.bootstrap, FILL).appender(lambda: None)
        refused: list[str] = []
        try:
            for n, record in enumerate(records):
                appender.append(record, n)
                if n % DRAIN_EVERY == 0:
                    refused += [d.error for d in appender.deliveries() if d.error is not None]
            settled = appender.flush(60.0)
            refused += [d.error for d in appender.deliveries() if d.error is not None]
        finally:
            appender.close()
        if refused or not settled:
            raise BenchError(f"a topic could not be filled: {refused[0] if refused else 'the broker is too slow'}")

    def read(self, topic: str | Feed) -> list[Record]:
        """Everything that is committed in a topic of one partition, or in one partition of a topic."""
        lookup, feed = self.log.lookup(), topic if isinstance(topic, Feed) else Feed(topic)
        try:
            return list(lookup.read(feed, *lookup.bounds(feed)))
        finally:
            lookup.close()


@contextmanager
def directory(given: Path | None) -> Iterator[Path]:
    """The directory for a run's data and logs: a new one below `given`, else a temporary one."""
    if given is not None:
        yield given.resolve() / time.strftime("%Y%m%d-%H%M%S")  # a broker's data of another run would be measured, too
        return
    with TemporaryDirectory(prefix="borealis-bench-", ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


@contextmanager
def staged(work: Path) -> Iterator[Stage]:
    """A stage whose files lie below `work`.

    Raises:
        BrokerError: no Java, or the broker did not start.
    """
    work.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        broker = _started(work, stack)
        stage = Stage(work, broker)
        with stage.endings:
            yield stage


def _started(work: Path, stack: ExitStack) -> LocalBroker:
    for left in reversed(range(TRIES)):
        broker = LocalBroker(work / "kafka", free_port())
        stack.callback(broker.down)
        try:
            broker.up()
            break
        except BrokerError as exc:  # other programs choose ports at the same time
            if not left or "in use" not in str(exc):
                raise
    return broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a benchmark. `work`: gets a directory of the run's data and logs; None: none is kept."""

    events: int
    per_record: int = 5_000
    spark: bool = True
    work: Path | None = None


@contextmanager
def on_stage(sizes: Sizes, console: Console) -> Iterator[tuple[Bars, Stage]]:
    """A separate broker, and progress bars. Nothing keeps running, however it ends.

    Raises:
        BrokerError: no Java, or the broker did not start.
    """
    with bars_on(console) as bars, stage_for(sizes.work, bars) as stage:
        yield bars, stage


@contextmanager
def stage_for(work: Path | None, bars: Bars) -> Iterator[Stage]:
    """The same if bars are already shown. `work`: as `Sizes.work`."""
    with directory(work) as kept, terminated_as_interrupt():
        bars.say("starting Apache Kafka")
        with staged(kept) as stage:
            yield stage
            bars.say("stopping")
