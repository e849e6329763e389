"""A run of the tests: what was red, what is run again, what was measured, and that Ctrl-C ends it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tests.harness.running import PATIENCE_S, until
from tests.tiers import reruns
from tests.tiers.plugin import ROOT
from tests.tiers.stages import Ended, Stage, run

CONFTEST = """
from tests.tiers import plugin
from tests.tiers.plugin import pytest_runtest_makereport, pytest_runtest_protocol

def pytest_configure(config):
    plugin.register(config)
"""
TESTS = {
    "test_starved.py": """
from pathlib import Path

def test_it():
    once = Path(__file__).with_name("once")
    red, _ = not once.exists(), once.touch()
    assert not red
""",
    "test_wrong.py": """
from tests.support.right import WrongDataError

def test_it():
    raise WrongDataError("a row is missing")
""",
    "test_busy.py": """
import time

def test_it():
    began = time.process_time()
    while time.process_time() < began + 0.2:
        pass

def test_other():
    pass
""",
}
MEET = """
import sys, time
from pathlib import Path

Path(sys.argv[1]).touch()
while not Path(sys.argv[2]).exists():
    time.sleep(0.01)
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, text in {"conftest.py": CONFTEST, "pytest.ini": "[pytest]", **TESTS}.items():
        (folder / name).write_text(text)
    return folder


def stage(files: Path, *names: str, tier: str = "broker") -> Stage:
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(files))
    return Stage("some", (*argv, "-c", str(files / "pytest.ini"), *(str(files / name) for name in names)), tier)


def run_one(stage: Stage, tmp_path: Path) -> tuple[Ended, str]:
    printed = io.StringIO()
    (ended,) = run([[stage]], tmp_path, Console(file=printed, width=200))
    return ended, printed.getvalue()


@pytest.fixture(autouse=True)
def from_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_a_red_file_is_run_again_and_may_be_green_then(files: Path, tmp_path: Path) -> None:
    first, printed = run_one(stage(files, "test_starved.py", "test_busy.py"), tmp_path)
    assert (first.code, first.red) == (1, {"test_starved.py": False})
    assert "FAILED" in printed
    assert "assert not red" in printed
    assert reruns.files(first) == ["test_starved.py"]
    second, printed = run_one(stage(files, "test_starved.py"), tmp_path)
    assert (second.code, second.red, reruns.files(second)) == (0, {}, [])
    assert printed.splitlines()[-1].startswith("1 passed in ")


def test_neither_wrong_data_nor_pure_tests_are_run_again(files: Path, tmp_path: Path) -> None:
    ended, _ = run_one(stage(files, "test_wrong.py", "test_starved.py"), tmp_path)
    assert ended.red == {"test_wrong.py": True, "test_starved.py": False}
    assert reruns.files(ended) == []
    (files / "once").unlink()
    assert reruns.files(run_one(stage(files, "test_starved.py", tier="pure"), tmp_path)[0]) == []


def test_what_tests_take_is_measured(files: Path, tmp_path: Path) -> None:
    ended, _ = run_one(stage(files, "test_busy.py"), tmp_path)
    taken = ended.taken["test_busy.py"]["pure"]
    assert taken.cpu_s >= taken.longest_s >= 0.2
    assert taken.slow_cpu_s == 0


def test_what_did_not_get_to_its_tests_is_red_and_not_run_again(files: Path, tmp_path: Path) -> None:
    (files / "test_busy.py").write_text("import nothing_of_the_kind")
    ended, printed = run_one(stage(files, "test_busy.py"), tmp_path)
    assert ended.code == 2
    assert "nothing_of_the_kind" in printed
    assert reruns.files(ended) == []


def test_stages_of_lanes_run_beside_each_other_and_all_to_their_end(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", MEET)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    lanes = [[Stage("red", (sys.executable, "-c", "exit(3)")), Stage("a", (*argv, a, b))], [Stage("b", (*argv, b, a))]]
    ended = run(lanes, tmp_path, Console(file=io.StringIO()))
    assert [(one.stage.name, one.code) for one in ended] == [("red", 3), ("a", 0), ("b", 0)]


INTERRUPTED = """
import io, sys
from pathlib import Path
from rich.console import Console
from tests.tiers.stages import Stage, run

scratch = Path(sys.argv[1])
child = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)"
long = Stage("long", (sys.executable, "-c", child, str(scratch / "child")))
run([[long, Stage("next", ("touch", str(scratch / "next")))]], scratch, Console(file=io.StringIO()))
"""


def test_ctrl_c_ends_what_runs_and_begins_nothing_else(tmp_path: Path) -> None:
    child = tmp_path / "child"
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(tmp_path)], cwd=ROOT, start_new_session=True)
    try:
        until(lambda: child.exists() and child.read_text() != "", "the stage runs")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(PATIENCE_S) != 0
        assert not psutil.pid_exists(int(child.read_text()))
        assert not (tmp_path / "next").exists()
    finally:
        process.kill()


def test_a_file_that_needs_it_often_is_red(tmp_path: Path) -> None:
    ledger = tmp_path / "cache" / "reruns.jsonl"
    assert reruns.note(["a"], ledger) == reruns.note(["a", "b"], ledger) == []
    for _ in range(reruns.RUNS - 3):
        assert reruns.note([], ledger) == []
    assert reruns.note(["a", "b"], ledger) == ["a"]
    assert reruns.note(["b"], ledger) == ["b"]
    for _ in range(reruns.RUNS):
        reruns.note([], ledger)
    assert reruns.note(["a", "b"], ledger) == []


def test_what_is_asserted_about_data_is_not_run_again(files: Path, tmp_path: Path) -> None:
    (files / "test_wrong.py").write_text(
        "from tests.support.right import exactly\n\n@exactly()\ndef test_it(tmp_path):\n    assert 1 == 2, tmp_path\n"
    )
    ended, printed = run_one(stage(files, "test_wrong.py"), tmp_path)
    assert ended.red == {"test_wrong.py": True}
    assert "assert 1 == 2" in printed
