"""How late rows come, as percentiles: a histogram of fixed size, whatever it is fed. Pure.

Lateness of a row: how far its stime lies behind what its publisher's boundary would be without any lateness allowed
(the clock, or the largest stime so far). A publisher with at least this lateness would have taken the row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_FINE = 16
"""Steps for each doubling: a percentile is at most a sixteenth too high."""


@dataclass(slots=True)
class Lateness:
    """Counts rows by how late they came. All times in microseconds; a row that was not late counts as 0."""

    rows: int = 0
    max_us: int = 0
    _counts: dict[int, int] = field(default_factory=dict)

    def add(self, late_us: int, rows: int = 1) -> None:
        """So many rows came so late."""
        late_us = max(0, late_us)
        self.rows += rows
        self.max_us = max(self.max_us, late_us)
        step = _step(late_us)
        self._counts[step] = self._counts.get(step, 0) + rows

    def percentile(self, share: float) -> int:
        """The lateness (us) that this share of the rows (0 to 1) do not exceed; 0 without rows."""
        left = share * self.rows
        for step in sorted(self._counts):
            left -= self._counts[step]
            if left <= 0:
                return min(_upper(step), self.max_us)
        return self.max_us


def _step(value: int) -> int:
    """Number of the step that a value falls into: exact below 16, then sixteen for each doubling."""
    shift = max(0, value.bit_length() - _FINE.bit_length())
    return shift * _FINE + (value >> shift)


def _upper(step: int) -> int:
    """The largest value of a step."""
    shift = max(0, step // _FINE - 1)
    return ((step - shift * _FINE + 1) << shift) - 1
