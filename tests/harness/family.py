"""What runs below a replica's process: its application's JVM, the Python workers that are replicas, those for redos."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil

from borealis_py.kafka.process_end import is_over
from tests.harness.plan import Member
from tests.harness.processes import Process


def tree(process: Process) -> list[psutil.Process]:
    """It and all below it, it first."""
    with suppress(psutil.NoSuchProcess):
        own = psutil.Process(process.popen.pid)
        return [own, *_living(own)]
    return []


def jvm(process: Process) -> psutil.Process | None:
    """The JVM of its application: in local mode driver and executor."""
    return next((p for p in tree(process)[1:] if _name(p) == "java"), None)


def workers(process: Process) -> dict[Member, psutil.Process]:
    """The Python workers that run its replicas now, as they said in its log: of each where it began last. Standbys that
    do not compute share one."""
    found: dict[Member, int] = {}
    for entry in _told_pids(process):
        if "node" in entry:
            found[Member(entry["node"], entry["replica"])] = entry["worker_pid"]
    there = {p.pid: p for p in tree(process)[1:]}
    return {member: there[pid] for member, pid in found.items() if pid in there}


def _told_pids(process: Process) -> Iterator[dict[str, Any]]:
    """What its log says of tasks that began."""
    for line in process.said.splitlines():
        if "worker_pid" in line:
            with suppress(ValueError):
                yield json.loads(line)


def idle_workers(process: Process) -> list[psutil.Process]:
    """Python workers for redos: those that run no replica, are not the standby task's, and started no other."""
    busy = {p.pid for p in workers(process).values()}
    busy |= {entry["worker_pid"] for entry in _told_pids(process) if "may_run" in entry}
    below = [p for p in tree(process)[1:] if _name(p) != "java"]
    return [p for p in below if p.pid not in busy and not _living(p)]


def _name(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return str(process.name())
    return ""


def _living(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [p for p in process.children(recursive=True) if not is_over(p)]
    return []
