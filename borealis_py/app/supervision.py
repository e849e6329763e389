"""The supervisor of an app on this machine, from the commands' side: start, find and end it, read its notes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from borealis_py.app.errors import LaunchError
from borealis_py.app.supervisor import run_notes
from borealis_py.kafka.process_end import terminate
from borealis_py.kafka.process_start import uninterrupted

ROOT = Path(__file__).resolve().parent.parent.parent
MODULE = "borealis_py.app.supervisor.__main__"
STOP_S = 5.0
"""It normally ends at once; a suspended one is killed after this."""


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """What a supervisor starts: the `stem` of its files, its arguments; `first`: additional arguments of the first
    start; `environment`: added to the supervisor's, at every start.
    """

    stem: str
    arguments: Sequence[str]
    first: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def plan(self) -> dict[str, Any]:
        """As a value of JSON."""
        return {
            "stem": self.stem,
            "arguments": list(self.arguments),
            "first": list(self.first),
            "environment": dict(self.environment),
        }


@dataclass(frozen=True, slots=True)
class Fate:
    """What is noted about a process that ended. Times in us.

    Args:
        restarts: how often it was restarted since `up`. how: "killed by SIGKILL", "exit code 3, superseded: ...".
        at_wall_us: when it ended, since 1970.
        final: it is not restarted. next_wall_us: when it is restarted, while it is not running; None: it runs, or is
            not restarted.
    """

    restarts: int
    how: str
    at_wall_us: int
    final: bool
    next_wall_us: int | None = None


def available() -> bool:
    """Whether this system provides what a supervisor needs (/proc)."""
    return Path("/proc/self/stat").exists()


def supervisor_of(directory: Path) -> psutil.Process | None:
    """The running supervisor of an app's directory."""
    note = run_notes.read(str(_note(directory)))
    with suppress(psutil.Error):
        return psutil.Process(note["pid"]) if run_notes.running(note) else None
    return None


def start_supervisor(directory: Path, command: Sequence[str], starts: Sequence[ProcessStart]) -> int:
    """Start a supervisor, and wait until it has started what is not running. Returns its pid.

    Args:
        command: of every process, before its arguments.

    Raises:
        LaunchError: it ended at once.
    """
    directory.mkdir(parents=True, exist_ok=True)
    plan = {
        "directory": str(directory.resolve()),
        "command": list(command),
        "processes": [start.plan() for start in starts],
    }
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {MODULE} import main; main()"
    log = directory / f"{run_notes.SUPERVISOR}.log"
    with uninterrupted(), log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code],  # isolated, without site-packages: half the memory
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        with suppress(ProcessLookupError):  # ended already
            run_notes.write(
                str(_note(directory)), run_notes.of_process(process.pid)
            )  # written before it starts anything, so that `down` finds it
    assert process.stdin is not None
    assert process.stdout is not None
    started = b""
    with suppress(BrokenPipeError), process.stdin, process.stdout:  # it may have ended before it was told anything
        process.stdin.write(json.dumps(plan).encode())
        process.stdin.close()
        started = process.stdout.readline()
    if not started:
        raise LaunchError(f"the supervisor ended with code {process.wait()}: {log.read_text()[-2000:]}")
    process.returncode = 0  # it outlives this process: suppresses Python's warning
    return process.pid


def stop_supervisor(directory: Path) -> bool:
    """End it but not its processes; after the return it starts nothing more. Returns whether one was running."""
    process = supervisor_of(directory)
    _note(directory).unlink(missing_ok=True)  # tells one that does not receive the signal
    if process is None:
        return False
    terminate(process, STOP_S)
    return True


def fate_of(pid_file: Path) -> Fate | None:
    """The last end noted next to a process; None: it has not ended since `up`."""
    note = run_notes.read(str(pid_file))
    try:
        ended: dict[str, Any] = note["ended"]
        waits = not run_notes.running(note) and not ended["final"]
        next_us = int(note["next_wall_us"]) if waits else None
        return Fate(
            int(note.get("restarts", 0)), str(ended["how"]), int(ended["at_wall_us"]), bool(ended["final"]), next_us
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _note(directory: Path) -> Path:
    return directory / f"{run_notes.SUPERVISOR}.pid"
