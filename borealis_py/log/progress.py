"""How far a node has been published, according to the log (R10.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from borealis_py.log import topics
from borealis_py.log.acks import published_by
from borealis_py.log.base import Feed, Lookup, Record
from borealis_py.log.corrected import letter_bucket, read_progress, row_id
from borealis_py.log.description import Life
from sunion.errors import RetentionLost

T = TypeVar("T")

_WINDOWS = (32, 4_096)


class ProgressLost(RetentionLost):
    """Neither the progress topic nor what was published shows how far the node got; restarting would not help."""


@dataclass(frozen=True, slots=True)
class Published:
    """The published output of `node`, in the `life` of `app`. `origin`: the app's first bucket; progress below it
    does not count. `corrected`: it has a corrected stream, not only dead letters. `gap`: it may lose buckets (R18)."""

    app: str
    node: str
    corrected: bool
    life: Life
    origin: int
    gap: bool = False

    def upto(self, lookup: Lookup, closed: int | None = None) -> int | None:
        """The first bucket that is not published; None: nothing was ever published.

        The last credible progress record determines it. If there is none, because other bytes have displaced it from
        the compacted topic, the published records do: the rows and dead letters of a bucket are committed together, and
        in bucket order. What replicas have acknowledged as published counts, too: behind the last row lie buckets
        without output, and replicas' topics need not hold them any more (R10.7).

        Args:
            closed: first bucket that the inputs leave open; progress above it is not credible. None: any is.

        Raises:
            ProgressLost: retention has deleted the records that would show it.
            LogError: the log could not be read.
        """
        said = self.said(lookup)
        if said is not None and (closed is None or said <= closed):
            return said
        floor = self.floor(lookup)
        floor = None if floor is None or (closed is not None and floor > closed) else floor
        feed, rows = topics.corrected(self.app, self.node), None
        if self.corrected:
            rows = self._last(lookup, feed, _row_bucket, needed=floor is None)
        needed = rows is None and floor is None
        letters = self._last(lookup, Feed(topics.deadletter(self.app)), self._letter_bucket, needed)
        told = (bucket + 1 for bucket in (rows, letters) if bucket is not None)
        return max((*told, *(() if floor is None else (floor,))), default=None)

    def floor(self, lookup: Lookup) -> int | None:
        """The bucket below which replicas have acknowledged all as published; None: none has. Raises LogError."""
        return published_by(lookup, self.app, self.life, self.node)

    def said(self, lookup: Lookup) -> int | None:
        """The bucket of the last valid progress record; None: there is none. Raises LogError."""
        feed = Feed(topics.progress(self.app, self.node))
        return last(lookup, feed, lambda record: read_progress(record, self.life, self.origin))

    def _last(self, lookup: Lookup, feed: Feed, says: Callable[[Record], int | None], needed: bool) -> int | None:
        found = last(lookup, feed, says)
        if found is None and needed and lookup.bounds(feed)[0] > 0:
            raise ProgressLost(
                f"{self.node}: nothing tells how far it wrote to {feed.topic}: its progress topic "
                f"{topics.progress(self.app, self.node)} holds no record of ours, and retention has deleted the start "
                f"of {feed.topic}. `--reset` starts the app anew"
            )
        return found

    def _letter_bucket(self, record: Record) -> int | None:
        return letter_bucket(record, self.node)


def last(lookup: Lookup, feed: Feed, says: Callable[[Record], T | None], most: int | None = None) -> T | None:
    """The value of the last record for which `says` returns one; None: there is none in the last `most` offsets (None:
    in the log).

    Transaction markers and compaction leave holes, hence windows of growing size.

    Raises:
        LogError: the log could not be read.
    """
    first, end = lookup.bounds(feed)
    first = first if most is None else max(first, end - most)
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
        return None  # not written by us
