"""Waiting for what is to happen, for as long as a busy machine may take; and the wall clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 120.0
"""How long a test waits for what is to happen, however busy the machine is. It ends as soon as that has happened."""


def wall_us() -> int:
    """Now, microseconds since 1970."""
    return time.time_ns() // 1000


def until(condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait for a condition; fails by name."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        pause.wait(0.02)


def awaited(look: Callable[[], T | None], what: str, timeout_s: float = PATIENCE_S) -> T:
    """Wait for something to be there, and return it; fails by name."""
    seen: list[T] = []

    def there() -> bool:
        found = look()
        if found is not None:
            seen.append(found)
        return found is not None

    until(there, what, timeout_s)
    return seen[0]


def until_equal(look: Callable[[], T], wanted: T, what: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait until this is what is seen; fails by name, with what was seen last."""
    seen: list[T] = []

    def same() -> bool:
        seen[:] = [look()]
        return seen[0] == wanted

    try:
        until(same, what, timeout_s)
    except AssertionError as exc:
        raise AssertionError(f"{exc}: {seen[0]!r}, not {wanted!r}") from exc
