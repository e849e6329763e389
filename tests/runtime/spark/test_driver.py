"""A driver starts an application again for as long as it takes; one that cannot start at first says why and ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.supervisor import exit_codes
from borealis_py.log.base import LogUnreachable
from borealis_py.runtime.spark import driver as driving
from borealis_py.runtime.spark.driver import DriverFiles, SparkDriver
from borealis_py.runtime.spark.session import SparkUnavailable


class Driver(SparkDriver):
    """Its applications are scripted: each is an error at its start, or what `run` gives; then comes a stop."""

    def __init__(self, *lives: Any) -> None:
        super().__init__([], ProcessSpec("nowhere:1", Path(), host="spark", redo_slots=1), (), DriverFiles(Path()))
        self.lives = list(lives)
        self.again: list[bool] = []

    def _start(self, again: bool) -> Any:
        self.again.append(again)
        life = self.lives.pop(0)
        if isinstance(life, Exception):
            raise life
        return SimpleNamespace(run=lambda: life)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "PAUSE_S", 0.0)


@pytest.mark.parametrize("why", [SparkUnavailable("no Java"), LogUnreachable("no broker")])
def test_what_stands_in_the_way_of_the_first_start_is_told(why: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    it = Driver(why, None)
    assert it.run() == exit_codes.FAILED.code
    assert it.lives == [None]
    assert f"{why}. --host process runs them without Spark" in "".join(capsys.readouterr())


def test_one_that_died_is_started_until_it_comes() -> None:
    it = Driver("the JVM was killed", SparkUnavailable("not yet"), LogUnreachable("nor now"), "killed again", None)
    assert it.run() == 0
    assert it.lives == []
    assert it.again == [False, True, True, True, True]


def test_the_code_tells_of_a_query_that_ended_for_good() -> None:
    it = Driver(None)
    it._ended["q.r0"] = exit_codes.LOST.code
    assert it.run() == exit_codes.LOST.code


def test_a_stop_before_the_start_starts_nothing() -> None:
    it = Driver()
    it.stop.set()
    assert it.run() == 0
