"""Where windows that each key has of its own begin and end: at a number of rows, or where a key was silent for a time.

Pure functions of places and stimes; they know no keys, no state and no columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from borealis_py.query.units import format_duration

NEVER = 2**63 - 1
"""The end of a window that only more rows can close."""


@dataclass(frozen=True)
class RowsByKey:
    """Rows sorted by (key, total order), in parallel: the number of the `key`, from 0, and the `stimes`.

    Of each key the window that was open before them: the place of its last row (`open_place`; -1: none was open), the
    stimes of its first row (`open_start`) and of its last one (`open_last`).
    """

    key: np.ndarray
    stimes: np.ndarray
    open_place: np.ndarray
    open_start: np.ndarray
    open_last: np.ndarray

    def firsts(self) -> np.ndarray:
        """Whether each row is the first one of its key."""
        found: np.ndarray = np.diff(self.key, prepend=-1) != 0
        return found

    def windows(self, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(place in its window from 0, stime of the window's first row) of each row, where these begin windows."""
        count = len(self.key)
        at = np.maximum.accumulate(np.where(begins | self.firsts(), np.arange(count), 0))
        place, start = np.arange(count) - at, self.stimes[at]
        goes_on = ~begins[at]
        key = self.key[goes_on]
        place[goes_on] += self.open_place[key] + 1
        start[goes_on] = self.open_start[key]
        return place, start


class WindowRule(ABC):
    """Where windows begin and end. As text it is what its user wrote."""

    @property
    @abstractmethod
    def by_time(self) -> bool:
        """Whether time alone closes a window."""

    @abstractmethod
    def begins(self, rows: RowsByKey) -> np.ndarray:
        """Whether each row begins a window."""

    @abstractmethod
    def ends(self, place: np.ndarray, start: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The end (exclusive, in microseconds) of windows, of whose last row this is the place and the stime."""

    @abstractmethod
    def needed(self, place: np.ndarray, ends: np.ndarray, now: int) -> np.ndarray:
        """How many of the last rows of each key are needed at the stime `now`, from the place and `ends` of its last
        one; more if it has fewer."""

    @abstractmethod
    def hiding(self, place: np.ndarray) -> np.ndarray:
        """Whether rows are only there to say that the window before them is closed."""


@dataclass(frozen=True)
class CountRule(WindowRule):
    """Windows of `rows` rows, each after the one before. The last row closes its window; it hides the others."""

    rows: int

    def __str__(self) -> str:
        return f"window(rows={self.rows})"

    @property
    def by_time(self) -> bool:
        return False

    def begins(self, rows: RowsByKey) -> np.ndarray:
        index = np.arange(len(rows.key))
        first = np.maximum.accumulate(np.where(rows.firsts(), index, 0))
        found: np.ndarray = (rows.open_place[rows.key] + 1 + index - first) % self.rows == 0
        return found

    def ends(self, place: np.ndarray, start: np.ndarray, last: np.ndarray) -> np.ndarray:
        return np.where(place == self.rows - 1, last + 1, NEVER)

    def needed(self, place: np.ndarray, ends: np.ndarray, now: int) -> np.ndarray:
        return np.where(self.hiding(place), 1, place + 1)

    def hiding(self, place: np.ndarray) -> np.ndarray:
        found: np.ndarray = place == self.rows - 1
        return found


@dataclass(frozen=True)
class SessionRule(WindowRule):
    """Windows of rows less than `gap_us` apart, each shorter than `most_us` (microseconds). A row that comes `gap_us`
    after the one before, or `most_us` after the first of its window, begins the next."""

    gap_us: int
    most_us: int

    def __str__(self) -> str:
        return f'window(gap="{format_duration(self.gap_us)}", most="{format_duration(self.most_us)}")'

    @property
    def by_time(self) -> bool:
        return True

    def begins(self, rows: RowsByKey) -> np.ndarray:
        firsts, stimes = rows.firsts(), rows.stimes
        opened = rows.open_place[rows.key] >= 0
        before = np.where(firsts, rows.open_last[rows.key], np.roll(stimes, 1))
        begins: np.ndarray = (firsts & ~opened) | (stimes - before >= self.gap_us)
        self._cut(rows, np.flatnonzero(begins | firsts), begins)
        return begins

    def _cut(self, rows: RowsByKey, at: np.ndarray, begins: np.ndarray) -> None:
        """Let windows begin where those that begin or go on at the rows `at` are too long."""
        starts = np.where(begins[at], rows.stimes[at], rows.open_start[rows.key[at]])
        past = np.append(at[1:], len(begins))[: len(at)]
        long = rows.stimes[past - 1] - starts >= self.most_us
        if not long.any():
            return
        stimes = rows.stimes.tolist()
        for row, end, start in zip(at[long].tolist(), past[long].tolist(), starts[long].tolist(), strict=True):
            while (row := bisect_left(stimes, start + self.most_us, row, end)) < end:
                begins[row], start = True, stimes[row]

    def ends(self, place: np.ndarray, start: np.ndarray, last: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.minimum(last + self.gap_us, start + self.most_us)
        return found

    def needed(self, place: np.ndarray, ends: np.ndarray, now: int) -> np.ndarray:
        return np.where(ends <= now, 0, place + 1)

    def hiding(self, place: np.ndarray) -> np.ndarray:
        return np.zeros(len(place), dtype=bool)
