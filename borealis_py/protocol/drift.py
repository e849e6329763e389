"""Sources that speak, and always too late: their clocks drift apart by more than D (B23).

The fastest clock creates the buckets, so each of them runs without the slow source, for ever. Nobody fails then; only
this tells. Who catches up is not named, nor who is silent.
"""

from __future__ import annotations

from dataclasses import dataclass

WATCH_US = 10_000_000
"""How long a source must be behind before it is named."""
AGAIN_US = 60_000_000
"""How long until it is named again."""
SILENT_US = 2_000_000
"""A longer silence starts the watch anew."""


@dataclass(slots=True)
class Drift:
    """One source. Times in microseconds of the local monotonic clock. `width`: of a bucket."""

    width: int
    since: int | None = None
    was: int = 0
    """How far it was behind then."""
    spoke: int = 0
    told: int | None = None

    def closed(self, now: int, behind: int, wait: int) -> bool:
        """It closed a bucket, `behind` the fastest source. True: that is to be told.

        Args:
            wait: D.
        """
        if behind <= wait:
            self.since = None
            return False
        silent, self.spoke = now - self.spoke > SILENT_US, now
        if self.since is None or silent or behind < self.was - max(self.width, self.was // 20):
            self.since, self.was = now, behind
        if now - self.since < WATCH_US or (self.told is not None and now - self.told < AGAIN_US):
            return False
        self.told = now
        return True
