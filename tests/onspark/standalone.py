"""A standalone Spark cluster on this machine, from what PySpark brings: a master and one worker."""

from __future__ import annotations

import os
import re
import signal
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
WORKER = re.compile(r"Successfully registered with master")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _start(directory: Path, name: str, *arguments: str) -> Process:
    output = directory / f"{name.rpartition('.')[2]}.log"
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_WORKER_DIR": str(directory / "work"),
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


@dataclass(frozen=True)
class Cluster:
    """`master`: its address."""

    master: str
    worker: Process

    def executors(self) -> list[psutil.Process]:
        """JVMs that run the tasks of applications."""
        return [p for p in psutil.Process(self.worker.popen.pid).children() if p.name() == "java"]


@contextmanager
def standalone(directory: Path, cores: int) -> Iterator[Cluster]:
    """One whose worker with so many cores is there."""
    port = _free_port()
    started: list[Process] = []
    try:
        web = ("--webui-port", "0", "--host", "127.0.0.1")
        started.append(_start(directory, "master.Master", "--port", str(port), *web))
        master = f"spark://127.0.0.1:{port}"
        until(lambda: "I have been elected leader" in started[0].said, "a Spark master")
        started.append(_start(directory, "worker.Worker", "--cores", str(cores), "--memory", "2g", *web, master))
        until(lambda: WORKER.search(started[1].said) is not None, "a Spark worker")
        yield Cluster(master, started[1])
    finally:
        for process in reversed(started):
            process.signal(signal.SIGTERM)
            process.kill()
