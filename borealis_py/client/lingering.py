"""When a batch leaves: a bucket's width after its first row at the latest, a large one before its bucket ends. Pure."""

from __future__ import annotations

EARLY = 0.7
"""After this part of a bucket's width a large batch leaves: late enough to be most of the bucket, early enough to be
decoded when the bucket ends."""


class Lingering:
    """The current batch's time.

    Args:
        early: whether large batches leave before a bucket's width has passed.
    """

    def __init__(self, bucket_us: int, early: bool) -> None:
        self.begun = 0
        """Number of batches begun."""
        self._bucket_us = bucket_us
        self._early = early
        self._since_us: int | None = None

    def begin(self, raw_us: int) -> None:
        """Another batch begins."""
        self._since_us = raw_us
        self.begun += 1

    @property
    def end_us(self) -> int | None:
        """When the last batch must leave; None: there was none."""
        return None if self._since_us is None else self._since_us + self._bucket_us

    def over(self, raw_us: int) -> bool:
        """Whether the batch must leave: it has waited long enough, or the clock was set back meanwhile."""
        since = self._since_us
        return since is not None and not since <= raw_us < since + self._bucket_us

    def early(self, raw_us: int) -> bool:
        """Whether a large batch may leave: when its bucket ends, readers then have only the rest to decode."""
        return self._early and self._since_us is not None and raw_us >= self._since_us + EARLY * self._bucket_us
