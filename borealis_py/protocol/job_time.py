"""How long jobs take on this machine, and so for how long the next one is waited for (R4.4). Pure."""

from __future__ import annotations

from collections import deque

from borealis_py.protocol.settings import Timing

KEPT = 3
"""So many of the newest jobs count: a machine that was busy once is not so for ever."""
SPARE = 12
"""A job is waited for so many times as long as its like took: when an input returns, all nodes redo at once, and what
is given up has to be done again. On one core beside a busy loop, jobs took 0.5 to 0.9 s at the start, 2 to 5 s then."""


class JobTime:
    """The longest of the last jobs tells how long the next one may take. Their fixed cost (Spark, its worker, reading
    the log) counts in full; that of their rows grows with the rows, from `redo_rows` on.

    The bounds: never below `redo_deadline`, since jobs vary on a quiet machine, too; never near T, after which a
    waiting replica would take this one for hung and correct beside it. So X does not depend on it: while a job runs,
    buckets run live as the policies say, and no other replica corrects.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._took: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def took(self, rows: int, us: int) -> None:
        """A job of so many rows took so long, in microseconds, or was given up then."""
        self._took.append((max(rows, self._timing.redo_rows), us))

    def expected_us(self, rows: int) -> int:
        """How long a job of so many rows should take, at most; 0: nothing is known."""
        return max((us * max(rows, of) // of for of, us in self._took), default=0)

    def deadline_us(self, rows: int) -> int:
        """How long to wait for a job of so many rows."""
        timing = self._timing
        return min(max(timing.redo_deadline_us, SPARE * self.expected_us(rows)), timing.redo_deadline_most_us)
