"""Bucket numbers in ascending order, so that state kept by bucket can be looked up by range without a scan."""

from __future__ import annotations

from bisect import bisect_left, insort


class Ascending:
    """Distinct bucket numbers. Appending at the end, by far the most frequent case, is O(1)."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: list[int] = []

    def add(self, bucket: int) -> None:
        buckets = self._buckets
        if not buckets or bucket > buckets[-1]:
            buckets.append(bucket)
        elif buckets[bisect_left(buckets, bucket)] != bucket:
            insort(buckets, bucket)

    def between(self, first: int, end: int, most: int | None = None) -> list[int]:
        """The buckets in [first, end), at most the lowest `most` of them."""
        low, high = bisect_left(self._buckets, first), bisect_left(self._buckets, end)
        return self._buckets[low : high if most is None else min(high, low + most)]

    def take_below(self, bucket: int) -> list[int]:
        """Remove and return the buckets below `bucket`."""
        at = bisect_left(self._buckets, bucket)
        taken, self._buckets[:at] = self._buckets[:at], []
        return taken
