"""Processes are found again by pid and start time, and end when asked or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from borealis_py.host.replicas import ReplicaProcesses, apps_here, readable

OBEYS = "import time; print('up', flush=True); time.sleep(600)"
REFUSES = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + OBEYS


@pytest.fixture
def processes(tmp_path: Path) -> ReplicaProcesses:
    return ReplicaProcesses(tmp_path, "app")


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for child in started:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def put(processes: ReplicaProcesses, replica: int, code: str, children: list[subprocess.Popen[bytes]]) -> int:
    """A process that stands for a replica's, noted as `start` notes it."""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    children.append(child)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    note(processes, replica, child.pid, psutil.Process(child.pid).create_time())
    return child.pid


def note(processes: ReplicaProcesses, replica: int, pid: int, created: float) -> None:
    processes.directory.mkdir(parents=True, exist_ok=True)
    (processes.directory / f"replica-{replica}.pid").write_text(json.dumps({"pid": pid, "created": created}))


def test_found_again_and_stopped(
    tmp_path: Path, processes: ReplicaProcesses, children: list[subprocess.Popen[bytes]]
) -> None:
    pids = [put(processes, k, OBEYS, children) for k in (0, 1)]
    assert {k: p.pid for k, p in processes.running().items()} == dict(enumerate(pids))
    assert apps_here(tmp_path) == ["app"]
    stopped = processes.stop([1])
    assert [(s.replica, s.pid, s.forced) for s in stopped] == [(1, pids[1], False)]
    assert list(processes.running()) == [0]
    processes.stop()
    assert processes.running() == {}
    assert apps_here(tmp_path) == []


def test_killed_when_it_does_not_end(processes: ReplicaProcesses, children: list[subprocess.Popen[bytes]]) -> None:
    pid = put(processes, 0, REFUSES, children)
    (stopped,) = processes.stop(timeout_s=0.2)
    assert stopped.forced
    assert not psutil.pid_exists(pid)


def test_a_pid_that_is_anothers_by_now_is_left_alone(processes: ReplicaProcesses) -> None:
    me = psutil.Process(os.getpid())
    note(processes, 0, me.pid, me.create_time() - 10)
    assert processes.running() == {}
    assert processes.stop() == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x", "created": 1}', '{"pid": 1}', "null"])
def test_a_damaged_pid_file_is_no_process(processes: ReplicaProcesses, text: str) -> None:
    processes.directory.mkdir(parents=True)
    (processes.directory / "replica-0.pid").write_text(text)
    assert processes.running() == {}


def test_the_end_of_the_log_tells_why_it_ended(processes: ReplicaProcesses) -> None:
    processes.start(3, ["--nonsense"])
    child = processes._started[3]
    assert child.wait(60) == 2
    assert processes.ended(3) == 2
    assert "--bootstrap" in processes.log_tail(3)
    assert processes.running() == {}
    processes.release()


def test_log_lines_are_made_readable() -> None:
    line = json.dumps({"event": "no start", "level": "error", "why": "x y", "timestamp": "t", "exception": "Trace"})
    assert readable(line) == "error no start why=x y\nTrace"
    assert readable("plain") == "plain"
    assert readable('{"a": 1}') == '{"a": 1}'
    assert readable("3") == "3"
