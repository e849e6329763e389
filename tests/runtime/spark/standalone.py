"""A standalone Spark cluster on this machine, from what PySpark brings: a master and one worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyspark

from borealis_py.kafka.broker import free_port
from tests.harness.processes import ROOT, Process
from tests.harness.waiting import until

HOME = Path(pyspark.__file__).parent
HOST = ("--host", "127.0.0.1")
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Java's options for what does little and starts often."""


def _start(output: Path, name: str, *arguments: str) -> Process:
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_WORKER_DIR": str(output.parent / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    with output.open("wb") as file:
        popen = subprocess.Popen(
            [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env=environment,
        )
    return Process(popen, output)


@dataclass
class Cluster:
    """`ui_port`: of the master's pages. `cores`: of each worker."""

    directory: Path
    port: int
    ui_port: int
    cores: int
    masters: list[Process] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)

    @property
    def master(self) -> str:
        """Its address."""
        return f"spark://127.0.0.1:{self.port}"

    @property
    def worker(self) -> Process:
        """The present one."""
        return self.workers[-1]

    @property
    def told(self) -> dict[str, Any]:
        """What a driver has to know of it: fields of its `ProcessSpec`."""
        properties = {"spark.master.ui.port": str(self.ui_port), "spark.executor.extraJavaOptions": QUICK}
        return {"master": self.master, "spark_properties": properties}

    def start_master(self) -> None:
        """Start one, after another one perhaps, and wait until it is at work and its pages tell so."""
        output = self.directory / f"master-{len(self.masters)}.log"
        ports = ("--port", str(self.port), "--webui-port", str(self.ui_port))
        self.masters.append(_start(output, "master.Master", *ports, *HOST))
        until(lambda: "I have been elected leader" in self.masters[-1].said, "a Spark master")
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ui_port}/json/", timeout=60) as page:
            assert json.load(page)["status"] == "ALIVE"

    def replace_master(self) -> None:
        """Kill it and start another one, which knows nothing. The worker stands still meanwhile: it would find nobody,
        and try again only 5 to 15 s later."""
        self.worker.signal(signal.SIGSTOP)
        self.masters[-1].kill()
        self.start_master()
        self.worker.signal(signal.SIGCONT)

    def add_worker(self) -> None:
        """Start one and wait until the master knows it."""
        output = self.directory / f"worker-{len(self.workers)}.log"
        size = ("--cores", str(self.cores), "--memory", "2g", "--webui-port", "0")
        self.workers.append(_start(output, "worker.Worker", *size, *HOST, self.master))
        until(lambda: "Successfully registered with master" in self.worker.said, "a Spark worker")

    def executors(self) -> list[psutil.Process]:
        """JVMs that run the tasks of applications."""
        return [p for p in psutil.Process(self.worker.popen.pid).children() if p.name() == "java"]


@contextmanager
def standalone(directory: Path, cores: int) -> Iterator[Cluster]:
    """One whose worker with so many cores is there."""
    cluster = Cluster(directory, free_port(), free_port(), cores)
    try:
        cluster.start_master()
        cluster.add_worker()
        yield cluster
    finally:
        for process in (*cluster.workers, *cluster.masters):
            process.kill()
