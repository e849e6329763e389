"""Notes in files next to a process: its identity, how its predecessor ended, since when it is READY.

`<stem>.pid` is written by whoever starts a process, `<stem>.ready` and `<stem>.end` by the process itself. A pid alone
proves nothing since pids are reused, and a time of day proves nothing since clocks are set. So a process is identified
by its start time in ticks since boot, and by the boot id. Standard library only.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any, NamedTuple

RUN = "BOREALIS_RUN"
"""Environment variable of a replica process and its descendants: identifies the run."""
SUPERVISOR = "supervisor"
"""Stem of the supervisor's own files."""


class Stat(NamedTuple):
    """Of a process, from /proc. `ticks`: its start time, since boot."""

    state: str
    session: int
    ticks: int


def stat_of(pid: int) -> Stat | None:
    """The stat of a process; None: no such process, or no /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return Stat(fields[0], int(fields[3]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def boot() -> str:
    """The id of this boot of the machine. Raises OSError without /proc."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def of_process(pid: int) -> dict[str, Any]:
    """The part of a note that identifies a process. Raises OSError if it is gone, or without /proc."""
    stat = stat_of(pid)
    if stat is None:
        raise ProcessLookupError(f"no process {pid}")
    return {"pid": pid, "ticks": stat.ticks, "boot": boot()}


def running(note: dict[str, Any]) -> bool:
    """Whether the process of a note made with `of_process` runs."""
    stat = stat_of(note["pid"]) if isinstance(note.get("pid"), int) else None
    if stat is None or stat.state in "ZX":
        return False
    with suppress(OSError):
        return (stat.ticks, boot()) == (note.get("ticks"), note.get("boot"))
    return False


def write(path: str, note: dict[str, Any]) -> None:
    """Write a note atomically. Raises OSError."""
    partial = f"{path}.{os.getpid()}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(json.dumps(note))
    os.replace(partial, path)


def read(path: str) -> dict[str, Any]:
    """Read a note; empty if there is none, or none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            note = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def ready_since(path: str, note: dict[str, Any]) -> float | None:
    """Since when the process of this note is READY, as it has noted, monotonic seconds; None: it is not.

    Args:
        path: common prefix of its files.
    """
    ready = read(f"{path}.ready")
    since = ready.get("since_s")
    if not isinstance(since, int | float) or ready.get("run") != note.get("run"):
        return None
    with suppress(OverflowError):
        return float(since)
    return None


def exit_code(path: str, note: dict[str, Any]) -> int | None:
    """The exit code that the process of this note wrote when it ended; None: it could not write one.

    Args:
        path: common prefix of its files.
    """
    end = read(f"{path}.end")
    code = end.get("code")
    return code if isinstance(code, int) and end.get("run") == note.get("run") else None


def remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def end_rest(run: str) -> int:
    """Kill what is left of a run, whatever its parent is now: Spark's JVM, its Python workers. Returns how many."""
    mark, killed = f"{RUN}={run}\0".encode(), 0
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with suppress(OSError):  # another user's, or gone
            with open(f"/proc/{entry}/environ", "rb") as file:
                marked = mark in file.read() + b"\0"
            if marked:
                os.kill(int(entry), 9)
                killed += 1
    return killed
