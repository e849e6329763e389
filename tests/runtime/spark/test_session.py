"""The session starts warm, says why when it cannot, and its death reaches nobody but the jobs it had."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import psutil
import pytest

from borealis_py.runtime.spark.session import ReplicaSession, SparkSettings, SparkUnavailable
from reconcile.redo_job import pack_job
from reconcile.spark_executor import SparkExecutor
from tests.harness.waiting import PATIENCE_S, until
from tests.reconcile.list_world import ListKernel, list_work
from tests.reconcile.replica import Replica
from tests.spark.redo_logs import LOGS
from tests.spark.settings import SETTINGS
from tests.spark.tasks import Hanging, Meeting
from tests.support.bell import Bell

pytestmark = pytest.mark.spark


def test_warm_workers_then_a_killed_jvm(tmp_path):
    work, bell = list_work(LOGS), Bell()
    session = ReplicaSession.start_spark("tests", SETTINGS, tmp_path / "spark.log")
    try:
        session.warm(work.pack())
        session.keep_warm()
        assert session.alive
        pids = _met(session, tmp_path / "met")
        assert len({pid for pid, _ in pids}) == 2
        assert all(warm for _, warm in pids)  # both workers have the query's kernel already

        replica, hanging = Replica(ListKernel(), LOGS), Hanging(tmp_path / "running")
        hanging.directory.mkdir()
        executor = SparkExecutor(session.context, {"q": work.pack()}, bell, task=hanging)
        executor.execute(1, "q", pack_job(replica.job(10, 15), ListKernel(), 60))
        hanging.await_running(1)
        os.kill(session.jvm_pid, signal.SIGKILL)
        bell.wait()
        executor.execute(2, "q", pack_job(replica.job(10, 15), ListKernel(), 60))
        bell.wait()
        reason = "Spark's JVM does not answer: it has ended or was killed"
        assert executor.take_finished() == [(1, reason), (2, reason)]
        until(lambda: not session.alive, "the session is told to be dead", 120)
    finally:
        session.stop()
    session.stop()  # again does no harm


def test_a_killed_worker_is_replaced_and_stop_leaves_no_process_behind(tmp_path):
    session = ReplicaSession.start_spark("tests", SETTINGS, tmp_path / "spark.log")
    try:
        with pytest.raises(SparkUnavailable, match=r"Spark runs no Python jobs.*UnpicklingError"):
            session.warm(b"these bytes are no work")
        session.warm()
        session.keep_warm(every_s=3600)
        victim = psutil.Process(_met(session, tmp_path / "met")[0][0])
        victim.kill()
        psutil.wait_procs([victim], timeout=PATIENCE_S)
        jvm = psutil.Process(session.jvm_pid)
        daemon = next(p for p in jvm.children() if "borealis_py.runtime.spark.daemon" in _command(p))
        session.warm_soon()
        until(lambda: len(daemon.children()) >= 2, "the worker is replaced", 120)
        family = [jvm, *jvm.children(recursive=True)]
    finally:
        session.stop()
    assert len(family) >= 4  # JVM, daemon, two workers
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert alive == []
    assert not [t for t in threading.enumerate() if t.name == "keep warm"]


def test_what_a_killed_application_leaves_goes_with_the_next_one(tmp_path):
    """In a place with a space, beside the file of what Spark prints."""
    output, base = tmp_path / "a place" / "spark.log", tmp_path / "a place" / "spark.tmp"
    output.parent.mkdir()
    with psutil.Popen([sys.executable, "-c", "pass"]) as gone:
        gone.wait()
    (base / str(gone.pid) / "blockmgr-1").mkdir(parents=True)
    (base / "1" / "of the first process").mkdir(parents=True)
    session = ReplicaSession.start_spark("tests", SETTINGS, output)
    try:
        session.warm()
        left = {path.name.partition("-")[0] for path in (base / str(os.getpid())).iterdir()}
        assert {"blockmgr", "spark"} <= left
        assert not (base / str(gone.pid)).exists()
        os.kill(session.jvm_pid, signal.SIGKILL)
        until(lambda: not session.alive, "the session is told to be dead", 120)
    finally:
        session.stop()
    assert [path.name for path in base.iterdir()] == ["1"], "another process's is its own"


def test_a_jvm_that_hangs_is_killed(monkeypatch, tmp_path):
    monkeypatch.setattr("borealis_py.runtime.spark.session.STOP_S", 0.5)
    session = ReplicaSession.start_spark("tests", SETTINGS, tmp_path / "spark.log")
    jvm = psutil.Process(session.jvm_pid)
    jvm.suspend()
    session.stop()
    assert not jvm.is_running()


def test_no_java_names_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailable, match=r"(?s)Spark cannot start.*apt-get install"):
        ReplicaSession.start_spark("tests", output=tmp_path / "spark.log")


def test_a_jvm_that_ends_at_once_is_quoted(tmp_path):
    with pytest.raises(SparkUnavailable, match="larger value than the maximum heap size"):
        ReplicaSession.start_spark("tests", SparkSettings(heap="1k"), tmp_path / "spark.log")


def test_one_that_runs_no_jobs_is_ailing_though_its_jvm_lives(monkeypatch) -> None:
    session = ReplicaSession(None, None, Path(), 1)
    answers = iter([SparkUnavailable("cold"), None, SparkUnavailable("cold"), SparkUnavailable("colder")])
    asked = threading.Semaphore(0)

    def warm() -> None:
        answer = next(answers, SparkUnavailable("colder"))
        asked.release()
        if answer is not None:
            raise answer

    monkeypatch.setattr(session, "warm", warm)
    session.keep_warm(every_s=0.001)
    try:
        until(lambda: session.ailing is not None, "it is called ailing")
        assert session.ailing == "colder"
        assert all(asked.acquire(blocking=False) for _ in range(4))  # one failure after a success is none
    finally:
        session.stop()


def _met(session: ReplicaSession, directory: Path) -> list[tuple[int, bool]]:
    """What a task in each of two workers tells."""
    directory.mkdir()
    return list(session.context.parallelize(range(2), 2).mapPartitionsWithIndex(Meeting(directory)).collect())


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie has none
        return ""
