"""For whom `borealis fail source` waits. No broker."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from borealis_py.cli.commands.fail import _wait
from borealis_py.log.messages import Status
from tests.support.statuses import source, status

STATE: Any = SimpleNamespace(
    replicas=lambda: [("q", 0), ("q", 1)], runs=SimpleNamespace(node=lambda name: SimpleNamespace(inputs=("s",)))
)


class Statuses:
    """Those that each poll finds. A poll beyond them fails the test: nobody is waited for any more."""

    def __init__(self, *polls: list[Status]) -> None:
        self._polls: Iterator[list[Status]] = iter(polls)

    def poll(self) -> list[Status]:
        return next(self._polls)


def seen(*polls: list[Status]) -> list[tuple[str, int]]:
    reader: Any = Statuses(*polls)
    return _wait(STATE, ["s"], reader, 60.0)


LOST = (source("s", reachable=False),)


def test_all_replicas_that_read_it_are_waited_for() -> None:
    first = status(replica=0, inputs=LOST)
    assert seen([first], [status(replica=1)], [status(replica=1, inputs=LOST)]) == [("q", 0), ("q", 1)]


def test_a_standby_that_reads_nothing_is_not() -> None:
    idle = status(replica=1, state="STANDBY", inputs=())
    assert seen([idle], [status(replica=0)], [status(replica=0, inputs=LOST)]) == [("q", 0)]


def test_one_that_has_taken_over_meanwhile_is_named_too() -> None:
    idle, runs = status(replica=1, state="STANDBY", inputs=()), status(replica=1, inputs=LOST)
    assert seen([idle, runs, status(replica=0, inputs=LOST)]) == [("q", 0), ("q", 1)]
