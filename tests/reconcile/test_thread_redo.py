"""Runners answer each job once, drop what was cancelled, and turn every failure into a sentence."""

from __future__ import annotations

import threading

import pytest

from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoPlace
from reconcile.redo_client import RedoRouter
from reconcile.replay_context import ReplayContext
from reconcile.thread_redo import ResultQueue, ThreadRedo
from tests.harness.waiting import PATIENCE_S
from tests.reconcile.list_world import ListKernel, StubLog, StubLookup, batch, claim, list_work
from tests.reconcile.replica import Replica
from tests.support.bell import Bell
from tests.support.redos import FailingRedo

LOGS = {"s": [claim(1, "a"), *(batch(1, "a", i, [(10_000 + 1000 * i, i)], 11_000 + 1000 * i) for i in range(20))]}


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def replica() -> Replica:
    return Replica(ListKernel(), LOGS)


def test_a_thread_runs_jobs_in_turn(bell, replica):
    redo = ThreadRedo(list_work(LOGS), bell, 60)
    redo.submit_job(replica.job(10, 15, id=1))
    redo.submit_job(replica.job(15, 30, id=2))
    bell.wait()
    bell.wait()
    first, second = redo.poll_results()
    assert isinstance(first, RedoDone)
    assert (first.id, first.engine, first.outputs) == (1, "inline", replica.expected(10, 15))
    assert (second.id, second.state, second.outputs) == (2, replica.states[30], replica.expected(15, 30))
    assert redo.poll_results() == []
    redo.close()


def test_a_failing_job_is_a_sentence_and_the_next_one_runs(bell, replica):
    redo = ThreadRedo(list_work(LOGS, lost=10), bell, 60)
    redo.submit_job(replica.job(10, 15, id=1))
    bell.wait()
    assert redo.poll_results() == [RedoFailed(1, "s[0]: offset 1 is no longer in the log (retention)", lost=True)]
    redo.submit_job(replica.job(25, 30, id=2))
    bell.wait()
    assert [r.id for r in redo.poll_results() if isinstance(r, RedoDone)] == [2]
    redo.close()


class Gate(StubLookup):
    entered = threading.Event()
    go = threading.Event()

    def read(self, feed, first, end):
        self.entered.set()
        assert self.go.wait(PATIENCE_S)
        yield from super().read(feed, first, end)


class GateLog(StubLog):
    """No simulated log: a stub of one call, which stands still in the middle of a read."""

    def lookup(self):
        return Gate(self.logs)


def test_a_cancelled_job_never_answers(bell, replica):
    plain = list_work(LOGS)
    work = ReplayContext(
        "q", plain.make_kernel, GateLog(LOGS), plain.inputs, plain.feeds, plain.width_us, plain.ahead_max_us, "a1"
    )
    redo = ThreadRedo(work, bell, 60)
    redo.submit_job(replica.job(10, 15, id=1))
    redo.submit_job(replica.job(10, 15, id=2))
    redo.submit_job(replica.job(10, 16, id=3))
    assert Gate.entered.wait(PATIENCE_S)
    redo.cancel_job(1)  # running
    redo.cancel_job(2)  # not begun
    Gate.go.set()
    bell.wait()
    assert [r.id for r in redo.poll_results()] == [3]
    redo.close()


def test_a_job_that_takes_longer_than_its_deadline_is_given_up(bell, replica):
    redo = ThreadRedo(list_work(LOGS), bell, 0.0)
    redo.submit_job(replica.job(10, 15, id=1))
    bell.wait()
    (failed,) = redo.poll_results()
    assert isinstance(failed, RedoFailed)
    assert "not done by the deadline, at bucket" in failed.reason
    redo.close()


def test_close_ends_the_thread(bell, replica):
    redo = ThreadRedo(list_work(LOGS), bell, 60)
    redo.submit_job(replica.job(10, 15))
    redo.close()
    assert not [t for t in threading.enumerate() if t.name == "redo q"]
    assert redo.poll_results() == []


def test_local_jobs_go_to_the_thread(bell, replica):
    nobody = FailingRedo("no peer", bell)
    redo = RedoRouter(FailingRedo("no Java", bell), ThreadRedo(list_work(LOGS), bell, 60), nobody)
    redo.submit_job(replica.job(10, 15, id=1), RedoPlace.SPARK)
    redo.submit_job(replica.job(10, 15, id=2), RedoPlace.LOG)
    bell.wait()
    bell.wait()
    failed, done = redo.poll_results()
    assert (failed, done.id, redo.on_spark) == (RedoFailed(1, "no Java"), 2, True)
    redo.close()


def test_without_spark_jobs_go_to_the_thread(bell, replica):
    redo = RedoRouter(None, ThreadRedo(list_work(LOGS), bell, 60), FailingRedo("no peer", bell))
    redo.submit_job(replica.job(10, 15, id=1), RedoPlace.LOG)
    bell.wait()
    (done,) = redo.poll_results()
    assert (done.id, done.engine, redo.on_spark) == (1, "inline", False)
    redo.close()


def test_a_job_cannot_run_twice_at_once(bell):
    results = ResultQueue(bell)
    results.expect(1)
    with pytest.raises(ValueError, match="redo job 1 is running already"):
        results.expect(1)


def test_a_late_answer_is_dropped(bell):
    results = ResultQueue(bell)
    results.expect(1)
    assert results.drop(1)
    results.put(RedoFailed(1, "late"))
    assert results.drain() == []
    assert not results.drop(1)


def test_a_job_is_answered_once(bell):
    results = ResultQueue(bell)
    results.expect(1)
    results.put(RedoFailed(1, "first"))
    results.put(RedoFailed(1, "second"))
    assert not results.expects(1)
    assert results.drain() == [RedoFailed(1, "first")]
    results.expect(1)  # its number is free again


def test_what_others_have_answered_outlives_a_job_that_is_dropped(bell):
    results = ResultQueue(bell)
    for job_id in (1, 2):
        results.expect(job_id)
        results.put(RedoFailed(job_id, "no worker"))
    results.drop(1)
    assert results.drain() == [RedoFailed(2, "no worker")]
