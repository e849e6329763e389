"""Processor time of processes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def tree_cpu_s(pids: Iterable[int]) -> float:
    """Of these processes and all below them so far, in seconds; what has ended counts for nothing."""
    total = 0.0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            for each in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    times = each.cpu_times()
                    total += float(times.user + times.system)
    return total
