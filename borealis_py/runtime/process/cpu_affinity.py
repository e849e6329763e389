"""Restricts a starting process to half of the machine's cores, leaving the others to replicas that are running.

A JVM and Python workers that start use every core they can get; on two cores, a surviving replica would miss its
threshold. Widening the affinity again needs no privileges; lowering a nice value does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

import psutil

HALVES = 2
ROUNDS = 5
"""Threads started while others are widened may inherit the restriction: they are found in the next round."""


class StartCores:
    """Restricts this process and its descendants until `done`.

    Args:
        index: of the replica: odd ones get the other half while all of them start.
        others: replicas run next to it. Otherwise, or on one core, nothing changes.
        ready: some of these are. All that start keep to the first half, however many they are.
    """

    def __init__(self, index: int, others: bool, ready: bool) -> None:
        self._all = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
        self._kept = others and len(self._all) >= HALVES
        if self._kept:
            os.sched_setaffinity(0, half(self._all, 0 if ready else index))

    def done(self) -> None:
        """Use all cores again. May be called repeatedly."""
        if self._kept:
            self._kept = False
            own = psutil.Process()
            for _ in range(ROUNDS):
                if not self._widen([own.pid, *(child.pid for child in own.children(recursive=True))]):
                    return

    def _widen(self, pids: Iterable[int]) -> int:
        """Widen all threads. Returns how many were still restricted."""
        narrow = 0
        for pid in pids:
            for thread in _threads(pid):
                with suppress(OSError):
                    if os.sched_getaffinity(thread) != self._all:
                        os.sched_setaffinity(thread, self._all)
                        narrow += 1
        return narrow


def half(cores: Iterable[int], index: int) -> set[int]:
    """The cores of one of two halves, at least one."""
    ordered = sorted(cores)
    middle = len(ordered) // HALVES
    return set(ordered[:middle] if index % HALVES == 0 else ordered[middle:])


def _threads(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return []
