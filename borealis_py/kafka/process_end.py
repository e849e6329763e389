"""Ending other processes, and telling when they have ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

LOOK_S = 0.02
KILL_S = 10.0
"""How long a killed process may take to end."""


def is_over(process: psutil.Process) -> bool:
    """Whether a process has ended. A zombie has: process 1 of a container may never reap it."""
    with suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


def await_end(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait until processes have ended, at most `timeout_s`; returns those that still run."""
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    left = [process for process in processes if not is_over(process)]
    while left and time.monotonic() < deadline:
        pause.wait(LOOK_S)
        left = [process for process in left if not is_over(process)]
    return left


def terminate(process: psutil.Process, timeout_s: float) -> None:
    """Ask a process to end; kill it if it runs `timeout_s` later, and wait up to `KILL_S` for that."""
    with suppress(psutil.NoSuchProcess):
        process.terminate()
        for still in await_end([process], timeout_s):
            still.kill()
            await_end([still], KILL_S)
