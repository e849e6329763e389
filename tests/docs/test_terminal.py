"""The terminal in which pages run."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from borealis_py.kafka.process_end import is_over
from tests.docs.terminal import Terminal


def test_a_terminal_keeps_functions_files_and_jobs_and_leaves_nothing_running(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        assert terminal.run("pwd; ls -A; ls -A $HOME") == (0, f"{terminal.here}\n")
        assert terminal.run("twice() { echo $1 $1; }\nsleep 600 & echo $! > job") == (0, "")
        terminal.save("port.txt", "localhost:9092\n")
        assert terminal.run("twice tea; cat port.txt; false") == (1, f"tea tea\nlocalhost:{terminal.own['9092']}\n")
        assert terminal.run_until_shown("echo >> looks; wc -l < looks", "3") == "3\n"
        job = psutil.Process(int((terminal.here / "job").read_text()))
    assert is_over(job)


def test_a_command_that_goes_on_gets_ctrl_c_once_it_has_printed_what_is_shown(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        begun = terminal.begin("echo one; sleep 0.3; echo two; sleep 600", "one\ntwo")
        assert terminal.interrupt(begun) == "one\ntwo\n"
        assert begun.process.returncode


def test_the_shell_finds_this_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOREALIS_DATA_DIR", "/nowhere")
    with Terminal(tmp_path) as terminal:
        code, printed = terminal.run("borealis --version; python -c 'import borealis_py, os; print(*os.environ)'")
        assert code == 0
        assert printed.startswith("borealis-py ")
        assert "BOREALIS_DATA_DIR" not in printed
        assert str(terminal.here) != os.getcwd()
