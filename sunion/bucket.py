"""Arithmetic of buckets: time cut by stime into pieces of one width."""

from __future__ import annotations

from dataclasses import dataclass

from sunion.model import FOREVER
from sunion.units import Bucket, StimeUs


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets of `width_us`, a positive whole number of milliseconds (Kafka's timestamps are milliseconds)."""

    width_us: int

    def __post_init__(self) -> None:
        if self.width_us <= 0 or self.width_us % 1000:
            raise ValueError(f"bucket width must be a positive whole number of milliseconds, got {self.width_us} us")

    def of(self, stime: int) -> Bucket:
        """The bucket that holds `stime`."""
        return Bucket(stime // self.width_us)

    def start(self, bucket: int) -> StimeUs:
        """The first stime of the bucket."""
        return StimeUs(bucket * self.width_us)

    def end(self, bucket: int) -> StimeUs:
        """The first stime after the bucket."""
        return StimeUs((bucket + 1) * self.width_us)

    def closed_by(self, boundary: int) -> Bucket:
        """The first bucket that `boundary` leaves open: it closes those that end at or before it."""
        return Bucket(boundary // self.width_us)

    def timestamp_ms(self, bucket: int) -> int:
        """Kafka timestamp of a record about this bucket (A3.1)."""
        return self.start(bucket) // 1000

    @property
    def last(self) -> Bucket:
        """No bucket at or above this one ever holds rows: END closes every bucket below it."""
        return Bucket(FOREVER // self.width_us)
