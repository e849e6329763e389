"""One life of an application, with tasks that end as the test says: who starts again, who ends whom, what is said."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from borealis_py.app.supervisor import exit_codes
from borealis_py.log.topics import redo_feeds
from borealis_py.query.recovery import ACTIVE
from borealis_py.runtime import restarting as supervising
from borealis_py.runtime.spark import application as applying
from borealis_py.runtime.spark.application import Application
from borealis_py.runtime.spark.proxy_status import ProxyStatus
from borealis_py.runtime.spark.replica_task import NodeTask, TaskEnd, different
from borealis_py.runtime.spark.slot_monitor import SlotMonitor
from borealis_py.runtime.spark.slot_plan import SlotPlan, waiting
from reconcile.rpc import Shutdown, decode
from tests.harness.processes import ROOT
from tests.harness.waiting import PATIENCE_S, until
from tests.reconcile.rpc_log import RpcLog

Run = Callable[[], TaskEnd]


class Context:
    """As much of a SparkContext as runs tasks: `runs` by the name in the job group, one after the other."""

    def __init__(self, runs: dict[str, list[Run]]) -> None:
        self._runs = runs
        self._group = threading.local()
        self.stopped = False
        self.slots = 3

    _jsc = property(lambda self: self)

    def sc(self) -> Any:
        profiles = SimpleNamespace(defaultResourceProfile=lambda: None)
        return SimpleNamespace(
            isStopped=lambda: self.stopped,
            resourceProfileManager=lambda: profiles,
            maxNumConcurrentTasks=lambda profile: self.slots,
        )

    def statusTracker(self) -> Any:
        return SimpleNamespace(getJobIdsForGroup=lambda group: (), getActiveJobsIds=lambda: ())

    def setJobGroup(self, group: str, what: str, interrupt: bool) -> None:
        self._group.name = what.removeprefix("replica ")

    def parallelize(self, elements: list[bytes], count: int) -> Context:
        assert (len(elements), count) == (1, 1)
        return self

    def mapPartitions(self, function: object) -> Context:
        return self

    def collect(self) -> list[bytes]:
        return [msgspec.msgpack.encode(self._runs[self._group.name].pop(0)())]


class Session:
    """As much of a ReplicaSession."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.ailing: str | None = None
        self.ended = threading.Event()

    def warm_soon(self) -> None: ...

    def stop(self) -> None:
        self.ended.set()


class Life:
    """An application of nodes `p` and `q`."""

    def __init__(self, p: list[Run], q: list[Run]) -> None:
        self.rpc_log = RpcLog(*(redo_feeds("app", n, 0)[0] for n in "pq"))
        self.stop, self.ended = threading.Event(), dict[str, int]()
        self.said: list[tuple[list[str], str]] = []
        self.session = Session(Context({"p.r0": p, "q.r0": q}))
        tasks = [NodeTask(_Spec(n), "s", (), self.rpc_log) for n in "pq"]  # type: ignore[arg-type]
        plan = SlotPlan(tuple(t.name for t in tasks), 1, "local[3]")
        works = {"p": b"", "q": b""}
        session: Any = self.session
        log: Any = self.rpc_log
        notices, shortage = ProxyStatus([]), SlotMonitor(plan, 0.0)
        notices.stopped = lambda names, why: self.said.append((list(names), why))  # type: ignore[method-assign]
        self.application = Application(session, plan, tasks, works, log, self.stop, self.ended, shortage, notices)

    def told_to_stop(self, node: str) -> TaskEnd:
        """A task that runs until its driver tells it to stop, or Spark is ended."""
        _, answers = redo_feeds("app", node, 0)

        def told() -> bool:
            return any(isinstance(decode(v), Shutdown) for v in self.rpc_log.values(answers))

        until(lambda: told() or self.session.ended.is_set(), "a Shutdown")
        if not told():
            raise ConnectionResetError("Spark has ended")
        return TaskEnd()


class _Spec:
    """As much of a ReplicaSpec; travels as a task does."""

    app, replica, recovery = "app", 0, ACTIVE

    def __init__(self, query: str) -> None:
        self.node, self.name = query, f"{query}.r0"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "RESTART_S", 0.0)


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Run], list[Run]], Life]:
    monkeypatch.setattr(NodeTask, "pack", lambda self: b"")
    return Life


def dies() -> TaskEnd:
    raise EOFError("the worker was killed")


def test_a_task_that_dies_starts_again_and_a_stop_ends_all_by_message(life: Any) -> None:
    again = threading.Event()

    def second() -> TaskEnd:
        again.set()
        return it.told_to_stop("p")

    it = life([dies, lambda: TaskEnd("failed", "no broker"), second], [lambda: it.told_to_stop("q")])
    threading.Thread(target=lambda: again.wait(PATIENCE_S) and it.stop.set(), daemon=True).start()
    assert it.application.run() is None
    assert again.is_set()
    assert it.session.ended.is_set()
    assert it.ended == {}


