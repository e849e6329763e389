"""Leaving nothing running: for commands that start processes and are interrupted."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

ASK_S = 5.0
"""A process that was asked to end and has not by then is killed."""


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and see to it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=ASK_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM and a closed terminal tidy up like Ctrl-C."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
