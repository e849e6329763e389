"""Whether a replica has read all that the logs held: before that, nothing in them counts as missing (R3, B14)."""

from __future__ import annotations

from borealis_py.protocol.delay import ALWAYS
from borealis_py.protocol.turn import AskEnds, Effect


class LogEnds:
    """One replica's knowledge of the ends of its logs.

    Attributes:
        read_to: when the ends were asked that it has read up to, in microseconds; ALWAYS: never yet.
    """

    def __init__(self) -> None:
        self.read_to = ALWAYS
        self._started: int | None = None
        self._away_until = ALWAYS
        self._asked: int | None = None

    def turn(self, now: int, late: bool) -> bool:
        """A turn begins. `late`: long after the one before. Returns whether the replica was away."""
        gap = self._started is not None and late
        if gap or self._started is None:
            self._away_until = now
        self._started = now if self._started is None else self._started
        return gap

    def away(self, now: int) -> None:
        """Something must be read again: what was asked before says nothing of it."""
        self._away_until = now

    def answered(self, read_to: int) -> None:
        """Everything that lay below the ends at `read_to` has been read."""
        self.read_to = max(self.read_to, read_to)
        if self._asked is not None and read_to >= self._asked:
            self._asked = None

    def unread(self, at: int) -> bool:
        """What was in the logs at `at`, or while this replica was away, may not have been read."""
        return max(at, self._away_until) > self.read_to

    @property
    def unread_since_start(self) -> bool:
        """What was in the logs at the start may not have been read."""
        return self._started is None or self.read_to < self._started

    def ask(self, now: int) -> list[Effect]:
        """Ask for the ends, unless an answer is on its way."""
        if self._asked is not None:
            return []
        self._asked = now
        return [AskEnds()]
