"""Ends child processes of commands that are interrupted, so that none is left running."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

ASK_S = 5.0
"""A process that has not ended this long after SIGTERM is killed."""


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it if it does not end."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=ASK_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def terminated_as_interrupt() -> Iterator[None]:
    """Make SIGTERM and a closed terminal clean up like Ctrl-C."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
