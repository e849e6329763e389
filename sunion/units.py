"""What an integer counts. At runtime these are ints; a type checker refuses one kind where another is wanted."""

from __future__ import annotations

from typing import NewType

Bucket = NewType("Bucket", int)
"""Number of a bucket: its stimes are [bucket * width, (bucket + 1) * width). As an `end` or a frontier: the first
bucket that is not meant."""
StimeUs = NewType("StimeUs", int)
"""Event time in microseconds since 1970."""
MonotonicUs = NewType("MonotonicUs", int)
"""Microseconds of this process's monotonic clock: only differences mean anything, and only within the process."""
WallUs = NewType("WallUs", int)
"""Microseconds since 1970 by this machine's clock, which may jump."""
Offset = NewType("Offset", int)
"""Place of a record in a topic partition."""

NOWHERE = Bucket(-1)
"""Below every bucket: there is none."""
