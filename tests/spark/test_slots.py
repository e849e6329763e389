"""Redo jobs by letter on a real Spark: answers, failures and cancelled jobs, each told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from borealis_py.log.clock import SystemClock
from borealis_py.log.topics import redo_feeds
from borealis_py.protocol.redo import RedoDone, RedoFailed
from borealis_py.runtime.spark.executor import SparkExecutor
from borealis_py.runtime.spark.session import ReplicaSession
from reconcile.redo_client import RemoteRedo, TaskAddress
from reconcile.redo_server import RedoServer, TaskChannel
from tests.reconcile.list_world import ListKernel, list_work
from tests.reconcile.replica import Replica
from tests.reconcile.rpc_log import LetterLog
from tests.spark.redo_logs import LOGS
from tests.spark.tasks import Hanging, failing
from tests.support.running import until

pytestmark = pytest.mark.spark
ASK, ANSWER = redo_feeds("app", "q", 0)


@pytest.fixture(scope="module")
def replica() -> Replica:
    return Replica(ListKernel(), LOGS)


class Office:
    """A task and its driver over a log in memory, the jobs on Spark."""

    def __init__(self, session: ReplicaSession, **options: object) -> None:
        log = LetterLog()
        self.warmed: list[int] = []
        works = {"q": list_work(LOGS).pack()}
        slots = SparkExecutor(session.context, works, lambda: None, lambda: self.warmed.append(1), **options)  # type: ignore[arg-type]
        desks, clock = [TaskChannel("q", ASK, ANSWER)], SystemClock()
        self.server = RedoServer(log, desks, "s", slots, 1, lambda: None, clock)  # type: ignore[arg-type]
        address = TaskAddress("s", "u", ASK, ANSWER)
        self.task = RemoteRedo(log, address, ListKernel(), lambda: None, clock, 60)  # type: ignore[arg-type]

    def answer(self) -> RedoDone | RedoFailed:
        found: list[RedoDone | RedoFailed] = []

        def look() -> bool:
            self.server.turn()
            found.extend(self.task.results())
            return bool(found)

        until(look, "an answer")
        return found[0]


def test_a_job_by_letter_through_spark_gives_the_bits_of_the_direct_run(session, replica) -> None:
    office = Office(session)
    session.warm(list_work(LOGS).pack())
    for job in replica.jobs([15, 22]):
        office.task.start(job)
        done = office.answer()
        assert isinstance(done, RedoDone)
        assert (done.id, done.engine) == (job.id, "spark")
        assert done.outputs == replica.expected(job.first, job.end)
        assert repr(done.state) == repr(replica.states[job.end])


def test_a_task_that_raises_is_a_sentence(session, replica) -> None:
    office = Office(session, task=failing)
    office.task.start(replica.job(10, 15, id=7))
    assert office.answer() == RedoFailed(7, "Spark job failed: ValueError: this task always fails")


def test_a_hanging_job_is_cancelled_and_its_slot_comes_back(session, replica, tmp_path: Path) -> None:
    hanging = Hanging(tmp_path)
    office = Office(session, task=hanging)
    office.task.start(replica.job(10, 15, id=1))
    office.server.turn()
    hanging.await_running(1)
    office.task.cancel(1)

    def warmed() -> bool:
        office.server.turn()
        return bool(office.warmed)

    until(warmed, "the cancelled job is gone")
    assert office.task.results() == []
    healthy = Office(session)
    healthy.task.start(replica.job(10, 15, id=2))
    assert isinstance(healthy.answer(), RedoDone)


def test_jobs_on_a_session_that_ended_are_a_sentence(tmp_path: Path, replica) -> None:
    office = Office(ReplicaSession(None, None, tmp_path / "none", 1))
    office.task.start(replica.job(10, 15, id=3))
    failed = office.answer()
    assert failed == RedoFailed(3, "the Spark session has been stopped")
