"""Ctrl-C ends a run of tests, whatever the test made of it, and no run leaves anything running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.harness.waiting import PATIENCE_S, until
from tests.support.whole_run import MARK, end, started_in

ROOT = Path(__file__).parents[2]
INTERRUPTED = 2
TESTS = """
import subprocess, threading, time
from pathlib import Path
from tests.support import whole_run
from tests.harness.waiting import until

def test_takes_it_for_its_own_end():
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path("begun").touch()
    try:
        threading.Event().wait(100)
    except KeyboardInterrupt:
        pass

def test_that_comes_next():
    Path("came next").touch()
"""
CONFTEST = """
from tests.support import whole_run

def pytest_configure(config):
    whole_run.register(config)
"""


class Runs:
    """Runs tests in process groups of their own."""

    def __init__(self, directory: Path) -> None:
        self._mark = f"{os.environ[MARK]}/{uuid.uuid4().hex}"  # workers give their directories the same names
        self._output = directory / "said"
        self._begun: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str, there: Path = ROOT) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), MARK: self._mark}
        with self._output.open("w") as output:
            process = subprocess.Popen(
                command, cwd=there, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        self._begun.append(process)
        return process

    @property
    def said(self) -> str:
        return self._output.read_text()

    def started(self) -> list[psutil.Process]:
        """What still runs of all that was started."""
        return started_in(self._mark)

    def close(self) -> None:
        end(self.started())
        for process in self._begun:
            process.wait()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    made.close()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A directory with two tests, the first of which leaves a process, and catches Ctrl-C."""
    there = tmp_path / "small"
    there.mkdir()
    (there / "test_small.py").write_text(TESTS)
    (there / "conftest.py").write_text(CONFTEST)
    (there / "pytest.ini").write_text("[pytest]\n")
    return there


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "worker"])
def test_a_test_that_catches_ctrl_c_is_the_last_one_and_what_it_left_is_ended(
    runs: Runs, small: Path, workers: tuple[str, ...], number: signal.Signals
) -> None:
    process = runs.start(*workers, there=small)
    until((small / "begun").exists, "the test has begun")
    os.killpg(process.pid, number)
    assert process.wait(PATIENCE_S) == INTERRUPTED, runs.said
    assert not (small / "came next").exists()
    assert re.search(r"left running by the tests, ended now: pid \d+: sleep 600", runs.said)
    assert runs.started() == []


def test_what_a_run_that_was_not_interrupted_leaves_is_ended_too(runs: Runs, small: Path) -> None:
    (small / "test_small.py").write_text(TESTS.replace("wait(100)", "wait(0)"))
    assert runs.start(there=small).wait(PATIENCE_S) == 0, runs.said
    assert (small / "came next").exists()
    assert "ended now: pid" in runs.said
    assert runs.started() == []


@pytest.mark.broker
def test_ctrl_c_in_the_middle_of_up_ends_the_run_its_apps_and_its_broker(runs: Runs) -> None:
    process = runs.start("tests/cli/test_with_broker.py")

    def starts() -> bool:
        assert process.poll() is None, runs.said
        commands = []
        for one in runs.started():
            with suppress(psutil.Error):
                commands.append(" ".join(one.cmdline()))
        return any("borealis_py.runtime" in command for command in commands)

    until(starts, "a replica starts", 2 * PATIENCE_S)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE_S) == INTERRUPTED, runs.said
    assert runs.started() == []
    assert "ended now" not in runs.said, "its fixtures have ended all"
