"""`SparkRedo` on a context that a test holds in its hand: job groups, what is cancelled, what is said of errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from borealis_py.protocol.redo import RedoDone, RedoFailed
from reconcile.spark_redo import STUCK_MAX, SparkRedo, explain
from tests.reconcile.list_world import ListKernel, batch, claim, list_work
from tests.reconcile.replica import Replica
from tests.support.running import until

LOGS = {"s": [claim(1, "a"), *(batch(1, "a", i, [(10_000 + 1000 * i, i)], 11_000 + 1000 * i) for i in range(20))]}
Part = Callable[[Iterable[bytes]], Iterator[bytes]]


@dataclass
class HandContext:
    """Runs a job in the thread that asks, while `lets_go` is set. `slices`: of each job."""

    groups: list[tuple[str, str, bool]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    slices: list[int] = field(default_factory=list)
    lets_go: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    def setJobGroup(self, group: str, what: str, interrupt: bool) -> None:
        self.groups.append((group, what, interrupt))

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)
        if self.error is not None:
            raise self.error

    def parallelize(self, items: list[bytes], slices: int) -> HandContext:
        self.slices.append(slices)
        self._items = items
        return self

    def mapPartitions(self, part: Part) -> HandContext:
        self._part = part
        return self

    def collect(self) -> list[bytes]:
        part, items = self._part, self._items
        assert self.lets_go.wait(30)
        if self.error is not None:
            raise self.error
        return list(part(items))


@dataclass
class Office:
    context: HandContext
    redo: SparkRedo
    rung: threading.Semaphore
    gone: list[str]

    def answer(self) -> object:
        assert self.rung.acquire(timeout=30), "nobody rang"
        (result,) = self.redo.results()
        return result


@pytest.fixture(scope="module")
def replica() -> Replica:
    return Replica(ListKernel(), LOGS)


@pytest.fixture
def office() -> Iterator[Office]:
    context, rung, gone = HandContext(), threading.Semaphore(0), []
    redo = SparkRedo(context, list_work(LOGS), ListKernel(), rung.release, 60, lambda: gone.append("gone"))
    yield Office(context, redo, rung, gone)
    context.lets_go.set()


def test_a_job_is_one_task_in_a_group_of_its_own(office, replica):
    office.context.lets_go.set()
    office.redo.start(replica.job(10, 15, id=1))
    done = office.answer()
    assert isinstance(done, RedoDone)
    assert (done.id, done.engine, done.state) == (1, "spark", replica.states[15])
    assert done.outputs == replica.expected(10, 15)
    assert 0 <= done.seconds < 60
    office.redo.start(replica.job(15, 20, id=2))
    assert office.answer().id == 2
    (first, what, interrupt), (second, _, _) = office.context.groups
    assert (what, interrupt) == ("q: redo of buckets 10 to 15, 5 rows", True)
    assert first.endswith(" 1")
    assert second.endswith(" 2")
    assert (office.context.slices, office.context.cancelled, office.gone) == ([1, 1], [], [])


def test_an_error_of_spark_is_a_sentence(office, replica):
    office.context.lets_go.set()
    office.context.error = ValueError("no such thing")
    office.redo.start(replica.job(10, 15, id=7))
    assert office.answer() == RedoFailed(7, "Spark job failed: ValueError: no such thing")


def test_what_is_cancelled_is_told_to_spark_never_answers_and_is_known_to_be_gone(office, replica):
    office.redo.start(replica.job(10, 15, id=1))
    until(lambda: office.context.slices == [1], "it runs")
    office.redo.cancel(1)
    office.redo.cancel(1)
    until(lambda: office.context.cancelled, "Spark was told")
    assert office.context.cancelled == [office.context.groups[0][0]]
    assert office.gone == []
    office.context.lets_go.set()
    until(lambda: office.gone == ["gone"], "its worker is known to be gone")
    assert office.redo.results() == []


def test_a_spark_that_lets_go_of_nothing_is_busy_at_once(office, replica):
    office.context.error = ConnectionError("a dead JVM cannot cancel either")
    for job_id in range(STUCK_MAX):
        office.redo.start(replica.job(10, 15, id=job_id))
        until(lambda n=job_id: len(office.context.slices) > n, "it runs")
        office.redo.cancel(job_id)
    office.redo.start(replica.job(10, 15, id=9))
    assert office.answer() == RedoFailed(9, "Spark is busy: it has not let go of 2 cancelled jobs")
    office.context.error = None
    office.context.lets_go.set()
    until(lambda: len(office.gone) == STUCK_MAX, "both are gone")
    office.redo.start(replica.job(10, 15, id=10))
    assert office.answer().id == 10


def test_jobs_that_nobody_has_cancelled_do_not_count_as_stuck(office, replica):
    for job_id in range(STUCK_MAX + 1):
        office.redo.start(replica.job(10, 15, id=job_id))
        until(lambda n=job_id: len(office.context.slices) > n, "it runs")
    assert office.redo.results() == []


def test_close_cancels_what_runs(office, replica):
    office.redo.start(replica.job(10, 15, id=1))
    until(lambda: office.context.slices == [1], "it runs")
    office.redo.close()
    assert office.context.cancelled == [office.context.groups[0][0]]
    office.context.lets_go.set()
    until(lambda: office.gone == ["gone"], "it ended")
    assert office.redo.results() == []


class Py4JNetworkError(Exception):
    """Named as the bridge's."""


class Thrown(Exception):
    """An exception of the JVM: what its `getMessage` says."""

    def __init__(self, *args: str, says: str | Exception = "") -> None:
        super().__init__(*args)
        self.java_exception = self
        self._says = says

    def getMessage(self) -> str:
        if isinstance(self._says, Exception):
            raise self._says
        return self._says


TRACE = "Job aborted\n  at a.b.C\nTraceback:\n  File x\nValueError: bad row\nDriver stacktrace:"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Py4JNetworkError("gone"), "Spark's JVM does not answer: it has ended or was killed"),
        (EOFError(), "Spark's JVM does not answer: it has ended or was killed"),
        (RuntimeError("o12 does not exist in the JVM"), "Spark's JVM does not answer: it has ended or was killed"),
        (AttributeError("'NoneType' object has no attribute 'sc'"), "the Spark session has been stopped"),
        (AttributeError("no such name"), "Spark job failed: AttributeError: no such name"),
        (ValueError("several\n  lines"), "Spark job failed: ValueError: several lines"),
        (Thrown("ignored", says=TRACE), "Spark job failed: ValueError: bad row"),
        (Thrown("the call", "Lost task\nof it"), "Spark job failed: Lost task"),
        (Thrown(says=OSError("dead")), "Spark job failed: no message"),
        (Thrown("kept", says=OSError("dead")), "Spark job failed: kept"),
    ],
)
def test_what_people_are_told_of_an_error(error: Exception, said: str):
    assert explain(error) == said


def test_a_long_error_is_cut():
    assert len(explain(ValueError("x" * 9_000))) == 500
    assert len(explain(Thrown("x" * 9_000))) == len("Spark job failed: ") + 500
