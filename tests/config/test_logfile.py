"""A log that several processes append to is turned over once, and no line of it is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from borealis_py.config import logfile
from borealis_py.config.logfile import KEPT_FILES, follow, opened
from tests.harness.processes import ROOT
from tests.harness.waiting import PATIENCE_S

LIMIT = 100


def write(handle: int, text: str) -> None:
    os.write(handle, text.encode())


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_what_is_there_is_kept_and_too_much_is_turned_over(tmp_path: Path) -> None:
    path = str(tmp_path / "x.log")
    for k in range(KEPT_FILES + 3):
        handle = opened(path, LIMIT)
        write(handle, f"{k}" * 60)
        os.close(handle)
        handle = opened(path, LIMIT)
        write(handle, f"{k}" * 60)
        os.close(handle)
    assert names(tmp_path) == ["x.log", *(f"x.log.{k}" for k in range(1, KEPT_FILES + 1))]
    kept = [(tmp_path / name).read_text() for name in names(tmp_path)]
    assert kept == [f"{k}" * 120 for k in (5, 4, 3, 2)]


def test_a_handle_follows_the_name_whoever_turned_it_over(tmp_path: Path) -> None:
    path = str(tmp_path / "x.log")
    mine, others = opened(path, LIMIT), opened(path, LIMIT)
    write(mine, "a" * LIMIT)
    follow(path, (mine,), LIMIT)
    write(others, "late ")  # not lost: it goes where the name was
    follow(path, (others,), LIMIT)
    write(others, "b")
    write(mine, "c")
    assert (tmp_path / "x.log").read_text() == "bc"
    assert (tmp_path / "x.log.1").read_text() == "a" * LIMIT + "late "
    assert names(tmp_path) == ["x.log", "x.log.1"]  # turned over once
    for handle in (mine, others):
        os.close(handle)


def test_a_directory_that_is_gone_is_nobodys_error(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    path = str(tmp_path / "app" / "x.log")
    handle = opened(path, LIMIT)
    os.unlink(path)
    (tmp_path / "app").rmdir()
    follow(path, (handle,), LIMIT)
    write(handle, "goes on")
    os.close(handle)
    assert not (tmp_path / "app").exists()


SPEAKS = """
import sys
from borealis_py.config import logfile
logfile.follow.__defaults__ = (int(sys.argv[3]),)
from borealis_py.config.logs import configure_logs
import structlog
configure_logs(file=sys.argv[1])
for k in range(200):
    structlog.get_logger("x").info("line", number=k, by=sys.argv[2])
print("printed to standard output")
"""


@pytest.mark.parametrize(("writers", "limit", "all_kept"), [(1, 2_000, False), (3, 24_000, True)])
def test_processes_that_share_a_log_lose_no_line_but_the_oldest(
    writers: int, limit: int, all_kept: bool, tmp_path: Path
) -> None:
    """The driver and its tasks. What is still there is the end of what each said, without a hole."""
    path = tmp_path / "x.log"
    started = []
    for k in range(writers):
        handle = opened(str(path))
        command = [sys.executable, "-c", SPEAKS, str(path), str(k), str(limit)]
        started.append(subprocess.Popen(command, stdout=handle, stderr=handle, cwd=ROOT))
        os.close(handle)
    assert [process.wait(PATIENCE_S) for process in started] == [0] * writers
    files = sorted(tmp_path.iterdir(), reverse=True)  # oldest first: .3 .2 .1, and the newest without a number
    assert len(files) == KEPT_FILES + (0 if all_kept else 1)
    text = "".join(f.read_text() for f in files)
    assert text.count("printed to standard output") == writers
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    for k in range(writers):
        said = [line["number"] for line in lines if line["by"] == str(k)]
        assert sorted(said) == list(range(200 - len(said), 200))
        assert (len(said) == 200) is all_kept
    assert all(f.stat().st_size < limit + 500 * writers for f in files)


def test_how_much_is_kept_is_what_the_documents_say() -> None:
    assert (logfile.KEPT_BYTES, logfile.KEPT_FILES) == (10_000_000, 3)
