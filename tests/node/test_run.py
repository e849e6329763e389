"""When records are gone: another start where it may help, the end where it cannot. What no start looks through."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from borealis_py.log.base import LogUnreachable
from borealis_py.log.progress import ProgressLost
from borealis_py.node import run
from borealis_py.node.checkpoint_storage import LocalLocation
from borealis_py.node.run import LostWhileRunning, SetAside, run_replica
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.unpublished import NeverPublished
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.states import ReplicaState
from borealis_py.query.recovery import ACTIVE
from borealis_py.simulation.toy_query import ToyKernel
from sunion.errors import RetentionLost
from tests.harness.waiting import PATIENCE_S
from tests.support.instant_log import InstantLog


class Losing:
    """Stands for a replica in a state whose next turn finds its records gone. `closed`: why it said that it ended."""

    def __init__(self, state: ReplicaState, lost: RetentionLost | None = None) -> None:
        self.manager = SimpleNamespace(state=state)
        self.lost = lost or RetentionLost("bucket 7 is gone")
        self.closed = ""

    def turn(self) -> None:
        raise self.lost

    def pulse(self) -> None:
        """A loaded machine may come to this before the turn."""

    def close(self, why: str) -> None:
        self.closed = why


@pytest.fixture(autouse=True)
def as_the_file_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting has changed how the node recovers; `test_recovery_setting.py` reads such settings.

    Nor is garbage collected, among all that the other tests have loaded.
    """
    monkeypatch.setattr(run, "_as_set", lambda spec: spec)
    monkeypatch.setattr(run, "_set_aside", Mock())


def spec_at(directory: Path, gap: bool = False) -> Any:
    return SimpleNamespace(
        recovery=ACTIVE,
        checkpoints=LocalLocation(directory),
        query_hash="",
        log=None,
        bucket_us=100_000,
        timing=Timing(),
        trimming=None,
        gap=gap,
    )


def start(replica: Any, directory: Path, monkeypatch: pytest.MonkeyPatch, gap: bool = False, **how: Any) -> None:
    nothing: Any = SimpleNamespace(close=lambda: None, why_inline=lambda: "")
    spec: Any = spec_at(directory, gap)
    monkeypatch.setattr(run, "Replica", lambda **of: replica)
    run_replica(spec, lambda: nothing, lambda kernel, wake, peer: nothing, threading.Event(), "uid", **how)


