"""Redo jobs through Spark: the same bits as the direct run, and a sentence whenever that cannot be."""

from __future__ import annotations

import threading
from dataclasses import replace

import msgspec
import pytest

from borealis_py.protocol.redo import RedoDone, RedoFailed
from reconcile.audit import audit_on_spark
from reconcile.spark_redo import STUCK_MAX, SparkRedo
from tests.reconcile.audits import published, spec
from tests.reconcile.list_world import ListKernel, batch, list_work
from tests.reconcile.replica import Replica
from tests.spark.bells import Bell
from tests.spark.redo_logs import LOGS
from tests.spark.tasks import Hanging, dying, failing

pytestmark = pytest.mark.spark

LOGS["t"].append(batch(1, "a", 50, [], 30_000))


@pytest.fixture(scope="module")
def replica() -> Replica:
    return Replica(ListKernel(), LOGS)


def runner(session, bell, task=None, **options) -> SparkRedo:
    if task is not None:
        options["task"] = task
    return SparkRedo(session.context, list_work(LOGS), ListKernel(), bell, 60, **options)


def test_a_job_gives_the_bits_of_the_direct_run(session, bell, replica):
    session.warm(list_work(LOGS).pack())
    redo = runner(session, bell)
    for job in replica.jobs([15, 22]):
        redo.start(job)
        bell.wait()
        (done,) = redo.results()
        assert isinstance(done, RedoDone)
        assert (done.id, done.engine) == (job.id, "spark")
        assert done.outputs == replica.expected(job.first, job.end)
        assert repr(done.state) == repr(replica.states[job.end])
    redo.close()


def test_what_the_job_itself_fails_with_is_a_sentence(session, bell, replica):
    redo = runner(session, bell)
    redo.start(replace(replica.job(10, 15), rows=1))
    bell.wait()
    (failed,) = redo.results()
    assert "in the log, the replica had read 1" in failed.reason


def test_a_task_that_raises(session, bell, replica):
    redo = runner(session, bell, failing)
    redo.start(replica.job(10, 15, id=7))
    bell.wait()
    assert redo.results() == [RedoFailed(7, "Spark job failed: ValueError: this task always fails")]


def test_a_worker_that_dies(session, bell, replica):
    redo = runner(session, bell, dying)
    redo.start(replica.job(10, 15, id=7))
    bell.wait()
    (failed,) = redo.results()
    assert isinstance(failed, RedoFailed)
    assert failed.reason.startswith("Spark job failed: ")


def test_hanging_tasks_are_cancelled_and_every_slot_is_usable_again(session, bell, replica, tmp_path):
    hanging = Hanging(tmp_path)
    gone = threading.Semaphore(0)
    redo = runner(session, bell, hanging, after_cancel=gone.release)
    for n in range(STUCK_MAX):  # as many as the session has slots
        redo.start(replica.job(10, 15, id=n))
    hanging.await_running(STUCK_MAX)
    for n in range(STUCK_MAX):
        redo.cancel(n)
    redo.start(replica.job(10, 15, id=90))
    assert redo.results() == [RedoFailed(90, "Spark is busy: it has not let go of 2 cancelled jobs")]
    for _ in range(STUCK_MAX):
        assert gone.acquire(timeout=60)
    redo.close()
    bell = Bell()
    healthy = runner(session, bell)
    for n in range(2):
        healthy.start(replica.job(10, 15, id=n))
    bell.wait()
    bell.wait()
    assert sorted(r.id for r in healthy.results() if isinstance(r, RedoDone)) == [0, 1]


def test_close_cancels_what_runs(session, bell, replica, tmp_path):
    hanging = Hanging(tmp_path)
    gone = threading.Event()
    redo = runner(session, bell, hanging, after_cancel=gone.set)
    redo.start(replica.job(10, 15))
    hanging.await_running(1)
    redo.close()
    assert gone.wait(60)
    assert redo.results() == []


def test_the_audit_runs_one_task_a_query(session):
    rows = published(30)
    changed = [rows[0], rows[1], msgspec.structs.replace(rows[2], value=b"{}"), *rows[3:]]
    clean, spoilt = audit_on_spark(session.context, [spec(rows, 30), spec(changed, 30)])
    assert (clean.clean, clean.rows) == (True, 20)
    assert (spoilt.differences, spoilt.first.kind) == (1, "different")
    assert audit_on_spark(session.context, []) == []
