"""The processes of a replica: itself, and with Spark a JVM, the parent of Python workers, and these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import psutil

from borealis_py.app.replicas import ProcessName, ReplicaProcesses

DAEMON = "borealis_py.runtime.spark.daemon"
"""The module from which Python workers are forked."""
DRIVER, JVM, PARENT, WORKER, ENDED = (
    "driver",
    "Spark's JVM",
    "parent of Python workers",
    "Python worker",
    "ended",
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """One process, below that of replica `process` or that itself. Sizes in bytes.

    `rss_bytes`: resident memory, shared included. `pss_bytes`: counts shared memory once; None: the system does not
    report it. `threads`: how many. `role`: one of the above; for the first process "replica", "ingress", or "driver" if
    others run below it; `pid`: its process id.
    """

    process: ProcessName
    role: str
    pid: int
    rss_bytes: int
    pss_bytes: int | None
    threads: int


def parts(processes: ReplicaProcesses) -> list[Footprint]:
    """All that are running on this machine. Processes that end meanwhile are left out."""
    found = [_part(member) for member in members(processes)]
    return [part for part in found if part is not None]


class Relative(NamedTuple):
    """A process and the replica it belongs to. `first`: it is the replica's own, not one below that."""

    name: ProcessName
    process: psutil.Process
    role: str
    first: bool


def members(processes: ReplicaProcesses) -> list[Relative]:
    """The processes of all running replicas on this machine, each replica's own before those below it."""
    found = []
    for name, process in processes.running().items():
        below = _children(process)
        found.append(Relative(name, process, "ingress" if name.ingress else DRIVER if below else "replica", True))
        found += [Relative(name, child, role(child), False) for child in below]
    return found


def told(of: Sequence[Footprint]) -> dict[str, list[dict[str, Any]]]:
    """As JSON values by the stem of the process's files, for `status --json`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for part in of:
        said = asdict(part)
        del said["process"]
        found.setdefault(part.process.stem, []).append(said)
    return found


def role(process: psutil.Process) -> str:
    """The role of a process below a replica's, human-readable."""
    try:
        command = process.cmdline()
        parent = process.parent()
        above = parent.cmdline() if parent is not None else []
    except psutil.Error:
        return ENDED
    return named(command, above)


def named(command: list[str], parent: list[str]) -> str:
    """The role, from the command lines of the process and its parent."""
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