@pytest.mark.parametrize("state", [s for s in ReplicaState if s is not ReplicaState.RECOVERING])
def test_a_replica_that_was_ready_may_start_again(
    state: ReplicaState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = Losing(state)
    with pytest.raises(LostWhileRunning, match="bucket 7 is gone"):
        start(replica, tmp_path, monkeypatch)
    assert replica.closed == "bucket 7 is gone"


def test_one_that_never_became_ready_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Losing(ReplicaState.RECOVERING)
    with pytest.raises(RetentionLost, match="bucket 7 is gone"):
        start(replica, tmp_path, monkeypatch)
    assert replica.closed == "bucket 7 is gone"


def test_one_that_names_what_it_lacks_may_start_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`guarantee="gap"`: another start begins with what the log still holds."""
    with pytest.raises(LostWhileRunning, match="bucket 7 is gone"):
        start(Losing(ReplicaState.RECOVERING), tmp_path, monkeypatch, gap=True)


def test_one_that_moves_may_start_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was away while what it reads was deleted: its former incarnation runs, and writes newer checkpoints."""
    monkeypatch.setattr(run, "may_move", lambda spec: True)
    with pytest.raises(LostWhileRunning, match="bucket 7 is gone"):
        start(Losing(ReplicaState.RECOVERING), tmp_path, monkeypatch, moves=True)


@pytest.mark.parametrize("lost", [NeverPublished, ProgressLost])
@pytest.mark.parametrize("gap", [False, True])
def test_one_that_could_never_publish_again_ends_in_any_state(
    lost: type[RetentionLost], gap: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = Losing(ReplicaState.STABLE, lost("buckets 3 to 7 are gone"))
    with pytest.raises(lost, match="buckets 3 to 7 are gone"):
        start(replica, tmp_path, monkeypatch, gap)


class Busy(Losing):
    """Its one turn lasts until its heart has beaten beside it."""

    def __init__(self) -> None:
        super().__init__(ReplicaState.STABLE)
        self.beaten = threading.Event()

    def turn(self) -> None:
        assert self.beaten.wait(PATIENCE_S)
        super().turn()

    def pulse(self) -> None:
        self.beaten.set()

    def close(self, why: str) -> None:
        super().close(why)
        assert not [t for t in threading.enumerate() if t.name == "pulse"], "nothing is said behind the last word"


def test_a_heart_beats_while_a_turn_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Busy()
    with pytest.raises(LostWhileRunning):
        start(replica, tmp_path, monkeypatch)
    assert replica.closed


class Once(Losing):
    """Its first turn leaves it nothing to do for 3 s, the second finds its records gone."""

    def __init__(self) -> None:
        super().__init__(ReplicaState.STABLE)
        self.turns = 0

    def turn(self) -> None:
        self.turns += 1
        if self.turns > 1:
            super().turn()

    def next_wakeup(self) -> int:
        return 8_000_000


def test_it_sleeps_until_the_next_turn_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Woken(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            return True

    nothing: Any = SimpleNamespace(close=lambda: None, why_inline=lambda: "")
    monkeypatch.setattr(run, "Replica", lambda **of: Once())
    monkeypatch.setattr(run, "repeating", lambda *args: nullcontext())
    monkeypatch.setattr(run, "threading", SimpleNamespace(Event=Woken))
    spec: Any = spec_at(tmp_path)
    clock: Any = SimpleNamespace(now_us=lambda: 5_000_000)
    with pytest.raises(LostWhileRunning):
        run_replica(spec, lambda: nothing, lambda *args: nothing, threading.Event(), "uid", clock)
    assert waits == [3.0]


def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    """It is tried every second while there is no broker: what each left would be the end of the process."""
    log, closed = InstantLog(), []
    log.cut()
    spec: Any = ReplicaSpec(
        app="app", app_uid="a1", node="n", replica=1, inputs=(), bucket_us=100_000, origin=0, partition=0,
        query_hash="", app_json="", delays={}, log=log, data_dir=tmp_path, timing=Timing(), serves=(), position=1,
        corrected=False,
    )  # fmt: skip
    kernel = ToyKernel(100_000, 1)
    redos: Any = SimpleNamespace(close=lambda: closed.append("redos"), why_inline=lambda: "")
    threads = threading.active_count()
    with pytest.raises(LogUnreachable):
        run_replica(spec, lambda: kernel, lambda kernel, wake, peer: redos, threading.Event(), "uid")
    assert log.unclosed == 0
    assert closed == ["redos"]
    assert threading.active_count() == threads


def test_redos_that_cannot_be_had_leave_nothing_open(tmp_path: Path) -> None:
    spec: Any = spec_at(tmp_path)
    closed: list[str] = []
    kernel: Any = SimpleNamespace(close=lambda: closed.append("kernel"))
    threads = threading.active_count()

    def refuse(*_: object) -> Any:
        raise LogUnreachable("no broker")

    with pytest.raises(LogUnreachable):
        run_replica(spec, lambda: kernel, refuse, threading.Event(), "uid")
    assert closed == ["kernel"]
    assert threading.active_count() == threads


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.me = self


def test_what_a_worker_was_forked_with_is_not_looked_through_before_there_is_garbage_of_an_incarnation() -> None:
    gc.collect()
    inherited = weakref.ref(Cycle())
    gc.freeze()
    set_aside = SetAside()
    try:
        set_aside()
        assert inherited() is not None
        left = weakref.ref(Cycle())
        set_aside()  # for another replica of the process
        assert inherited() is not None
        set_aside.ended()
        set_aside()
        assert left() is None
        assert inherited() is None
    finally:
        gc.unfreeze()
