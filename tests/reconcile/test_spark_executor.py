"""`SparkExecutor` on a fake SparkContext: job groups, cancelled jobs, errors as sentences."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from borealis_py.protocol.redo import RedoDone, RedoJob
from reconcile.redo_job import pack_job, unpack_result
from reconcile.spark_executor import SparkExecutor, explain
from tests.harness.waiting import PATIENCE_S, until
from tests.reconcile.list_world import ListKernel, batch, claim, list_work
from tests.reconcile.replica import Replica

LOGS = {"s": [claim(1, "a"), *(batch(1, "a", i, [(10_000 + 1000 * i, i)], 11_000 + 1000 * i) for i in range(20))]}
Run = Callable[[bytes], bytes]


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

    def map(self, task: Run) -> HandContext:
        self._run = task
        return self

    def collect(self) -> list[bytes]:
        run, items = self._run, self._items
        assert self.lets_go.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return [run(item) for item in items]


@dataclass
class Office:
    """An executor on that context. `gone`: how often a cancelled job was reported gone."""

    context: HandContext
    executor: SparkExecutor
    rung: threading.Semaphore
    gone: list[str]

    def finished(self) -> tuple[int, bytes | str]:
        assert self.rung.acquire(timeout=PATIENCE_S), "nothing has finished"
        (found,) = self.executor.take_finished()
        return found


@pytest.fixture
def office() -> Iterator[Office]:
    context, rung, gone = HandContext(), threading.Semaphore(0), []
    works = {"q": list_work(LOGS).pack()}
    executor = SparkExecutor(context, works, rung.release, lambda: gone.append("gone"))
    yield Office(context, executor, rung, gone)
    context.lets_go.set()


@pytest.fixture(scope="module")
def replica() -> Replica:
    return Replica(ListKernel(), LOGS)


def packed(job: RedoJob) -> bytes:
    return pack_job(job, ListKernel(), 60)


def test_a_job_is_one_task_in_its_own_group_with_the_bits_of_the_direct_run(office, replica):
    office.context.lets_go.set()
    office.executor.execute(41, "q", packed(replica.job(10, 15, id=1)))
    handle, end = office.finished()
    assert handle == 41
    assert isinstance(end, bytes)
    done = unpack_result(end, ListKernel(), "spark", 0.5)
    assert isinstance(done, RedoDone)
    assert (done.id, done.engine, done.state, done.seconds) == (1, "spark", replica.states[15], 0.5)
    assert done.outputs == replica.expected(10, 15)
    office.executor.execute(42, "q", packed(replica.job(15, 20, id=2)))
    assert office.finished()[0] == 42
    (first, what, interrupt), (second, _, _) = office.context.groups
    assert (what, interrupt) == ("q: redo", True)
    assert first.endswith(" 41")
    assert second.endswith(" 42")
    assert (office.context.slices, office.context.cancelled, office.gone) == ([1, 1], [], [])


def test_an_error_of_spark_is_a_sentence(office, replica):
    office.context.lets_go.set()
    office.context.error = ValueError("no such thing")
    office.executor.execute(7, "q", packed(replica.job(10, 15)))
    assert office.finished() == (7, "Spark job failed: ValueError: no such thing")


def test_spark_is_told_of_a_cancelled_job_which_finishes_once_and_is_reported_gone(office, replica):
    office.executor.execute(1, "q", packed(replica.job(10, 15)))
    until(lambda: office.context.slices == [1], "it runs")
    office.executor.cancel(1)
    until(lambda: office.context.cancelled, "Spark was told")
    assert office.context.cancelled == [office.context.groups[0][0]]
    assert (office.gone, office.executor.take_finished()) == ([], [])
    office.context.lets_go.set()
    until(lambda: office.gone == ["gone"], "its worker is known to be gone")
    assert [handle for handle, _ in office.executor.take_finished()] == [1]


def test_a_job_that_is_cancelled_before_spark_has_it_is_not_submitted(office, replica):
    office.executor._cancelled.add(3)
    office.executor.execute(3, "q", packed(replica.job(10, 15)))
    handle, why = office.finished()
    assert (handle, office.context.slices) == (3, [])
    assert "cancelled before it was submitted" in str(why)


def test_a_jvm_that_cannot_cancel_either_harms_nothing(office, replica):
    office.context.error = ConnectionError("a dead JVM")
    office.executor.execute(1, "q", packed(replica.job(10, 15)))
    until(lambda: office.context.slices == [1], "it runs")
    office.executor.cancel(1)
    until(lambda: office.context.cancelled, "it was tried")
    office.context.lets_go.set()
    assert office.finished() == (1, "Spark job failed: ConnectionError: a dead JVM")


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
        (ConnectionRefusedError(), "Spark's JVM does not answer: it has ended or was killed"),
        (ConnectionResetError(), "Spark's JVM does not answer: it has ended or was killed"),
        (EOFError(), "Spark's JVM does not answer: it has ended or was killed"),
        (RuntimeError("o12 does not exist in the JVM"), "Spark's JVM does not answer: it has ended or was killed"),
        (AttributeError("'NoneType' object has no attribute 'sc'"), "the Spark session has been stopped"),
        (AttributeError("no such name"), "Spark job failed: AttributeError: no such name"),
        (ValueError("several\n  lines"), "Spark job failed: ValueError: several lines"),
        (Thrown("ignored", says=TRACE), "Spark job failed: ValueError: bad row"),
        (Thrown(says="Job aborted\na.b.TaskException: gone\n  at a.b.C"), "Spark job failed: a.b.TaskException: gone"),
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
