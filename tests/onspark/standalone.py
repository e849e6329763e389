"""A standalone Spark cluster on this machine, from what PySpark brings: a master and one worker."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from tests.drills.processes import ROOT, Process
from tests.support.running import until

HOME = Path(pyspark.__file__).parent
WEB = ("--webui-port", "0", "--host", "127.0.0.1")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _start(output: Path, name: str, *arguments: str) -> Process:
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_WORKER_DIR": str(output.parent / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
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
    """`master`: its address."""

    directory: Path
    master: str
    cores: int
    started: list[Process]

    @property
    def worker(self) -> Process:
        """The present one."""
        return self.started[-1]

    def add_worker(self) -> None:
        """Start one and wait until the master knows it."""
        name = f"worker-{len(self.started)}.log"
        arguments = ("--cores", str(self.cores), "--memory", "2g", *WEB, self.master)
        self.started.append(_start(self.directory / name, "worker.Worker", *arguments))
        until(lambda: "Successfully registered with master" in self.worker.said, "a Spark worker")

    def executors(self) -> list[psutil.Process]:
        """JVMs that run the tasks of applications."""
        return [p for p in psutil.Process(self.worker.popen.pid).children() if p.name() == "java"]


@contextmanager
def standalone(directory: Path, cores: int) -> Iterator[Cluster]:
    """One whose worker with so many cores is there."""
    port = _free_port()
    master = _start(directory / "master.log", "master.Master", "--port", str(port), *WEB)
    cluster = Cluster(directory, f"spark://127.0.0.1:{port}", cores, [master])
    try:
        until(lambda: "I have been elected leader" in master.said, "a Spark master")
        cluster.add_worker()
        yield cluster
    finally:
        for process in reversed(cluster.started):
            process.kill()
