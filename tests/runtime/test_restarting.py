"""A replica is started again until it cannot go on, and then it is said why."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
import structlog

from borealis_py.app.supervisor import exit_codes
from borealis_py.log.base import Feed, LogError
from borealis_py.log.record_size import RecordTooLarge, too_large
from borealis_py.node.endings import Superseded
from borealis_py.node.run import LostWhileRunning
from borealis_py.node.spec import ReplicaSpec
from borealis_py.runtime import restarting as supervising
from borealis_py.runtime.ends import KernelDiffers
from borealis_py.runtime.restarting import TaskDied, supervise
from sunion.errors import EngineOutOfMemory, RetentionLost


class Spec:
    node, replica = "q", 0


SPEC = cast(ReplicaSpec, Spec())


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "RESTART_S", 0.0)


def after(*ends: BaseException) -> Any:
    """Runs that end like this, one after the other."""
    left = list(ends)

    def run() -> None:
        raise left.pop(0)

    return run


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (Superseded("newer"), exit_codes.SUPERSEDED.code),
        (EngineOutOfMemory("16 MiB used"), exit_codes.OUT_OF_MEMORY.code),
        (RetentionLost("gone"), exit_codes.LOST.code),
        (KernelDiffers("other bits"), exit_codes.KERNEL.code),
    ],
)
def test_it_starts_again_until_it_cannot_go_on(last: BaseException, code: int) -> None:
    run = after(LogError("refused"), LostWhileRunning("gone"), ValueError("a bug"), TaskDied("killed"), last)
    assert supervise(run, SPEC, threading.Event()) == code


def refused(topic: str, size: int) -> RecordTooLarge:
    return RecordTooLarge(too_large(Feed(topic), 1_000, size))


def test_a_record_that_is_refused_twice_for_its_size_ends_it_by_name() -> None:
    run = after(refused("a.q", 9_000_000), refused("a.q.r0", 9_000_000), LogError("away"), refused("a.q.r0", 9_000_001))
    with structlog.testing.capture_logs() as lines:
        assert supervise(run, SPEC, threading.Event()) == exit_codes.TOO_LARGE.code
    assert exit_codes.TOO_LARGE.final
    for part in ("topic a.q.r0", "9000001 bytes", "max.message.bytes", "row_max"):
        assert part in lines[-1]["why"], "people are told what to set"


def test_a_stop_ends_it_in_order() -> None:
    stop = threading.Event()
    assert supervise(stop.set, SPEC, stop) == 0


def test_a_task_that_was_ended_with_the_rest_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()

    def run() -> None:
        stop.set()
        raise TaskDied("Spark's JVM does not answer")

    assert supervise(run, SPEC, stop) == 0
    assert "failed" not in "".join(capsys.readouterr())
