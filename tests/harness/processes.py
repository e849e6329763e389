"""Processes that the harness starts: their output and their end; and processes found by what they inherited."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from borealis_py.kafka.process_end import is_over

ROOT = Path(__file__).parents[2]
PROCESS = "borealis_py.runtime.process"
"""The module that `borealis up` and `borealis replica` start."""


@dataclass
class Process:
    """One that we started, and its output. `may_end`: it is not an error of its own if it does."""

    popen: subprocess.Popen[bytes]
    output: Path
    may_end: bool = False

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """kill -9, children too."""
        self.may_end = True
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.popen.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        self.popen.kill()
        self.popen.wait()

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace")


def spawn(module: str, arguments: Sequence[str], output: Path, environment: Mapping[str, str] | None = None) -> Process:
    """`python -m module arguments`, in a session of its own; what it says goes into `output`.

    `environment`: added to that of this process.
    """
    with output.open("wb") as file:
        popen = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=ROOT,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        )
    return Process(popen, output)


def inheriting(variable: str, value: str) -> list[psutil.Process]:
    """The other running processes with this environment variable, whoever their parent is now."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # gone meanwhile, or somebody else's
            if process.pid != os.getpid() and not is_over(process) and process.environ().get(variable) == value:
                found.append(process)
    return found
