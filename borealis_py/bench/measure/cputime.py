"""Processor time of processes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


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
