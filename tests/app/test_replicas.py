"""Processes are found again by pid and start time, and end when asked or not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from borealis_py.app import replicas, supervision
from borealis_py.app.child_processes import terminated_as_interrupt
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import (
    ProcessName,
    ReplicaProcesses,
    Stopped,
    apps_here,
    process_names,
    process_of,
    readable,
)
from borealis_py.app.supervisor import run_notes
from borealis_py.kafka.process_end import is_over
from borealis_py.query import App
from tests.harness.waiting import PATIENCE_S

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


def put(processes: ReplicaProcesses, name: ProcessName, code: str, children: list[subprocess.Popen[bytes]]) -> int:
    """A process that stands for a replica's, noted as `start` notes it."""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    children.append(child)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    note(processes, name, child.pid, psutil.Process(child.pid).create_time())
    return child.pid


def note(processes: ReplicaProcesses, name: ProcessName, pid: int, created: float) -> None:
    processes.directory.mkdir(parents=True, exist_ok=True)
    (processes.directory / f"{name.stem}.pid").write_text(json.dumps({"pid": pid, "created": created}))


def test_found_again_and_stopped(
    tmp_path: Path, processes: ReplicaProcesses, children: list[subprocess.Popen[bytes]]
) -> None:
    names = [ProcessName(0), ProcessName(0, "cut-1"), ProcessName(1), ProcessName(1, "cut-1")]
    pids = {name: put(processes, name, OBEYS, children) for name in names}
    assert {name: p.pid for name, p in processes.running().items()} == pids
    assert apps_here(tmp_path) == ["app"]
    stopped = processes.stop([ProcessName(1), ProcessName(0, "cut-1")])
    assert [(s.name, s.pid, s.forced) for s in stopped] == [(n, pids[n], False) for n in names[1:3]]
    assert list(processes.running()) == [names[0], names[3]]
    processes.stop()
    assert processes.running() == {}
    assert apps_here(tmp_path) == []


def test_who_answers_has_noted_it_in_this_run(
    processes: ReplicaProcesses, children: list[subprocess.Popen[bytes]]
) -> None:
    names = [*(ProcessName(n) for n in range(4)), ProcessName(0, ingress=True)]
    for name in (*names[:3], names[4]):
        pid = put(processes, name, OBEYS, children)
        told = {
            "pid": pid,
            "created": psutil.Process(pid).create_time(),
            "run": f"run-{name.replica}",
        }
        (processes.directory / f"{name.stem}.pid").write_text(json.dumps(told))
    for name, run in zip(names, ("run-0", "of before", None, "run-3", "run-0"), strict=True):
        if run is not None:
            (processes.directory / f"{name.stem}.ready").write_text(json.dumps({"run": run, "since_s": 1.0}))
    assert processes.ready() == {names[0]}
    (processes.directory / f"{names[0].stem}.ready").unlink()
    assert processes.ready() == set()


