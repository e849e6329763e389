"""The supervisor of an app on this machine as commands see it: start, find and end it, read what it notes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from borealis_py.app.errors import LaunchError
from borealis_py.app.supervisor import run_notes

ROOT = Path(__file__).resolve().parent.parent.parent
MODULE = "borealis_py.app.supervisor.__main__"
STOP_S = 5.0
"""It ends at once; one that was suspended is killed."""


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """What a supervisor starts: `stem` of its files, arguments; `first`: those of its first start alone."""

    stem: str
    arguments: Sequence[str]
    first: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Fate:
    """What is noted of a process that ended. Times in us.

    Args:
        restarts: how often it was started again since `up`. how: "killed by SIGKILL", "exit code 3, superseded: ...".
        final: it is not started again. next_wall_us: when it is, while it does not run; None: it runs, or never is.
    """

    restarts: int
    how: str
    at_wall_us: int
    final: bool
    next_wall_us: int | None = None


def available() -> bool:
    """Whether this system has what a supervisor looks at."""
    return Path("/proc/self/stat").exists()


def supervisor_of(directory: Path) -> psutil.Process | None:
    """The one that runs, of an app's directory."""
    note = run_notes.read(str(_note(directory)))
    with suppress(psutil.Error):
        return psutil.Process(note["pid"]) if run_notes.running(note) else None
    return None


def start_supervisor(
    directory: Path, command: Sequence[str], starts: Sequence[ProcessStart], environment: Mapping[str, str]
) -> int:
    """Start one, and wait until it has started what does not run. Returns its pid.

    Args:
        command: of every process, before its arguments.
        environment: of it and of what it starts, on top of this process's.

    Raises:
        LaunchError: it ended at once.
    """
    directory.mkdir(parents=True, exist_ok=True)
    plan = {
        "directory": str(directory.resolve()),
        "command": list(command),
        "processes": [{"stem": s.stem, "arguments": list(s.arguments), "first": list(s.first)} for s in starts],
    }
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {MODULE} import main; main()"
    log = directory / f"{run_notes.SUPERVISOR}.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code],  # isolated, without site-packages: half the memory
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout, suppress(BrokenPipeError):
        run_notes.write(
            str(_note(directory)), run_notes.of_process(process.pid)
        )  # before it starts anything: `down` finds it
        process.stdin.write(json.dumps(plan).encode())
        process.stdin.close()
        started = process.stdout.readline()
    if not started:
        raise LaunchError(f"the supervisor ended with code {process.wait()}: {log.read_text()[-2000:]}")
    process.returncode = 0  # it outlives this process: no warning about that
    return process.pid


def stop_supervisor(directory: Path) -> bool:
    """End it; what it keeps goes on. When this returns it starts nothing any more. Returns whether one ran."""
    process = supervisor_of(directory)
    _note(directory).unlink(missing_ok=True)  # one that does not hear us knows by this
    if process is None:
        return False
    with suppress(psutil.NoSuchProcess):
        process.terminate()
        try:
            process.wait(STOP_S)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)
    return True


def fate_of(pid_file: Path) -> Fate | None:
    """What the note beside a process tells of those before it; None: none has ended since `up`."""
    note = run_notes.read(str(pid_file))
    try:
        ended: dict[str, Any] = note["ended"]
        waits = not run_notes.running(note) and not ended["final"]
        next_us = int(note["next_wall_us"]) if waits else None
        return Fate(
            int(note.get("restarts", 0)), str(ended["how"]), int(ended["at_wall_us"]), bool(ended["final"]), next_us
        )
    except (KeyError, TypeError, ValueError):
        return None


def _note(directory: Path) -> Path:
    return directory / f"{run_notes.SUPERVISOR}.pid"
