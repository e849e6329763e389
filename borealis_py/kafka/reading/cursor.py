"""What a reader keeps of a feed: where it stands, and runs of records that have arrived."""

from __future__ import annotations

from dataclasses import dataclass

from borealis_py.log.base import Feed, LogError, OffsetBeyond, OffsetGone, Record


class FeedCursor:
    """One opening of a feed. Its identity distinguishes records read for it from those read for an older one."""

    __slots__ = ("_doubted", "failure", "next", "position")

    def __init__(self, offset: int) -> None:
        self.position = offset  # for the caller of poll
        self.next = offset  # for the thread
        self.failure: LogError | None = None
        self._doubted = False

    def out_of(self, feed: Feed, first: int, end: int) -> OffsetGone | OffsetBeyond | None:
        """Its failure if the log holds offsets [first, end) alone; None: none, or the log is to be asked again. That it
        lies below them must be told twice: a topic that was just made has told wrong bounds once."""
        doubted, self._doubted = self._doubted, self.next < first
        if self.next > end:
            return OffsetBeyond(feed, self.next, end)
        return OffsetGone(feed, self.next, first) if doubted and self._doubted else None


@dataclass(slots=True)
class FeedRun:
    """`records` of one `feed`, read for `cursor`, of `size` bytes. `after`: the offset after them and after markers."""

    feed: Feed
    cursor: FeedCursor
    records: list[Record]
    after: int
    size: int = 0
