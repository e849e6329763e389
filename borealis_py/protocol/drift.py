"""Detects sources that report, but always too late: clocks that drift apart by more than D (B23).

The fastest clock creates the buckets, so each of them runs without the slow source, for ever. No process fails then, so
only this check reports it. A source that catches up or is silent is not reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from borealis_py.protocol.delay import ALWAYS
from sunion.units import MonotonicUs

WATCH_US = 10_000_000
"""How long a source must be behind before it is reported."""
AGAIN_US = 60_000_000
"""How long until it is reported again."""
SILENT_US = 2_000_000
"""A longer silence of the source restarts the watch."""


@dataclass(slots=True)
class Drift:
    """The watch on one source. Times are microseconds, those of day of the local monotonic clock.

    Attributes:
        width_us: of a bucket.
        since: when the watch began; None: the source is not behind.
        was_us: how far the source was behind then.
        spoke: when it last closed a bucket.
        told: when it was last reported; None: never.
    """

    width_us: int
    since: MonotonicUs | None = None
    was_us: int = 0
    spoke: MonotonicUs = ALWAYS
    told: MonotonicUs | None = None

    def closed(self, now: MonotonicUs, behind_us: int, wait_us: int) -> bool:
        """The source closed a bucket. Returns whether to report that it is behind.

        Args:
            behind_us: by how much it is behind the fastest source. wait_us: D.
        """
        if behind_us <= wait_us:
            self.since = None
            return False
        silent, self.spoke = now - self.spoke > SILENT_US, now
        if self.since is None or silent or behind_us < self.was_us - max(self.width_us, self.was_us // 20):
            self.since, self.was_us = now, behind_us
        if now - self.since < WATCH_US or (self.told is not None and now - self.told < AGAIN_US):
            return False
        self.told = now
        return True
