"""Processor time and memory of processes: the broker, each replica's Python, its JVM, Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil

from borealis_py.bench.figures import ProcessMemory
from borealis_py.bench.stage import Running, Stage
from borealis_py.observe.process_tree import DRIVER, parts

MB = 1e6


def cpu_s(process: psutil.Process) -> float | None:
    """Of one process so far, in seconds; None: it has ended."""
    try:
        times = process.cpu_times()
        return None if process.status() == psutil.STATUS_ZOMBIE else float(times.user + times.system)
    except psutil.NoSuchProcess:
        return None


def tree_cpu_s(pids: Iterable[int]) -> float:
    """Of these processes and all below them so far, in seconds; what has ended counts for nothing."""
    total = 0.0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            total += sum(cpu_s(each) or 0.0 for each in (process, *process.children(recursive=True)))
    return total


def memory_of(stage: Stage, running: Running) -> list[ProcessMemory]:
    """What runs now. Processes that end meanwhile are left out."""
    pid = stage.broker.status().pid
    found = [] if pid is None else [_of("broker (JVM)", psutil.Process(pid))]
    for part in parts(running.processes):
        name = str(part.process) if part.role in ("replica", DRIVER) else f"{part.process}: {part.role}"
        pss_mb = None if part.pss_bytes is None else part.pss_bytes / MB
        found.append(ProcessMemory(name, part.pid, part.rss_bytes / MB, pss_mb))
    return found


def _of(name: str, process: psutil.Process) -> ProcessMemory:
    pss = getattr(process.memory_full_info(), "pss", None)
    return ProcessMemory(name, process.pid, process.memory_info().rss / MB, None if pss is None else pss / MB)
