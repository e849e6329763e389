"""A driver and a task whose log refuses a call leave no client open: both are started again."""

from __future__ import annotations

import pytest

from borealis_py.log.base import Feed
from borealis_py.log.clock import SystemClock
from borealis_py.simulation.toy_query import ToyKernel
from reconcile.redo_client import RemoteRedo, TaskAddress
from reconcile.redo_server import RedoServer, TaskChannel
from tests.support.instant_log import InstantBroker, InstantLog
from tests.support.refusing_log import RefusingLog, open_after_refusals

REQUESTS, RESPONSES = Feed("rpc", 0), Feed("rpc", 1)


class NoSlots:
    """Runs nothing."""

    def execute(self, handle: int, node: str, packed: bytes) -> None:
        raise NotImplementedError

    def cancel(self, handle: int) -> None:
        raise NotImplementedError

    def take_finished(self) -> list[tuple[int, bytes | str]]:
        return []


@pytest.fixture
def log() -> RefusingLog:
    broker = InstantBroker()
    InstantLog(broker).create([REQUESTS.topic], partitions=2)
    return RefusingLog(broker)


def test_a_task_that_cannot_begin_leaves_no_client_open(log: RefusingLog) -> None:
    address, clock = TaskAddress("s", "u", REQUESTS, RESPONSES), SystemClock()
    left = open_after_refusals(log, lambda: RemoteRedo(log, address, ToyKernel(100_000, 1), lambda: None, clock, 2.5))
    assert len(left) > 3
    assert not any(left)


def test_a_driver_that_cannot_begin_leaves_no_client_open(log: RefusingLog) -> None:
    channels, clock = [TaskChannel("q", REQUESTS, RESPONSES)], SystemClock()
    left = open_after_refusals(log, lambda: RedoServer(log, channels, "s", NoSlots(), 1, lambda: None, clock))
    assert len(left) > 3
    assert not any(left)
