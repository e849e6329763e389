"""Reads single keys from a terminal, without Enter and without echo; the terminal is restored afterwards."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any


class Keys(AbstractContextManager["Keys"]):
    """While open, waits for keys on standard input; if that is not a terminal, no key ever comes.

    Args:
        stop: set elsewhere (by a signal) to end a wait early.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._before: list[Any] | None = None

    def __enter__(self) -> Keys:
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin.fileno())
            tty.setcbreak(sys.stdin.fileno())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)

    @property
    def there(self) -> bool:
        return self._before is not None

    def next(self, timeout_s: float) -> str:
        """The key typed within the time, "" if none. A terminal that is gone counts as "q"."""
        if not self.there:
            self._stop.wait(timeout_s)
            return ""
        if not select.select([sys.stdin.fileno()], [], [], timeout_s)[0]:
            return ""
        try:
            return os.read(sys.stdin.fileno(), 100).decode(errors="replace") or "q"
        except OSError:
            return "q"
