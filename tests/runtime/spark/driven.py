"""A small app on a broker whose replicas are Spark tasks: one driver process an index, and its children."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil

from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName
from borealis_py.log.messages import Status
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from tests.harness.processes import PROCESS, ROOT, Process, spawn
from tests.harness.running import RunningApp
from tests.harness.waiting import until

os.environ.setdefault("PYTHONPATH", str(ROOT))
READY_S = 240.0
END_S = 40.0
"""Beyond it a driver or its children do not end by themselves: Spark and its tasks are given less."""
TIMING = {"inline_us": 0, "inline_buckets": 1, "checkpoint_us": 300_000}
"""Nearly every redo is a job."""


def union_app(name: str, replicas: int = 1) -> App:
    """One query over two sources."""
    it = App(name, bucket="50ms")
    a, b = (it.source(s, schema={"n": "int64"}) for s in ("a", "b"))
    it.query("all", it.union(a, b).filter("n >= 0"), delay_threshold="500ms", replicas=replicas)
    return it


class Driven(RunningApp):
    """An app whose `drivers` are started by index."""

    def __init__(self, bootstrap: str, app: App, directory: Path, timing: dict[str, int] = TIMING) -> None:
        super().__init__(bootstrap, app, directory, Timing(**timing))
        self.spec = ProcessSpec(self.log.bootstrap, directory, host="spark", master="local[2]")
        self.drivers: dict[int, Process] = {}
        self.started: list[Process] = []

    def drive(self, replica: int, hasty: int | None = None, **told: Any) -> Process:
        """Start the driver of an index.

        Args:
            hasty: slots that the cluster has at most (`tests.runtime.spark.hasty`).
            told: fields of its `ProcessSpec` that are not as in `spec`.
        """
        arguments = ProcessName(replica).arguments(self.name)
        environment = msgspec.structs.replace(self.spec, **told).environment()
        output = self.directory / f"driver-{replica}-{len(self.started)}.log"
        if hasty is None:
            self.drivers[replica] = spawn(PROCESS, arguments, output, environment)
        else:
            self.drivers[replica] = spawn("tests.runtime.spark.hasty", [str(hasty), *arguments], output, environment)
        self.started.append(self.drivers[replica])
        return self.drivers[replica]

    def ready(self, *replicas: int, times: int = 1) -> None:
        """Wait until each has said READY so often."""
        for k in replicas:
            until(lambda k=k: self._ready(k, times), f"replica {k} is READY ({times})", READY_S)

    def _ready(self, replica: int, times: int) -> bool:
        driver = self.drivers[replica]
        assert driver.popen.poll() is None, driver.said[-3000:]
        return self.events(replica).count("READY") >= times

    def values(self) -> list[int]:
        """What the corrected stream of query `all` has."""
        return [json.loads(r.value or b"")["n"] for r in self.corrected("all")]

    def published(self, count: int) -> None:
        """Wait until the corrected stream of query `all` has so many rows."""
        until(lambda: len(self.values()) >= count, f"{count} rows in the corrected stream")
        assert len(self.values()) == count

    def incarnations(self, replica: int) -> dict[int, Status]:
        """The first status of each."""
        found: dict[int, Status] = {}
        for status in self.statuses():
            if status.replica == replica:
                found.setdefault(status.inc, status)
        return found

    def children(self, replica: int) -> list[psutil.Process]:
        return psutil.Process(self.drivers[replica].popen.pid).children(recursive=True)

    def worker(self, replica: int) -> psutil.Process:
        """The Python worker that runs the replica: whoever keeps its checkpoints' thread and tells of it in its log."""
        lines = [json.loads(x) for x in self.drivers[replica].said.splitlines() if "worker_pid" in x]
        return psutil.Process(lines[-1]["worker_pid"])

    def end(self, replica: int, timeout_s: float = END_S) -> int:
        """SIGTERM; its exit code."""
        driver = self.drivers[replica]
        driver.may_end = True
        driver.signal(signal.SIGTERM)
        return driver.popen.wait(timeout_s)

    def end_all(self, replica: int, timeout_s: float = END_S) -> int:
        """SIGTERM to its JVM, its workers and itself at once, as systemd does; its exit code."""
        for process in self.children(replica):
            with suppress(psutil.NoSuchProcess):  # it ends with its parent
                process.terminate()
        return self.end(replica, timeout_s)

    def kill_driver(self, replica: int) -> None:
        """kill -9, and nothing but the driver."""
        self.drivers[replica].may_end = True
        self.drivers[replica].popen.kill()
        self.drivers[replica].popen.wait()

    def close(self) -> None:
        for driver in self.started:
            driver.kill()
        super().close()


def all_gone(processes: Sequence[psutil.Process], timeout_s: float = END_S) -> list[psutil.Process]:
    """Those that are still there after so long."""
    return psutil.wait_procs(list(processes), timeout=timeout_s)[1]


def has_java(processes: Iterable[psutil.Process]) -> bool:
    """One of them is a JVM. Spark's scripts are among them, too, and gone in a moment."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.name() == "java":
                return True
    return False


@contextmanager
def driven(bootstrap: str, app: App, directory: Path, timing: dict[str, int] = TIMING) -> Iterator[Driven]:
    it = Driven(bootstrap, app, directory, timing)
    try:
        yield it
    finally:
        it.close()
