"""A bell that rings when results come."""

from __future__ import annotations

import threading


class Bell:
    """A wake function that can be waited for."""

    def __init__(self) -> None:
        self._rung = threading.Semaphore(0)

    def __call__(self) -> None:
        self._rung.release()

    def wait(self, timeout_s: float = 60) -> None:
        assert self._rung.acquire(timeout=timeout_s), "nobody rang"
