"""`borealis up` leaves a supervisor: what dies comes back, until `borealis down`. Broker and replicas are real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.supervision import supervisor_of
from borealis_py.app.up_lock import alone
from tests.cli.commands import Borealis, app_text, status, statuses
from tests.harness.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("here")]
APP = "cli-kept"
ZERO, ONE = ProcessName(0), ProcessName(1)


@pytest.fixture
def processes(
    here: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch, borealis: Borealis
) -> Iterator[ReplicaProcesses]:
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    (here / "app.py").write_text(app_text(APP))
    yield ReplicaProcesses(here / ".borealis", APP)
    borealis("down", "--app", APP)


def up(borealis: Borealis, *more: str) -> str:
    said = borealis("up", "app.py", "--host", "process", *more)
    assert said.code == 0, said.err
    return said.err


def test_what_is_killed_comes_back_ready_until_down(borealis: Borealis, processes: ReplicaProcesses) -> None:
    up(borealis, "--reset")
    victim = processes.running()[ONE]
    victim.kill()
    until(lambda: processes.running().get(ONE, victim).pid != victim.pid, "it is started again")
    again = processes.running()[ONE].pid

    def ready() -> bool:
        one = statuses(borealis, APP)["sums", 1]
        return bool(one["pid"] == again and one["ready"] and one["inc"] == 2)

    until(ready, "it is READY again")
    told = status(borealis, APP)
    assert told["supervised"]
    zero, one = told["processes_here"]
    assert (zero["process"], zero["running"], zero["restarts"], zero["last_end"]) == ("replica-0", True, 0, None)
    assert (one["process"], one["running"], one["restarts"], one["pid"]) == ("replica-1", True, 1, again)
    assert one["last_end"]["how"] == "killed by SIGKILL"
    said = borealis("status", "--app", APP)
    assert "replica 1 was started again once; the last one ended" in said.err
    log = [json.loads(line) for line in processes.log_file(ONE).read_text().splitlines()]
    assert [line["event"] for line in log if line["event"] in ("READY", STARTED_AGAIN)] == [
        "READY",
        STARTED_AGAIN,
        "READY",
    ]
    supervisor = supervisor_of(processes.directory)
    assert supervisor is not None
    assert borealis("down", "--app", APP).err.count(" stopped (pid ") == 2
    assert psutil.wait_procs([supervisor], PATIENCE_S)[1] == []
    assert processes.running() == {}


STARTED_AGAIN = "the replica process ended and is started again"


def test_up_again_starts_a_supervisor_that_was_killed_and_touches_nothing_else(
    borealis: Borealis, processes: ReplicaProcesses
) -> None:
    up(borealis, "--reset")
    before = {name: p.pid for name, p in processes.running().items()}
    supervisor = supervisor_of(processes.directory)
    assert supervisor is not None
    assert up(borealis).count("was running") == 2
    assert supervisor_of(processes.directory) == supervisor  # nothing was to be done
    supervisor.kill()
    until(lambda: not processes.kept, "the supervisor is gone")
    assert up(borealis).count("was running") == 2
    assert processes.kept
    assert {name: p.pid for name, p in processes.running().items()} == before
    up(borealis, "--no-restart")
    assert not processes.kept
    assert {name: p.pid for name, p in processes.running().items()} == before


def test_an_index_that_runs_elsewhere_is_told_and_not_tried_again(
    borealis: Borealis, processes: ReplicaProcesses, here: Path
) -> None:
    up(borealis, "--reset")
    said = borealis("up", "app.py", "--host", "process", "--data-dir", "elsewhere")
    assert said.code == 1
    told = " ".join(said.err.split())
    assert f"app {APP!r}: replica 0 runs elsewhere: pid " in told
    assert f"`borealis down --app {APP} --data-dir " in told
    other = ReplicaProcesses(here / "elsewhere", APP)
    until(lambda: not other.kept, "its supervisor has nothing to keep")
    assert all(fate.final for fate in other.fates().values())


def test_one_that_is_superseded_stays_dead(borealis: Borealis, processes: ReplicaProcesses, here: Path) -> None:
    up(borealis, "--reset")
    said = borealis("up", "app.py", "--host", "process", "--data-dir", "elsewhere", "--take-over")
    try:
        assert said.code == 0, said.err
        until(lambda: not processes.kept, "no replica is left to keep")
        assert {fate.how.partition(":")[0] for fate in processes.fates().values()} == {"exit code 3, superseded"}
        assert processes.running() == {}
    finally:
        borealis("down", "--app", APP, "--data-dir", "elsewhere")


def test_one_that_starts_waits_for_one_that_starts(
    borealis: Borealis, processes: ReplicaProcesses, here: Path, bootstrap: str
) -> None:
    command = [sys.executable, "-m", "borealis_py.cli.main", "up", "app.py", "--bootstrap", bootstrap]
    command += ["--host", "process"]
    with alone(here / ".borealis", APP, pytest.fail):
        it = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert it.stderr is not None
        assert f"another `borealis up` of app {APP} is at work here (pid {os.getpid()})" in it.stderr.readline()
        assert processes.running() == {}
    it.communicate(timeout=180)
    assert it.returncode == 0
    assert len(processes.running()) == 2
