"""How far a node has been published, as the log tells (R10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from borealis_py.log import topics
from borealis_py.log.base import Feed, Lookup, Record
from borealis_py.log.corrected import letter_bucket, read_progress, row_id
from borealis_py.log.description import Life
from sunion.errors import RetentionLost

T = TypeVar("T")

_WINDOWS = (32, 4_096)


class ProgressLost(RetentionLost):
    """Neither the progress nor what was published tells how far it got: no start would find it either."""


@dataclass(frozen=True, slots=True)
class Published:
    """What one node has published. `corrected`: it has a corrected stream, not only dead letters."""

    app: str
    node: str
    corrected: bool
    life: Life
    origin: int

    def upto(self, lookup: Lookup, closed: int | None = None) -> int | None:
        """The first bucket that is not published; None: nothing was ever.

        The last progress record that can be believed says so. Where there is none, because other bytes have displaced
        it from the compacted topic, what was published does: the rows and the dead letters of a bucket are committed
        together, and in the order of buckets.

        Args:
            closed: first bucket that the inputs leave open: progress above it cannot be believed. None: any can.

        Raises:
            ProgressLost: retention has deleted what would tell. LogError: the log could not be read.
        """
        said = self.said(lookup)
        if said is not None and (closed is None or said <= closed):
            return said
        found = [self._letters(lookup)]
        if self.corrected:
            found.append(self._rows(lookup))
        return max((bucket + 1 for bucket in found if bucket is not None), default=None)

    def said(self, lookup: Lookup) -> int | None:
        """What the last progress record says that says anything. Raises LogError."""
        feed = Feed(topics.progress(self.app, self.node))
        return last(lookup, feed, lambda record: read_progress(record, self.life, self.origin))

    def _rows(self, lookup: Lookup) -> int | None:
        feed = topics.corrected(self.app, self.node)
        found = last(lookup, feed, _row_bucket)
        if found is None and lookup.bounds(feed)[0] > 0:
            raise ProgressLost(
                f"{self.node}: nothing tells how far {feed.topic} was written: its progress topic "
                f"{topics.progress(self.app, self.node)} holds no record of ours, and retention has deleted its rows. "
                "`--reset` starts the app anew"
            )
        return found

    def _letters(self, lookup: Lookup) -> int | None:
        return last(lookup, Feed(topics.deadletter(self.app)), lambda record: letter_bucket(record, self.node))


def last(lookup: Lookup, feed: Feed, says: Callable[[Record], T | None]) -> T | None:
    """What the last record says that says anything.

    Markers of transactions and compaction leave holes, hence windows of growing size.

    Raises:
        LogError: the log could not be read.
    """
    first, end = lookup.bounds(feed)
    for size in (*_WINDOWS, end - first):
        found: T | None = None
        for record in lookup.read(feed, max(first, end - size), end):
            said = says(record)
            found = found if said is None else said
        if found is not None or end - size <= first:
            return found
    return None


def _row_bucket(record: Record) -> int | None:
    try:
        return row_id(record).bucket
    except (KeyError, ValueError):
        return None  # no row of ours
