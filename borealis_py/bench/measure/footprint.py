"""Memory of the broker and of each replica's processes: Python, its JVM, and Spark's Python workers."""

from __future__ import annotations

import psutil

from borealis_py.bench.load.stage import Running, Stage
from borealis_py.bench.report.figures import ProcessMemory
from borealis_py.observe.process_tree import DRIVER, parts

MB = 1e6


def measure(stage: Stage, running: Running) -> list[ProcessMemory]:
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