def test_stopped_although_its_parent_never_takes_note(processes: ReplicaProcesses) -> None:
    """As under process 1 of a container, if that is no init."""
    code = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {OBEYS!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        note(processes, ProcessName(0), pid, psutil.Process(pid).create_time())
        try:
            assert processes.stop(timeout_s=PATIENCE_S) == [Stopped(ProcessName(0), pid, forced=False)]
            assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        finally:
            parent.kill()


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal comes when a process has been started, and not been noted yet."""
    write = run_notes.write

    def interrupt(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        write(*arguments)

    monkeypatch.setattr(run_notes, "write", interrupt)


@pytest.mark.usefixtures("interrupted")
def test_one_whose_start_is_interrupted_is_found(
    tmp_path: Path, processes: ReplicaProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "COMMAND", (sys.executable, "-c", OBEYS))
    with terminated_as_interrupt(), pytest.raises(KeyboardInterrupt):
        processes.start_process(ProcessName(0), ProcessSpec("nowhere:1", tmp_path))
    (stopped,) = processes.stop()
    assert stopped.name == ProcessName(0)


@pytest.mark.usefixtures("interrupted")
def test_a_supervisor_whose_start_is_interrupted_is_noted(processes: ReplicaProcesses) -> None:
    with terminated_as_interrupt(), pytest.raises(KeyboardInterrupt):
        processes.keep({})
    assert (processes.directory / f"{run_notes.SUPERVISOR}.pid").exists()
    supervision.stop_supervisor(processes.directory)


def test_killed_when_it_does_not_end(processes: ReplicaProcesses, children: list[subprocess.Popen[bytes]]) -> None:
    process = psutil.Process(put(processes, ProcessName(0), REFUSES, children))
    (stopped,) = processes.stop(timeout_s=0.2)
    assert stopped.forced
    assert is_over(process)


def test_a_pid_that_is_anothers_by_now_is_left_alone(processes: ReplicaProcesses) -> None:
    me = psutil.Process(os.getpid())
    note(processes, ProcessName(0), me.pid, me.create_time() - 10)
    assert processes.running() == {}
    assert processes.stop() == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x", "created": 1}', '{"pid": 1}', "null"])
def test_a_damaged_pid_file_is_no_process(processes: ReplicaProcesses, text: str) -> None:
    processes.directory.mkdir(parents=True)
    (processes.directory / "replica-0.pid").write_text(text)
    assert processes.running() == {}


def test_the_end_of_the_log_tells_why_it_ended(
    tmp_path: Path, processes: ReplicaProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = ProcessName(3)
    monkeypatch.setattr(replicas, "COMMAND", (*replicas.COMMAND, "--nonsense"))
    processes.start_process(three, ProcessSpec("nowhere:1", tmp_path))
    child = processes._started[three]
    assert child.wait(PATIENCE_S) == 2
    assert processes.ended(three) == 2
    assert "--nonsense" in processes.log_tail(three)
    assert processes.running() == {}
    processes.release()


@pytest.mark.parametrize(
    ("name", "stem", "said"),
    [
        (ProcessName(0), "replica-0", "replica 0"),
        (ProcessName(1, "cleaned"), "cleaned.r1", "replica 1 of node cleaned"),
        (ProcessName(1, "replica-0"), "replica-0.r1", "replica 1 of node replica-0"),
        (ProcessName(1, ingress=True), "ingress-1", "ingress 1"),
        (ProcessName(1, "ingress-0"), "ingress-0.r1", "replica 1 of node ingress-0"),
    ],
)
def test_every_process_has_files_of_its_own(name: ProcessName, stem: str, said: str) -> None:
    assert (name.stem, str(name)) == (stem, said)
    assert ProcessName.parse(stem) == name


@pytest.mark.parametrize("stem", ["broker", "replica-x", "ingress-x", "ingress-", "replica-0.partial", ".r0", "a.b.r0"])
def test_other_files_are_no_processes(stem: str) -> None:
    assert ProcessName.parse(stem) is None


def test_one_process_for_each_index_that_any_node_or_query_has() -> None:
    app = App("a")
    s = app.source("s", schema={"x": "int"})
    first = s.filter("x > 0").node("first", replicas=1)
    app.query("p", first.filter("x > 1").node("second", replicas=3), replicas=1)
    app.query("q", s, replicas=2)
    assert [str(name) for name in process_names(app.describe())] == ["replica 0", "replica 1", "replica 2"]
    app.topic("t", topic="prod.t", schema={"x": "int"})
    assert [str(name) for name in process_names(app.describe())][3:] == ["ingress 0", "ingress 1"]


def test_a_replica_is_where_its_node_is_apart_else_with_its_index() -> None:
    names = {ProcessName(0), ProcessName(1), ProcessName(1, "second")}
    assert process_of(names, "second", 1) == process_of(names, "second.3", 1) == ProcessName(1, "second")
    assert process_of(names, "second", 0) == process_of(names, "p", 0) == ProcessName(0)


def test_log_lines_are_made_readable() -> None:
    line = json.dumps({"event": "no start", "level": "error", "why": "x y", "timestamp": "t", "exception": "Trace"})
    assert readable(line) == "error no start why=x y\nTrace"
    assert readable("plain") == "plain"
    assert readable('{"a": 1}') == '{"a": 1}'
    assert readable("3") == "3"
