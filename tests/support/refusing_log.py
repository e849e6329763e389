"""A log that refuses one call, whichever it is: what begins on it must leave no client open."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from borealis_py.log.base import LogUnreachable
from tests.support.instant_log import InstantBroker, InstantLog


class Closable(Protocol):
    def close(self) -> None: ...


class RefusingLog(InstantLog):
    """Refuses the call that `refuse_after` says: openings of clients count, and calls of these, but not their ends."""

    def __init__(self, broker: InstantBroker | None = None) -> None:
        super().__init__(broker)
        self.refused = False
        """Whether the call has come."""
        self._allowed: int | None = None

    def refuse_after(self, calls: int) -> None:
        """Refuse one call, after so many others."""
        self._allowed, self.refused = calls, False

    def count(self) -> None:
        """Another call. Raises LogUnreachable."""
        if self._allowed == 0:
            self._allowed, self.refused = None, True
            raise LogUnreachable("no broker answers this call")
        if self._allowed is not None:
            self._allowed -= 1

    def _settled(self, make: Callable[[], Any]) -> Any:
        self.count()
        return _Counted(super()._settled(make), self.count)


class _Counted:
    """A reader, lookup and so on, whose calls are counted."""

    def __init__(self, part: Any, count: Callable[[], None]) -> None:
        self._part, self._count = part, count

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self._count()
            return getattr(self._part, name)(*args, **options)

        return call

    def close(self) -> None:
        self._part.close()


def open_after_refusals(log: RefusingLog, begin: Callable[[], Closable | None]) -> list[int]:
    """Begin once for each call that may be refused, and once with none refused, and close what has begun.

    Returns:
        How many clients were open after each.
    """
    found: list[int] = []
    for calls in count():
        log.refuse_after(calls)
        try:
            begun = begin()
        except LogUnreachable:
            pass
        else:
            if begun is not None:
                begun.close()
        found.append(log.unclosed)
        if not log.refused:
            return found
    raise AssertionError
