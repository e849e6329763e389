"""What the replicas of an app have reported of themselves, kept in order of arrival."""

from __future__ import annotations

from itertools import takewhile

from borealis_py.app.state import StatusReader
from borealis_py.log.base import Log
from borealis_py.log.messages import Status


class Statuses:
    """The statuses of one app that `poll` has read: those written at or after `since_ms`; None: all that are kept."""

    def __init__(self, log: Log, app: str, since_ms: int | None = None) -> None:
        self.all: list[Status] = []
        self._of: dict[tuple[str, int], list[Status]] = {}
        self._reader = StatusReader(log, app, since_ms)

    def poll(self) -> None:
        """Read what has come since the last call. Raises LogError."""
        for status in self._reader.poll():
            self.all.append(status)
            self._of.setdefault((status.node, status.replica), []).append(status)

    def of(self, node: str, replica: int, since_us: int = 0) -> list[Status]:
        """Those of one replica, since a wall time."""
        found = takewhile(lambda s: s.at_wall_us >= since_us, reversed(self._of.get((node, replica), ())))
        return list(found)[::-1]

    def newest(self, node: str, replica: int) -> Status | None:
        """The last one of one replica."""
        return next(reversed(self._of.get((node, replica), ())), None)

    def events(self, node: str, replica: int, since_us: int = 0) -> list[str]:
        """Names of what happened to one replica since a wall time."""
        return [status.event for status in self.of(node, replica, since_us) if status.event]

    def close(self) -> None:
        """Let go of the client."""
        self._reader.close()
