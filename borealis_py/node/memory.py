"""What this process takes of memory, for the status of its replicas."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

ROLLUP = Path("/proc/self/smaps_rollup")
EVERY_S = 10.0
"""The system goes through all pages for it: 1.4 ms for 120 MB, 11 to 23 ms for 700 MB."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Attributes:
    rss_kb: KiB that are resident, those that are shared with other processes included.
    pss_kb: the same where a page that n processes share counts as an n-th; 0: the system does not report it.
    """

    rss_kb: int
    pss_kb: int


def memory_use(rollup: Path = ROLLUP) -> MemoryUse:
    """Of this process, now.

    Args:
        rollup: the file of the system that has it. Where there is none (not Linux, or before 4.14), RSS suffices.
    """
    try:
        lines = rollup.read_bytes().splitlines()
    except OSError:
        return MemoryUse(int(psutil.Process().memory_info().rss) // 1024, 0)
    sizes = {line.split(b":")[0]: int(line.split()[1]) for line in lines if line.endswith(b"kB")}
    return MemoryUse(sizes.get(b"Rss", 0), sizes.get(b"Pss", 0))


class OwnMemory:
    """The memory of this process, read every ten seconds at most, however many replicas it has and statuses they send.

    Args:
        read: takes a while with much memory, so a thread of its own calls it, but for the first time.
        clock: monotonic, in seconds.
    """

    def __init__(self, read: Callable[[], MemoryUse] = memory_use, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._known = read()
        self._due_s = clock() + EVERY_S
        self._reading: threading.Thread | None = None

    def use(self) -> MemoryUse:
        """What was read last. Never waits."""
        now_s = self._clock()
        if now_s >= self._due_s and (self._reading is None or not self._reading.is_alive()):
            self._due_s = now_s + EVERY_S
            self._reading = threading.Thread(target=self._take, name="memory", daemon=True)
            self._reading.start()
        return self._known

    def _take(self) -> None:
        self._known = self._read()


@cache
def _watch(pid: int) -> OwnMemory:
    return OwnMemory()


def memory_watch() -> OwnMemory:
    """That of this process: a forked one has its own."""
    return _watch(os.getpid())
