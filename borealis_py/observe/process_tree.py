"""What a replica's process consists of: itself, and with Spark a JVM, the parent of Python workers, and those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import psutil

from borealis_py.app.replicas import ProcessName, ReplicaProcesses

DAEMON = "borealis_py.runtime.spark.daemon"
"""The module that Python workers are forked from."""
DRIVER, JVM, PARENT, WORKER, ENDED = (
    "driver",
    "Spark's JVM",
    "parent of Python workers",
    "Python worker",
    "ended",
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """One process below, or the first one itself. Bytes; `pss_bytes` counts what processes share once, None: the system
    does not tell. `role`: one of the above; of the first "replica", or "driver" where others run below it.
    """

    process: ProcessName
    role: str
    pid: int
    rss_bytes: int
    pss_bytes: int | None
    threads: int


def parts(processes: ReplicaProcesses) -> list[Footprint]:
    """Of all that run on this machine now. Those that end meanwhile are left out."""
    found = [_part(member) for member in members(processes)]
    return [part for part in found if part is not None]


class Relative(NamedTuple):
    """A process, and whose. `first`: it is the replica's own, and not one below that."""

    name: ProcessName
    process: psutil.Process
    role: str
    first: bool


def members(processes: ReplicaProcesses) -> list[Relative]:
    """Those of all that run on this machine now, each replica's own before those below it."""
    found = []
    for name, process in processes.running().items():
        below = _children(process)
        found.append(Relative(name, process, DRIVER if below else "replica", True))
        found += [Relative(name, child, role(child), False) for child in below]
    return found


def told(of: Sequence[Footprint]) -> dict[str, list[dict[str, Any]]]:
    """For programs, by the stem of the process's files, as `status --json` has it."""
    found: dict[str, list[dict[str, Any]]] = {}
    for part in of:
        said = asdict(part)
        del said["process"]
        found.setdefault(part.process.stem, []).append(said)
    return found


def role(process: psutil.Process) -> str:
    """What a process below a replica's is, for people."""
    try:
        command = process.cmdline()
        parent = process.parent()
        above = parent.cmdline() if parent is not None else []
    except psutil.Error:
        return ENDED
    return named(command, above)


def named(command: list[str], parent: list[str]) -> str:
    """The same from the command lines of the process and of its parent."""
    if command and command[0].rpartition("/")[2] == "java":
        return JVM
    if DAEMON in command:
        return WORKER if DAEMON in parent else PARENT
    return command[0].rpartition("/")[2] if command else ENDED


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _part(member: Relative) -> Footprint | None:
    process = member.process
    try:
        rss = int(process.memory_info().rss)
        pss = getattr(process.memory_full_info(), "pss", None)
        threads = int(process.num_threads())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
    if not rss:
        return None  # a zombie
    return Footprint(member.name, member.role, process.pid, rss, None if pss is None else int(pss), threads)
