"""Memory of the broker and of each replica's processes: Python, its JVM, Spark's Python workers below that."""

from __future__ import annotations

import psutil

from borealis_py.bench.figures import ProcessMemory
from borealis_py.bench.stage import Running, Stage
from borealis_py.host.spark import DAEMON

MB = 1e6


def measure(stage: Stage, running: Running) -> list[ProcessMemory]:
    """What runs now. Processes that end meanwhile are left out."""
    found = [_of("broker (JVM)", stage.broker.status().pid)]
    for name, pid in running.pids.items():
        found.append(_of(str(name), pid))
        found += [_of(f"{name}: {role(child)}", child.pid) for child in _children(pid)]
    return [memory for memory in found if memory is not None and memory.rss_mb]  # a zombie has none


def role(process: psutil.Process) -> str:
    """What a process below a replica is, for people."""
    try:
        command = process.cmdline()
        parent = process.parent()
        above = parent.cmdline() if parent is not None else []
    except psutil.Error:
        return "ended"
    return named(command, above)


def named(command: list[str], parent: list[str]) -> str:
    """The same from the command lines of the process and of its parent."""
    if command and command[0].rpartition("/")[2] == "java":
        return "Spark's JVM"
    if DAEMON in command:
        return "Spark's Python worker" if DAEMON in parent else "Spark's Python daemon"
    return command[0].rpartition("/")[2] if command else "ended"


def _children(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _of(name: str, pid: int | None) -> ProcessMemory | None:
    try:
        process = psutil.Process(pid)
        rss = process.memory_info().rss
        pss = getattr(process.memory_full_info(), "pss", None)
    except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError):
        return None
    return ProcessMemory(name, process.pid, rss / MB, None if pss is None else pss / MB)
