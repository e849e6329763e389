"""How many rows a turn runs (as many as take about `slice_us` here), and how long more rows would take (R4.5)."""

from __future__ import annotations

from collections import deque
from statistics import linear_regression

from borealis_py.protocol.settings import Timing

UNKNOWN_ROW_US = 1.0
"""Assumed cost of a row until it is measured: that of the cheapest queries."""
KEPT = 8
"""So many of the newest turns show what a turn takes by itself, and what its rows add."""


class Pace:
    """Rows per turn, from how long the last turns took.

    A turn takes time whatever it runs: reading, writing, the engine's queries, waiting for a core on a busy machine.
    Its rows may take `slice_us` beyond that. Otherwise turns on a starved machine would shrink to the least, and gain
    nothing by it.

    A turn longer than `gap_us` counts as an absence: buckets then run live only after all ends were asked for again, so
    none would run until the backlog is done. The cost of a row depends on the query and the machine, so it is measured.

    Args:
        width_us: of a bucket. A turn runs `slice_least_us` of the streams' time, however long that takes: otherwise a
            replica whose turns are slow for another reason (a starved machine) would never catch up.
    """

    def __init__(self, timing: Timing, width_us: int) -> None:
        self._timing = timing
        self.least_buckets = max(1, timing.slice_least_us // width_us)
        self.rows = max(1, timing.slice_rows // 200)  # few: what rows cost is not known yet
        """The most rows of a turn, which runs one bucket at least."""
        self._row_us = UNKNOWN_ROW_US
        """What a row takes inline, in microseconds, as last measured."""
        self._turns: deque[tuple[int, int]] = deque(maxlen=KEPT)
        """Rows and microseconds of the last turns that had more to run."""
        self._ran = 0
        """Rows that this turn runs."""
        self._cut = False
        """Whether this turn left buckets to the next one."""

    def forget(self) -> None:
        """Measure the cost of rows again: the last value may come from a single slow turn."""
        self._row_us = UNKNOWN_ROW_US

    def expected_us(self, rows: int) -> float:
        """How long so many rows would take inline, in microseconds."""
        return rows * self._row_us

    def worked(self, elapsed_us: int) -> bool:
        """Whether the rows of the last turn explain that it took so long. Ask before `turn`."""
        return 2 * self.expected_us(self._ran) >= elapsed_us

    def turn(self, elapsed_us: int, waited: bool) -> None:
        """The next turn begins, `elapsed_us` after the last one began; `waited`: not only because that one worked."""
        if self._cut and self._ran and not waited and elapsed_us > 0:
            within_us, most = self._timing.slice_us, self._timing.slice_rows
            if elapsed_us > self._timing.gap_us:
                self._turns.clear()  # it may be the rows that cost more now: as if they were all of it
            self._turns.append((self._ran, elapsed_us))
            fit = max(1, min(max(self._ran * within_us // elapsed_us, self._fit()), 2 * self.rows, most))
            self.rows = fit if elapsed_us > within_us else max(fit, self.rows)  # of small buckets no more were at hand
            if 4 * elapsed_us >= within_us or 2 * self._ran >= most:  # else a turn's fixed cost dominates
                self._row_us = elapsed_us / self._ran
        self._ran, self._cut = 0, False

    def _fit(self) -> int:
        """As many rows as take `slice_us` beyond what a turn takes by itself, or less where it would be an absence."""
        rows, us = zip(*self._turns, strict=True)
        if len(set(rows)) > 1:
            row_us, alone_us = linear_regression(rows, us)
            if alone_us < 0:
                row_us, alone_us = linear_regression(rows, us, proportional=True)
        else:
            row_us, alone_us = sum(us) / sum(rows), 0.0
        if row_us <= 0:
            return self._timing.slice_rows
        budget_us = max(0.0, min(self._timing.slice_us, self._timing.gap_us - alone_us))
        return int(min(budget_us / row_us, self._timing.slice_rows))

    def takes(self, n: int, rows: int, most: int, passed: int) -> bool:
        """Whether a bucket of `rows` rows may run in this turn too.

        Args:
            n: it would be the n-th of at most `most`, counted from 0. passed: how many buckets the turn has left behind
                by then, those without rows included.
        """
        total = self._ran + rows
        fits = total <= self.rows or (passed < self.least_buckets and total <= self._timing.slice_rows)
        if n and not (n < most and fits):
            self._cut = True
            return False
        self._ran = total
        return True
