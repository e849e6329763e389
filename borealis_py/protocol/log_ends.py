"""Whether a replica has read all that the logs held: before that, no input counts as missing (R3.2, B14)."""

from __future__ import annotations

from borealis_py.protocol.delay import ALWAYS
from borealis_py.protocol.turn import AskEnds, Effect
from sunion.units import MonotonicUs


class LogEnds:
    """One replica's knowledge of the ends of its logs.

    Attributes:
        read_to: the time, in microseconds, at which the ends were asked for that it has read up to; ALWAYS: none yet.
    """

    def __init__(self) -> None:
        self.read_to = ALWAYS
        self._started: int | None = None
        """The time of the first turn; None before it."""
        self._last_us = 0
        """How long the last turn took, in microseconds."""
        self._away_until = ALWAYS
        """The time of the last turn after which records may be unread; ends asked for earlier do not cover them."""
        self._asked: int | None = None
        """When the ends were asked for that are not read up to yet; None: no answer is awaited."""

    def turn(self, now: MonotonicUs, elapsed_us: int, gap_us: int, worked: bool) -> bool:
        """A turn begins, `elapsed_us` after the one before; `worked`: that one had so much to do.

        Returns:
            Whether it is late. Unless it worked, it may not have read what came meanwhile. One that took at most twice
            as long as the one before is slow, as that was, and was not away: otherwise a machine on which each turn is
            slow would ask for the ends in each, and run nothing live.
        """
        gap = self._started is not None and elapsed_us > gap_us
        if (gap and not worked and elapsed_us > 2 * self._last_us) or self._started is None:
            self._away_until = now
        self._started = now if self._started is None else self._started
        self._last_us = elapsed_us
        return gap

    def away(self, now: MonotonicUs) -> None:
        """Records must be read again: ends that were asked for before do not cover them."""
        self._away_until = now

    def answered(self, read_to: MonotonicUs) -> None:
        """The replica has read everything below the ends as of `read_to`."""
        self.read_to = max(self.read_to, read_to)
        if self._asked is not None and read_to >= self._asked:
            self._asked = None

    def unread(self, at: MonotonicUs) -> bool:
        """Whether records that the logs held at `at`, or while this replica was away, may be unread."""
        return max(at, self._away_until) > self.read_to

    @property
    def unread_since_start(self) -> bool:
        """Whether records that the logs held at the start may be unread."""
        return self._started is None or self.read_to < self._started

    @property
    def asked(self) -> bool:
        """Whether ends were asked for that are not read up to yet."""
        return self._asked is not None

    def ask(self, now: MonotonicUs) -> list[Effect]:
        """Ask for the ends, unless an answer is on its way."""
        if self._asked is not None:
            return []
        self._asked = now
        return [AskEnds()]
