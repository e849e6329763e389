"""A Spark session that died is started again; until then redos run inline, and no answer is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from borealis_py.host.sessions import KeptRedo, Session, SessionKeeper
from borealis_py.host.spark import ReplicaSession, SparkSettings, SparkUnavailable, start_or_reason
from borealis_py.protocol.redo import RedoFailed, RedoJob
from reconcile.runner import Results
from tests.support.running import until

JOB = RedoJob(1, 10, 15, (), (), 5)


class FakeSession(ReplicaSession):
    """Lives until it is told why not."""

    def __init__(self) -> None:
        super().__init__(None, None, Path(), 1)
        self.why: str | None = None
        self.stopped = False

    @property
    def ailing(self) -> str | None:
        return self.why

    def stop(self) -> None:
        self.stopped = True


class Starts:
    """What `start` gives, one after the other; waits where there is nothing more to give yet."""

    def __init__(self, *found: Session) -> None:
        self.found = list(found)
        self.more = threading.Event()
        self.calls = 0

    def __call__(self) -> Session:
        self.calls += 1
        while not self.found:
            assert self.more.wait(20)
            self.more.clear()
        return self.found.pop(0)

    def give(self, session: Session) -> None:
        self.found.append(session)
        self.more.set()


@contextmanager
def keeping(start: Callable[[], Session]) -> Iterator[SessionKeeper]:
    keeper = SessionKeeper(start, look_s=0.005, pause_s=0.005)
    try:
        yield keeper
    finally:
        keeper.stop()


def test_one_that_died_is_replaced_and_told_about_meanwhile() -> None:
    first, second = FakeSession(), FakeSession()
    starts = Starts(first)
    with keeping(starts) as keeper:
        assert keeper.current is first
        first.why = "Spark's JVM has ended or was killed"
        until(lambda: starts.calls == 2, "another is being started")
        assert first.stopped
        assert keeper.why_inline == "Spark's JVM has ended or was killed; it is being started again"
        starts.give(SparkUnavailable("no memory"))
        starts.give(SparkUnavailable("no memory"))
        until(lambda: "does not start again yet. no memory" in str(keeper.current), "it tells why not")
        starts.give(second)
        until(lambda: keeper.current is second, "a new session")
        assert keeper.why_inline == ""
    assert second.stopped
    assert starts.calls == 4


def test_one_that_never_started_is_not_tried_again() -> None:
    starts = Starts(SparkUnavailable("no Java"))
    with keeping(starts) as keeper:
        assert str(keeper.current) == "no Java"
        assert keeper._thread is None
    assert starts.calls == 1


def test_stopped_while_it_starts_again_leaves_no_session() -> None:
    first, second = FakeSession(), FakeSession()
    starts = Starts(first)
    keeper = SessionKeeper(starts, look_s=0.005)
    first.why = "gone"
    until(lambda: starts.calls == 2, "another is being started")
    keeper._stop.set()
    starts.give(second)
    keeper.stop()
    assert second.stopped


class FakeRedo:
    def __init__(self) -> None:
        self.answers = Results(lambda: None)
        self.closed = False

    def start(self, job: RedoJob) -> None:
        self.answers.expect(job.id)

    def results(self) -> list[object]:
        return list(self.answers.take())

    def cancel(self, job_id: int) -> None:
        self.answers.drop(job_id)

    def close(self) -> None:
        self.closed = True


def test_jobs_go_to_the_session_of_the_day_and_no_answer_is_lost() -> None:
    sessions_ = [FakeSession() for _ in range(3)]
    keeper = SessionKeeper(lambda: SparkUnavailable("none"))
    redos: dict[int, FakeRedo] = {}

    def on(session: ReplicaSession) -> FakeRedo:
        return redos.setdefault(id(session), FakeRedo())

    kept = KeptRedo(keeper, on, lambda: None)  # type: ignore[arg-type]
    keeper._current = sessions_[0]
    kept.start(JOB)
    keeper._current = SparkUnavailable("Spark died; it is being started again")
    redos[id(sessions_[0])].answers.put(RedoFailed(1, "the JVM does not answer"))
    kept.start(RedoJob(2, 10, 15, (), (), 5))
    assert kept.results() == [
        RedoFailed(1, "the JVM does not answer"), RedoFailed(2, "Spark died; it is being started again"),
    ]  # fmt: skip
    keeper._current = sessions_[1]
    kept.start(RedoJob(3, 10, 15, (), (), 5))
    assert redos[id(sessions_[0])].closed
    kept.cancel(3)
    redos[id(sessions_[1])].answers.put(RedoFailed(3, "late"))
    assert kept.results() == []
    kept.close()
    assert redos[id(sessions_[1])].closed


@pytest.mark.spark
@pytest.mark.timeout(180)
def test_a_killed_jvm_is_replaced_by_one_that_runs_jobs(tmp_path) -> None:
    settings = SparkSettings(master="local[1]", workers=1)

    def start() -> Session:
        return start_or_reason("kept", [], settings, tmp_path / "spark.log")

    def threads() -> list[str]:
        return sorted(t.name for t in threading.enumerate() if "Thread-" not in t.name)

    before = threads()
    keeper = SessionKeeper(start, look_s=0.05, pause_s=0.1)
    try:
        first = keeper.current
        assert isinstance(first, ReplicaSession), str(first)
        assert first.ailing is None
        old = psutil.Process(first.jvm_pid)
        os.kill(old.pid, signal.SIGKILL)
        until(lambda: keeper.current is not first, "the death is seen")
        until(lambda: isinstance(keeper.current, ReplicaSession), "Spark is back", 120)
        second = keeper.current
        assert isinstance(second, ReplicaSession)
        assert second.jvm_pid != old.pid
        assert second.context.parallelize([1, 2, 3], 1).map(lambda x: x * 2).collect() == [2, 4, 6]
    finally:
        keeper.stop()
    until(lambda: threads() == before, "no thread is left")


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
