"""A start keeps to half of the machine's cores, and leaves the others to the replicas that still answer there.

A JVM and Python workers that start take all they can get, and a survivor of two cores would fall behind its threshold.
Affinity needs no privileges to be widened again; a raised nice value does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

import psutil

HALVES = 2
ROUNDS = 5
"""Threads that are started while others are widened may have the old cores: they are found in the next round."""


class StartCores:
    """Of this process and all below it, from now until `done`.

    Args:
        index: of the replica: each second one has the other half.
        others: replicas run beside it. Without, or on one core, all is as it was.
    """

    def __init__(self, index: int, others: bool) -> None:
        self._all = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
        self._kept = others and len(self._all) >= HALVES
        if self._kept:
            os.sched_setaffinity(0, half(self._all, index))

    def done(self) -> None:
        """Take all cores. May be called again and again."""
        if self._kept:
            self._kept = False
            own = psutil.Process()
            for _ in range(ROUNDS):
                if not self._widen([own.pid, *(child.pid for child in own.children(recursive=True))]):
                    return

    def _widen(self, pids: Iterable[int]) -> int:
        """Returns how many threads were still narrow."""
        narrow = 0
        for pid in pids:
            for thread in _threads(pid):
                with suppress(OSError):
                    if os.sched_getaffinity(thread) != self._all:
                        os.sched_setaffinity(thread, self._all)
                        narrow += 1
        return narrow


def half(cores: Iterable[int], index: int) -> set[int]:
    """Those of one of two halves, at least one."""
    ordered = sorted(cores)
    middle = len(ordered) // HALVES
    return set(ordered[:middle] if index % HALVES == 0 else ordered[middle:])


def _threads(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return []
