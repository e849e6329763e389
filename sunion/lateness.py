"""Percentiles of how late rows arrive, from a histogram of bounded size. Pure.

Lateness of a row: how far its stime lies behind the boundary its publisher would have with zero lateness (the clock,
or the largest stime so far). A publisher with at least this lateness would have accepted the row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

_FINE = 16
"""Histogram steps per doubling: a percentile is too high by a sixteenth at most."""
_FINE_BITS = _FINE.bit_length()


@dataclass(slots=True)
class Lateness:
    """Counts rows by lateness, in microseconds; a row that was not late counts as 0. `rows`: how many were counted.
    `max_us`: the largest lateness; 0: none was late."""

    rows: int = 0
    max_us: int = 0
    _counts: defaultdict[int, int] = field(default_factory=partial(defaultdict, int))

    def add(self, late_us: int, rows: int = 1) -> None:
        """Count `rows` rows that were `late_us` late."""
        if late_us < 0:
            late_us = 0
        self.rows += rows
        if late_us > self.max_us:
            self.max_us = late_us
        shift = late_us.bit_length() - _FINE_BITS  # `_step` inlined: a publisher calls this for every row
        self._counts[shift * _FINE + (late_us >> shift) if shift > 0 else late_us] += rows

    def add_all(self, late_us: Iterable[int]) -> None:
        """Count one row for each value: the same result as `add` for each of them, but faster."""
        ordered, at = sorted(late_us), 0
        while at < len(ordered):
            value = max(0, ordered[at])
            end = bisect_right(ordered, _upper(_step(value)), at)
            self.add(value, end - at)
            at = end
        if ordered:
            self.max_us = max(self.max_us, ordered[-1])

    def percentile(self, share: float) -> int:
        """The lateness (us) that `share` (0 to 1) of the rows do not exceed; 0 without rows."""
        if share >= 1:
            return self.max_us
        left = share * self.rows
        for step in sorted(self._counts):
            left -= self._counts[step]
            if left <= 0:
                return min(_upper(step), self.max_us)
        return self.max_us


def _step(value: int) -> int:
    """Number of the step that a value falls into: exact below 16, then sixteen for each doubling."""
    shift = value.bit_length() - _FINE_BITS
    return shift * _FINE + (value >> shift) if shift > 0 else value


def _upper(step: int) -> int:
    """The largest value of a step."""
    shift = max(0, step // _FINE - 1)
    return ((step - shift * _FINE + 1) << shift) - 1