@pytest.mark.parametrize(
    ("kind", "code"), [("superseded", exit_codes.SUPERSEDED.code), ("kernel", exit_codes.KERNEL.code)]
)
def test_what_concerns_the_process_ends_the_others_too(life: Any, kind: str, code: int) -> None:
    it = life([lambda: TaskEnd(kind, "because")], [lambda: it.told_to_stop("q")])
    assert it.application.run() is None
    assert it.ended == {"p.r0": code}
    assert it.stop.is_set()


def test_lost_records_end_one_query_and_the_others_go_on(life: Any) -> None:
    it = life([lambda: TaskEnd("retention", "gone")], [lambda: TaskEnd("lost", "gone"), lambda: it.told_to_stop("q")])

    def ended() -> bool:
        return bool(it.ended)

    threading.Thread(target=lambda: (until(ended, "one has ended"), it.stop.set()), daemon=True).start()
    assert it.application.run() is None
    assert it.ended == {"p.r0": exit_codes.LOST.code}


def test_with_nothing_left_to_run_the_application_ends(life: Any) -> None:
    gone = [lambda: TaskEnd("retention", "gone")]
    it = life(gone, list(gone))
    assert it.application.run() is None
    assert it.ended == {"p.r0": exit_codes.LOST.code, "q.r0": exit_codes.LOST.code}


@pytest.mark.parametrize("stopped", [False, True])
def test_a_session_that_failed_is_told_and_its_tasks_do_not_start_again(life: Any, stopped: bool) -> None:
    it = life([lambda: it.told_to_stop("p")], [lambda: it.told_to_stop("q")])
    it.session.context.stopped = stopped
    it.session.ailing = None if stopped else "Spark's JVM has ended or was killed"
    why = it.application.run()
    assert why == ("Spark has stopped the application" if stopped else "Spark's JVM has ended or was killed")
    assert it.ended == {}
    assert not it.stop.is_set()


def test_for_want_of_slots_it_ends_in_order_and_says_for_whom(life: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`p` runs and is told to stop; `q` waits for a slot until Spark is ended."""

    def never() -> TaskEnd:
        it.session.ended.wait(PATIENCE_S)
        raise EOFError("Spark has ended")

    it = life([lambda: it.told_to_stop("p")], [never])
    it.session.context.slots = 1
    monkeypatch.setattr(applying, "waiting", lambda context, group: group.startswith("replica q.r0"))
    monkeypatch.setattr(Application, "_free", lambda self: 2)
    monkeypatch.setattr(applying, "STOP_S", 1.0)
    why = it.application.run()
    assert why is not None
    assert why.startswith("q.r0 cannot run for want of slots: the application asked for 3 slots")
    assert it.said == [(["q.r0"], why)]
    assert it.ended == {}
    assert not it.stop.is_set()


@pytest.mark.parametrize(
    ("jobs", "active", "running", "waits"),
    [((), (), 0, False), ((1,), (1,), 0, True), ((1,), (1,), 1, False), ((1,), (), 0, False), ((1, 2), (2,), 0, True)],
)
def test_a_task_waits_while_its_job_is_active_and_runs_nowhere(
    jobs: tuple[int, ...], active: tuple[int, ...], running: int, waits: bool
) -> None:
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: jobs,
        getActiveJobsIds=lambda: active,
        getJobInfo=lambda job: SimpleNamespace(stageIds=[10 * job]),
        getStageInfo=lambda stage: SimpleNamespace(numActiveTasks=running),
    )
    assert waiting(SimpleNamespace(statusTracker=lambda: tracker), "group") == waits


def test_a_worker_that_computes_other_bits_says_what_is_different() -> None:
    driver, worker = {"DuckDB": "1.5.6", "self-test": "ab"}, {"DuckDB": "1.5.4", "self-test": "ab"}
    said = different(driver.items(), worker, "w1")
    assert said == "The worker on w1 has others: DuckDB 1.5.4, described with 1.5.6"
    assert "another version of borealis-py" in different(driver.items(), driver, "w1")


SPEAKS = """
import os, sys
from borealis_py.runtime.spark.driver import _shared_log
from borealis_py.runtime.spark.replica_task import _say_where_the_driver_says
path = _shared_log()
sys.stderr.write("driver ")
sys.stderr.flush()
if os.fork() == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    _say_where_the_driver_says(path)
    os.write(2, b"task ")
    _say_where_the_driver_says("/nowhere")
    os.write(2, b"task ")
    os._exit(0)
os.wait()
os.write(2, b"driver")
"""


@pytest.mark.parametrize("pipe", [False, True])
def test_tasks_on_this_machine_write_where_their_driver_writes(pipe: bool, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SPEAKS]
    if pipe:
        said = subprocess.run(command, stderr=subprocess.PIPE, check=True, cwd=ROOT).stderr
    else:
        with (tmp_path / "log").open("wb") as file:
            subprocess.run(command, stderr=file, check=True, cwd=ROOT)
        said = (tmp_path / "log").read_bytes()
    assert said == b"driver task task driver"


def test_what_a_task_is_told_travels(tmp_path: Path) -> None:
    task = NodeTask(_Spec("q"), "s", ("f",), None, "log")  # type: ignore[arg-type]
    assert task.name == "q.r0"
    assert len(task.pack()) > 0
