"""Bucket numbers in ascending order, for whatever is kept by bucket: what lies in a range is found without a scan."""

from __future__ import annotations

from bisect import bisect_left, insort


class Ascending:
    """Distinct bucket numbers. Adding one at the end, where nearly all are added, costs nothing much."""

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
        """Those of [first, end), the lowest `most` of them."""
        low, high = bisect_left(self._buckets, first), bisect_left(self._buckets, end)
        return self._buckets[low : high if most is None else min(high, low + most)]

    def take_below(self, bucket: int) -> list[int]:
        """Those below a bucket, which are no longer among these."""
        at = bisect_left(self._buckets, bucket)
        taken, self._buckets[:at] = self._buckets[:at], []
        return taken
