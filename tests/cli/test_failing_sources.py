"""For whom `borealis fail source` waits. No broker."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from borealis_py.cli.commands.fail import _tell, _wait
from borealis_py.log.messages import Status
from tests.support.statuses import WALL_US, source, status

STATE: Any = SimpleNamespace(
    replicas=lambda: [("q", 0), ("q", 1)],
    runs=SimpleNamespace(node=lambda name: SimpleNamespace(inputs=("s.1",)), shown={"s.1": "s"}.get),
)


class Statuses:
    """Those that each poll finds. A poll beyond them fails the test: nobody is waited for any more."""

    def __init__(self, *polls: list[Status]) -> None:
        self._polls: Iterator[list[Status]] = iter(polls)

    def poll(self) -> list[Status]:
        return next(self._polls)


def seen(*polls: list[Status]) -> list[tuple[str, int]]:
    reader: Any = Statuses(*polls)
    found, _ = _wait(STATE, ["s.1"], reader, 60.0, WALL_US + 1)
    return found


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


def test_one_that_reports_after_the_end_is_waited_for_no_longer() -> None:
    """Of a drill that is shorter than a second a replica may report nothing; it is not a failure."""
    reader: Any = Statuses([status(replica=0)], [status(replica=0, at_wall_us=WALL_US + 1), status(replica=1)],
                           [status(replica=1, at_wall_us=WALL_US + 2)])  # fmt: skip
    assert _wait(STATE, ["s.1"], reader, 60.0, WALL_US + 1) == ([], True)


def test_one_that_stopped_has_not_outlasted_it() -> None:
    reader: Any = SimpleNamespace(poll=lambda: [status(event="STOPPED", at_wall_us=WALL_US + 2)])
    assert _wait(STATE, ["s.1"], reader, 0.3, WALL_US + 1) == ([], False)


def test_a_failure_that_is_over_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    app: Any = SimpleNamespace(name="a")
    _tell(app, "s", "300ms", [], WALL_US, json=False, outlasted=True)
    assert "the failure of s is written, 300ms long" in capsys.readouterr().err
    with pytest.raises(typer.Exit):
        _tell(app, "s", "300ms", [], WALL_US, json=False, outlasted=False)
    assert "is one running?" in capsys.readouterr().err
