"""A terminal for the commands of a page: one shell in an empty directory, so that functions and jobs of it stay."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from borealis_py.kafka import cache
from borealis_py.kafka.broker import free_port
from tests.docs.output import alike
from tests.harness.processes import inheriting
from tests.harness.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
PAGE_PORT = "9092"
"""Where pages have the broker. A test has its own, so that two of them, or a broker of yours, do not meet."""
STEP_S = 180.0
"""How long one command may take: `up` starts Spark."""
LOOK_S = 0.2
BOREALIS = """#!/bin/sh
if [ "$1 $2" = "broker up" ]; then set -- "$@" --port {port}; fi
exec {python} -m borealis_py.cli.main "$@"
"""
PYTHON = """#!/bin/sh
exec {python} "$@"
"""


@dataclass(frozen=True)
class Running:
    """A command in a second terminal, what the page shows of it, and the file that it prints to."""

    shown: str
    process: subprocess.Popen[bytes]
    output: Path


class Terminal:
    """A shell in an empty directory, with an empty HOME and `borealis` on PATH.

    At its end nothing runs that was started from it.

    Args:
        code: what holds the packages: the checkout, or what a wheel installs.
    """

    def __init__(self, directory: Path, code: Path = ROOT) -> None:
        self.here = directory / "here"
        self._home, self._output, programs = directory / "home", directory / "output", directory / "bin"
        for made in (self.here, self._home, self._output, programs):
            made.mkdir()
        self._port = str(free_port())
        for name, text in (("borealis", BOREALIS), ("python", PYTHON)):
            (programs / name).write_text(text.format(port=self._port, python=shlex.quote(sys.executable)))
            (programs / name).chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("BOREALIS_")}
        self._environment = kept | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(self._home),
            "XDG_CACHE_HOME": str(cache.root().parent),  # Kafka's jars, which are fetched once
            "PYTHONPATH": str(code),
            "BOREALIS_BOOTSTRAP": f"127.0.0.1:{self._port}",
        }
        self._shell = self._start(["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE)
        self._count = 0
        self.own = {PAGE_PORT: self._port}
        """What stands here for a number of the page: the broker's port, process ids."""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        try:
            started = (self.here / ".borealis").exists()
            for command in ("borealis down", "borealis broker down") if started else ():
                subprocess.run(command.split(), **self._place(), capture_output=True, timeout=STEP_S, check=False)
        finally:
            for process in self._left():
                process.kill()
            psutil.wait_procs(self._left(), timeout=PATIENCE_S)
            self._shell.wait()

    def save(self, name: str, text: str) -> None:
        """Write a file, as the page has it."""
        (self.here / name).write_text(self._ported(text))

    def run(self, command: str) -> tuple[int, str]:
        """One command, or several, in the shell: exit code, and what it printed on both outputs."""
        output, done = self._file("out"), self._file("done")
        lines = (
            f"{{ {self._ported(command)}\n}} </dev/null >{output} 2>&1",
            f"echo $? >{done}.part; mv {done}.part {done}\n",
        )
        assert self._shell.stdin is not None
        self._shell.stdin.write("\n".join(lines).encode())
        self._shell.stdin.flush()
        assert self._until(done.exists), f"{command!r} took longer than {STEP_S:g} s; it has printed\n{_read(output)}"
        return int(done.read_text()), _read(output)

    def run_until_shown(self, command: str, shown: str) -> str:
        """A command, again and again until it prints that; what it printed last."""
        printed = ""

        def once() -> bool:
            nonlocal printed
            _, printed = self.run(command)
            return alike(shown, printed)

        self._until(once)
        return printed

    def begin(self, command: str, shown: str) -> Running:
        """A command in a second terminal; `interrupt` ends it."""
        output = self._file("out")
        with output.open("wb") as file:
            arguments = ["bash", "-c", self._ported(command)]
            process = self._start(arguments, stdout=file, stderr=file, start_new_session=True)
        return Running(shown, process, output)

    def interrupt(self, running: Running) -> str:
        """Ctrl-C once it has printed what the page shows, if it has not ended by then; what it printed."""
        self._until(lambda: alike(running.shown, _read(running.output)))
        if running.process.poll() is None:
            os.killpg(running.process.pid, signal.SIGINT)  # as a terminal does: to all that run in front
        running.process.wait(STEP_S)
        return _read(running.output)

    def _ported(self, text: str) -> str:
        for page, here in self.own.items():
            text = re.sub(rf"\b{page}\b", here, text)
        return text

    def _until(self, condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + STEP_S
        while not condition():
            if time.monotonic() > deadline or self._shell.poll() is not None:
                return False
            time.sleep(LOOK_S)
        return True

    def _file(self, kind: str) -> Path:
        self._count += 1
        return self._output / f"{self._count}.{kind}"

    def _place(self) -> dict[str, object]:
        return {"cwd": self.here, "env": self._environment}

    def _start(self, arguments: list[str], **streams: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(arguments, **self._place(), **streams)  # type: ignore[call-overload]

    def _left(self) -> list[psutil.Process]:
        """What was started from here, however far away: it has this HOME."""
        return inheriting("HOME", str(self._home))


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
