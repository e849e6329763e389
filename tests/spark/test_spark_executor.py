"""Redo jobs on a real Spark, submitted as a task does: the bits of the direct run, or a sentence, exactly once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from borealis_py.log.clock import SystemClock
from borealis_py.log.topics import redo_feeds
from borealis_py.protocol.redo import RedoDone, RedoFailed
from borealis_py.runtime.spark.session import ReplicaSession
from reconcile.redo_client import RemoteRedo, TaskAddress
from reconcile.redo_server import RedoServer, TaskChannel
from reconcile.spark_executor import SparkExecutor
from tests.harness.waiting import until
from tests.reconcile.list_world import ListKernel, batch, list_work
from tests.reconcile.replica import Replica
from tests.reconcile.rpc_log import RpcLog
from tests.spark.redo_logs import LOGS
from tests.spark.tasks import Hanging, dying, failing

pytestmark = pytest.mark.spark
LOGS["t"].append(batch(1, "a", 50, [], 30_000))
REQUESTS, RESPONSES = redo_feeds("app", "q", 0)


@pytest.fixture(scope="module")
def replica() -> Replica:
    return Replica(ListKernel(), LOGS)


class Driver:
    """A task and its driver over a log in memory, the jobs on Spark."""

    def __init__(self, session: ReplicaSession, slots: int = 1, **options: object) -> None:
        log = RpcLog(REQUESTS)
        self.warmed: list[int] = []
        works = {"q": list_work(LOGS).pack()}
        executor = SparkExecutor(session.context, works, lambda: None, lambda: self.warmed.append(1), **options)  # type: ignore[arg-type]
        channels, clock = [TaskChannel("q", REQUESTS, RESPONSES)], SystemClock()
        self.server = RedoServer(log, channels, "s", executor, slots, lambda: None, clock)
        address = TaskAddress("s", "u", REQUESTS, RESPONSES)
        self.task = RemoteRedo(log, address, ListKernel(), lambda: None, clock, 60)

    def answers(self, count: int) -> list[RedoDone | RedoFailed]:
        found: list[RedoDone | RedoFailed] = []

        def look() -> bool:
            self.server.turn()
            found.extend(self.task.poll_results())
            return len(found) >= count

        until(look, f"{count} results")
        return found

    def answer(self) -> RedoDone | RedoFailed:
        (found,) = self.answers(1)
        return found


def test_a_job_gives_the_bits_of_the_direct_run(session, replica) -> None:
    driver = Driver(session)
    session.warm(list_work(LOGS).pack())
    for job in replica.jobs([15, 22]):
        driver.task.submit_job(job)
        done = driver.answer()
        assert isinstance(done, RedoDone)
        assert (done.id, done.engine) == (job.id, "spark")
        assert done.outputs == replica.expected(job.first, job.end)
        assert repr(done.state) == repr(replica.states[job.end])


def test_a_task_that_raises_is_a_sentence(session, replica) -> None:
    driver = Driver(session, task=failing)
    driver.task.submit_job(replica.job(10, 15, id=7))
    assert driver.answer() == RedoFailed(7, "Spark job failed: ValueError: this task always fails")


def test_what_the_job_itself_fails_with_is_a_sentence(session, replica) -> None:
    driver = Driver(session)
    driver.task.submit_job(replace(replica.job(10, 15), rows=1))
    failed = driver.answer()
    assert isinstance(failed, RedoFailed)
    assert "in the log, the replica had read 1" in failed.reason


def test_a_worker_that_dies_is_a_sentence(session, replica) -> None:
    driver = Driver(session, task=dying)
    driver.task.submit_job(replica.job(10, 15, id=7))
    failed = driver.answer()
    assert isinstance(failed, RedoFailed)
    assert failed.reason.startswith("Spark job failed: ")


def test_hanging_jobs_are_cancelled_and_every_slot_comes_back(session, replica, tmp_path: Path) -> None:
    hanging, slots = Hanging(tmp_path), 2  # as many as the session has
    driver = Driver(session, slots, task=hanging)
    for n in range(slots):
        driver.task.submit_job(replica.job(10, 15, id=n))
    driver.server.turn()
    hanging.await_running(slots)
    for n in range(slots):
        driver.task.cancel_job(n)

    def warmed() -> bool:
        driver.server.turn()
        return len(driver.warmed) == slots

    until(warmed, "the cancelled jobs are gone")
    assert driver.task.poll_results() == []
    healthy = Driver(session, slots)
    for n in range(slots):
        healthy.task.submit_job(replica.job(10, 15, id=n))
    assert sorted(done.id for done in healthy.answers(slots) if isinstance(done, RedoDone)) == [0, 1]


def test_jobs_on_a_session_that_ended_are_a_sentence(tmp_path: Path, replica) -> None:
    driver = Driver(ReplicaSession(None, None, tmp_path / "none", 1))
    driver.task.submit_job(replica.job(10, 15, id=3))
    failed = driver.answer()
    assert failed == RedoFailed(3, "the Spark session has been stopped")
