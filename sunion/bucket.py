"""Arithmetic of buckets: time cut by stime into pieces of one width."""

from __future__ import annotations

from dataclasses import dataclass

from sunion.model import FOREVER


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets of `width_us`, a positive whole number of milliseconds (Kafka's timestamps are milliseconds)."""

    width_us: int

    def __post_init__(self) -> None:
        if self.width_us <= 0 or self.width_us % 1000:
            raise ValueError(f"bucket width must be a positive whole number of milliseconds, got {self.width_us} us")

    def of(self, stime: int) -> int:
        """The bucket that holds `stime`."""
        return stime // self.width_us

    def start(self, bucket: int) -> int:
        """The first stime of the bucket."""
        return bucket * self.width_us

    def end(self, bucket: int) -> int:
        """The first stime after the bucket."""
        return (bucket + 1) * self.width_us

    def closed_by(self, boundary: int) -> int:
        """The first bucket that `boundary` leaves open: it closes those that end at or before it."""
        return boundary // self.width_us

    def timestamp_ms(self, bucket: int) -> int:
        """Kafka timestamp of a record about this bucket (PROTOCOL 1.3)."""
        return self.start(bucket) // 1000

    @property
    def last(self) -> int:
        """No bucket at or above this one ever holds anything: where END closes to."""
        return FOREVER // self.width_us
