"""`borealis up` as it comes: replicas are Spark tasks, and `down` leaves none of their processes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from tests.cli.commands import Borealis, app_text, statuses
from tests.harness.waiting import PATIENCE_S, until
from tests.runtime.spark.driven import has_java

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.usefixtures("here")]
APP = "cli-tasks"


def test_up_runs_replicas_as_tasks_and_down_ends_them(
    borealis: Borealis, here: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    (here / "app.py").write_text(app_text(APP))
    processes = ReplicaProcesses(here / ".borealis", APP)
    try:
        said = borealis("up", "app.py")
        assert said.code == 0, said.err
        drivers = list(processes.running().values())
        tree = [*drivers, *(child for driver in drivers for child in driver.children(recursive=True))]
        assert len([p for p in tree if p.name() == "java"]) == len(drivers) == 2
        log = processes.log_file(next(iter(processes.running()))).read_text()
        assert '"slots": "4 slots: 2 for sums.r0, big.r0 and 2 for redos"' in log
        assert "widened" not in log
        start_us = time.time_ns() // 1000 + 200_000
        (here / "rows.csv").write_text("at,key,value\n" + "".join(f"{start_us + i},a,{i}\n" for i in range(50)))
        for source in ("left", "right"):
            assert borealis("publish", source, "rows.csv", "--stime", "at", "--app", APP).code == 0
        assert len(borealis("subscribe", "big", "--app", APP).out.splitlines()) == 2 * 39
        assert {r["pid"] for r in statuses(borealis, APP).values()} == {driver.pid for driver in drivers}
        audited = json.loads(borealis("audit", "--app", APP, "--no-spark", "--json").out)
        assert {r["query"]: r["differences"] for r in audited} == {"sums": 0, "big": 0}
    finally:
        said = borealis("down", "--app", APP)
    assert said.err.count(" stopped (pid ") == 2, said.err
    assert psutil.wait_procs(tree, timeout=PATIENCE_S)[1] == []


def test_a_killed_driver_leaves_nothing_and_its_successor_runs(
    borealis: Borealis, here: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its JVM and tasks would go on for a while, and its tasks' last heartbeats hold their index."""
    name = "cli-killed-driver"
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    (here / "app.py").write_text(app_text(name, replicas=1))
    processes = ReplicaProcesses(here / ".borealis", name)
    try:
        said = borealis("up", "app.py")
        assert said.code == 0, said.err
        (driver,) = processes.running().values()
        left = driver.children(recursive=True)
        assert has_java(left)
        driver.kill()
        assert psutil.wait_procs(left, timeout=PATIENCE_S)[1] == []
        until(lambda: any(p != driver for p in processes.running().values()), "its successor runs")

        def ready() -> bool:
            (process,) = processes.running().values()
            return all(r["ready"] and r["pid"] == process.pid for r in statuses(borealis, name).values())

        until(ready, "all its replicas are READY", 180)
        (fate,) = processes.fates().values()
        assert (fate.restarts, fate.how) == (1, "killed by SIGKILL")
        events = [json.loads(line)["event"] for line in processes.log_file(ProcessName(0)).read_text().splitlines()]
        assert "replica does not start" not in events
    finally:
        borealis("down", "--app", name)


def test_without_java_up_says_what_runs_without(
    borealis: Borealis, here: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    monkeypatch.setenv("JAVA_HOME", str(here / "nowhere"))
    (here / "app.py").write_text(app_text("no-java"))
    said = borealis("up", "app.py")
    assert said.code == 1
    words = " ".join(said.err.split())  # a terminal breaks lines
    assert re.search("replica [01] ended while starting", words)
    assert "Spark cannot start" in words
    assert "Java 17 or newer" in words
    assert "or set JAVA_HOME to an existing one. --host process runs them without Spark" in words
    borealis("down", "--app", "no-java")
    assert not ReplicaProcesses(here / ".borealis", "no-java").running()


@pytest.mark.parametrize(("number", "drivers"), [(signal.SIGINT, 2), (signal.SIGTERM, 1)])
def test_an_up_that_is_interrupted_leaves_nothing(number: int, drivers: int, here: Path, bootstrap: str) -> None:
    name = f"interrupted-{number}"
    (here / "app.py").write_text(app_text(name, replicas=drivers))
    processes = ReplicaProcesses(here / ".borealis", name)
    command = [sys.executable, "-m", "borealis_py.cli.main", "up", "app.py", "--bootstrap", bootstrap]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as up:

        def tree() -> list[psutil.Process]:
            return [p for driver in processes.running().values() for p in (driver, *driver.children(recursive=True))]

        until(lambda: has_java(tree()), "Spark begins to start")
        left = tree()
        up.send_signal(number)
        _, said = up.communicate(timeout=PATIENCE_S)
    assert (up.returncode, "Traceback" in said) == (130, False)
    assert processes.running() == {}
    assert psutil.wait_procs(left, timeout=PATIENCE_S)[1] == []
