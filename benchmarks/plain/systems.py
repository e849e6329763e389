"""The systems that `make bench NAME=plain` measures, each as its users run it, over the same topics."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

import orjson
import psutil
from confluent_kafka import Consumer, TopicPartition

from benchmarks.measure.windows import live_delays, tentative_windows
from borealis_py import App
from borealis_py.app.child_processes import end
from borealis_py.app.replicas import ReplicaProcesses
from borealis_py.app.state import read_app
from borealis_py.bench import events
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage
from borealis_py.client.publisher import wall_us
from borealis_py.observe.process_tree import members
from tests.harness.readers import Hearing
from tests.harness.staging import wait

HAND_LOOP, PATHWAY, OURS = "hand loop", "Pathway", "borealis"
LATENESS_MS = 200
APP, QUERY, REPLICAS = "plain", "totals", 2
INTERPRETER = "BENCH_PATHWAY"
"""Environment variable: a Python interpreter that has Pathway."""
READY_S, UP_S = 60.0, 180.0
LOOK_S = 0.05
FILE = """
from benchmarks.plain import systems
app = systems.app({topics}, {replicas})
"""


class System(Protocol):
    """A running system. `delays_us`: window start -> from the window's end to its first result."""

    @property
    def processes(self) -> Mapping[psutil.Process, str]:
        """Its processes, by role."""

    @property
    def delays_us(self) -> Mapping[int, int]: ...

    @property
    def tentative(self) -> set[int]:
        """Windows of which something was shown before it was certain."""

    @property
    def counted(self) -> int:
        """Events in all results so far."""


def app(topics: Sequence[str], replicas: int = REPLICAS, start: Literal["latest", "earliest"] = "latest") -> App:
    """Count and sum per customer and second over topics of other programs."""
    built = App(APP, bucket="100ms")
    streams = [
        built.topic(f"t{i}", topic=topic, schema=events.SCHEMA, stime="at", lateness=f"{LATENESS_MS}ms", start=start)
        for i, topic in enumerate(topics)
    ]
    totals = built.union(*streams).window("1s").group_by("customer").agg(n="count(*)", total="sum(amount)")
    built.query(QUERY, totals, delay_threshold="3s", replicas=replicas)
    return built


class LoopProgram(threading.Thread):
    """A program that reads the topics and writes results into one; this thread reads them as they come."""

    def __init__(self, stage: Stage, name: str, argv: Sequence[str], results: str) -> None:
        super().__init__(name=name, daemon=True)
        self.delays_us: dict[int, int] = {}
        self.tentative = set[int]()
        self.counted = 0
        self._halt = threading.Event()
        self._stage = stage
        self._results = results
        with (stage.work / f"{results}.log").open("wb") as output:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        stage.endings.callback(end, self._process)
        self.processes = {psutil.Process(self._process.pid): name}

    def run(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._stage.log.bootstrap, "group.id": "bench-plain"})
        consumer.list_topics(self._results, timeout=5)
        consumer.assign([TopicPartition(self._results, 0, 0)])
        while not self._halt.is_set():
            message = consumer.poll(LOOK_S)
            if message is None or message.error() is not None:
                continue
            result, at_us = orjson.loads(message.value() or b""), wall_us()
            self.counted += result["n"]
            start = result["window_start"]
            self.delays_us.setdefault(start, at_us - start - events.WINDOW_US)
        consumer.close()

    def check(self) -> None:
        """Raises BenchError: the program has ended."""
        if self._process.poll() is not None:
            raise BenchError(f"{self.name} ended with code {self._process.returncode}; see {self._results}.log")

    def stop(self) -> None:
        self._halt.set()
        self.join(10)
        end(self._process)


class Borealis:
    """The app as `borealis up --host process` starts it, and a live reader in this process."""

    def __init__(self, processes: ReplicaProcesses, hearing: Hearing) -> None:
        self._processes = processes
        self._hearing = hearing

    @property
    def processes(self) -> Mapping[psutil.Process, str]:
        return {one.process: str(one.name) for one in members(self._processes)}

    @property
    def delays_us(self) -> Mapping[int, int]:
        return live_delays(self._hearing.heard)

    @property
    def tentative(self) -> set[int]:
        return tentative_windows(self._hearing.heard)

    @property
    def counted(self) -> int:
        return sum(row.value["n"] for _, row in self._hearing.got)


def loops() -> Mapping[str, tuple[str, ...]]:
    """Name -> how it is started. Pathway only where an interpreter is named that has it."""
    found: dict[str, tuple[str, ...]] = {HAND_LOOP: (sys.executable, "-m", "benchmarks.plain.hand_loop")}
    if python := os.environ.get(INTERPRETER):
        found[PATHWAY] = (python, str(Path(__file__).with_name("pathway_loop.py")))
    return found


@contextmanager
def running_loop(stage: Stage, name: str, topics: Sequence[str]) -> Iterator[LoopProgram]:
    """Raises BenchError: it does not begin."""
    results = f"results-{name.replace(' ', '-')}"
    out = stage.work / f"{results}-ready"
    stage.create(results)
    loop = LoopProgram(
        stage, name, [*loops()[name], stage.log.bootstrap, str(LATENESS_MS), results, str(out), *topics], results
    )
    wait(out.exists, READY_S, f"{name} does not begin; see {results}.log", loop.check)
    loop.start()
    try:
        yield loop
        loop.check()
    finally:
        loop.stop()


@contextmanager
def running_app(stage: Stage, topics: Sequence[str]) -> Iterator[Borealis]:
    """Raises BenchError: `up` failed, or a reader stopped."""
    file, data = stage.work / "app.py", stage.work / "data"
    file.write_text(FILE.format(topics=list(topics), replicas=REPLICAS))
    command = stage.borealis("up", "up", str(file), "--host", "process", "--data-dir", str(data))
    processes = ReplicaProcesses(data, APP)
    try:
        if command.wait(UP_S) != 0:
            raise BenchError(f"`borealis up` failed: {(stage.work / 'up.log').read_text()[-500:]}")
        with Hearing(stage.log, read_app(stage.log, APP), QUERY, statuses=False) as hearing:
            yield Borealis(processes, hearing)
            hearing.check()
    finally:
        processes.stop()
