"""When windows by time begin and end: at equal distances, or at local times of a zone, where days have 23 to 25 hours.

Times are numbers of buckets. Of two windows the one that ends later begins later or at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import numpy as np

from borealis_py.engine.sql.zones import DAY_US, SECOND_US, NoZone, check_zone, first_instants, longest_us
from borealis_py.query.plan import TopOp, WindowApplyOp, WindowOp
from borealis_py.query.units import format_duration

_AT_ONCE_US = 16 * 365 * DAY_US
"""Windows of so many years are found together."""
_CHECKED_US = 128 * 365 * DAY_US
"""Rules of zones repeat long before that year."""


class WindowTimes(ABC):
    """The begins and ends of all windows of an operator. A window is [begin, end)."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The longest window, in buckets: at least one."""

    @abstractmethod
    def next_end(self, cursor: int) -> int:
        """The end of the first window that ends after bucket `cursor` has begun."""

    @abstractmethod
    def begin(self, end: int) -> int:
        """The begin of the window with this end."""

    @abstractmethod
    def between(self, cursor: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Begins and ends of the windows that end after `cursor`, at `last` or before; both ascend."""

    def last_end(self, since_us: int, width_us: int) -> int:
        """When the last window that begins before `since_us` ends, in microseconds; `since_us`, if it ends before.

        Args:
            width_us: of a bucket.
        """
        at = since_us // width_us
        begins, ends = self.between(at - 1, at + self.longest + 1)
        found = ends[begins * width_us < since_us]
        return max(since_us, int(found[-1]) * width_us) if len(found) else since_us

    def begins(self, ends: np.ndarray) -> np.ndarray:
        """The begins of windows with these ends."""
        return np.array([self.begin(end) for end in ends.tolist()], dtype=np.int64)


@dataclass(frozen=True)
class EqualTimes(WindowTimes):
    """Windows of `size` buckets that end `offset` after multiples of `every`."""

    size: int
    every: int
    offset: int

    @property
    def longest(self) -> int:
        return self.size

    def next_end(self, cursor: int) -> int:
        return ((cursor - self.offset) // self.every + 1) * self.every + self.offset

    def begin(self, end: int) -> int:
        return end - self.size

    def between(self, cursor: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        ends = np.arange(self.next_end(cursor), last + 1, self.every)
        return ends - self.size, ends

    def begins(self, ends: np.ndarray) -> np.ndarray:
        found: np.ndarray = ends - self.size
        return found


@dataclass(frozen=True)
class ZoneTimes(WindowTimes):
    """Windows of whole local days of a `zone`: `size_us` long by its clocks, which show `offset_us` after a multiple of
    `every_us` since 1970-01-01T00:00 where one ends. Buckets are `width_us` microseconds wide.

    Its windows begin and end with buckets since 1970 (`check`).
    """

    zone: str
    size_us: int
    every_us: int
    offset_us: int
    width_us: int

    @property
    def longest(self) -> int:
        return -(-longest_us(self.zone, self.size_us, self.offset_us) // self.width_us)

    def next_end(self, cursor: int) -> int:
        part = self._part_of(cursor)
        while True:
            _, ends = self._part(part)
            at = bisect_right(ends, cursor)
            if at < len(ends):
                return ends[at]
            part += 1

    def begin(self, end: int) -> int:
        part = self._part_of(end - 1)
        while True:
            begins, ends = self._part(part)
            at = bisect_right(ends, end - 1)
            if at < len(ends):
                return begins[at]
            part += 1

    def between(self, cursor: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        begins, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        part = self._part_of(cursor)
        while True:
            some, others = self._part(part)
            low, high = bisect_right(others, cursor), bisect_right(others, last)
            begins.append(np.array(some[low:high], dtype=np.int64))
            ends.append(np.array(others[low:high], dtype=np.int64))
            if high < len(others):
                return np.concatenate(begins), np.concatenate(ends)
            part += 1

    def check(self) -> None:
        """Whether all windows of rows, whose times are after 1970 began, begin and end with a bucket. Raises NoZone."""
        if SECOND_US % self.width_us == 0:  # clocks are whole seconds from UTC
            return
        begins, ends = self._windows(-1, _CHECKED_US // self.every_us)
        wrong = ((begins % self.width_us != 0) | (ends % self.width_us != 0)) & (ends > 0)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            between = f"{_written(int(begins[at]))} to {_written(int(ends[at]))}"
            raise NoZone(
                f"zone={self.zone!r} has a window from {between}, and the app's bucket is "
                f'{format_duration(self.width_us)}: windows begin and end with a bucket; write App(bucket="1s"), or a '
                "bucket that divides a second"
            )

    @property
    def _count(self) -> int:
        return max(1, _AT_ONCE_US // self.every_us)

    def _part_of(self, cursor: int) -> int:
        """The first part that may have a window that ends after `cursor`."""
        return (cursor * self.width_us - self.offset_us - 2 * DAY_US) // (self.every_us * self._count)

    @lru_cache(maxsize=64)  # noqa: B019 - an operator lives as long as its process, and this is a value
    def _part(self, part: int) -> tuple[list[int], list[int]]:
        """Begins and ends of the windows of a part, in buckets."""
        first = part * self._count
        begins, ends = (at // self.width_us for at in self._windows(first - 1, first + self._count - 1))
        # A day that the zone left out ends where the one before it does, which has all that is in it.
        new = np.flatnonzero(ends[1:] > ends[:-1]) + 1
        return begins[new].tolist(), ends[new].tolist()

    def _windows(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Begins and ends of the windows from number `first` to `last`, in microseconds."""
        shown = np.arange(first, last + 1, dtype=np.int64) * self.every_us + self.offset_us
        return first_instants(self.zone, shown - self.size_us), first_instants(self.zone, shown)


def times_of(op: WindowOp | TopOp | WindowApplyOp, bucket_us: int) -> WindowTimes:
    """When the windows of an operator begin and end. Raises NoZone."""
    if op.zone is None:
        return EqualTimes(op.size_us // bucket_us, op.every_us // bucket_us, op.offset_us // bucket_us)
    check_zone(op.zone)
    found = ZoneTimes(op.zone, op.size_us, op.every_us, op.offset_us, bucket_us)
    found.check()
    return found


def _written(us: int) -> str:
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us):%Y-%m-%d %H:%M:%S}Z"
