"""What a writer finds of those before it that a broker has not ended, or has ended wrongly (R10).

A broker that was away can record a transaction as committed, or as aborted, without writing its end into all of its
partitions. What lies there hangs: read_committed readers wait before it, and the next end of the same transactional id
ends it too, whichever that is. Only one id writes a node's progress and its corrected stream: after fencing, nothing
may hang there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from borealis_py.log import topics
from borealis_py.log.base import Feed, Lookup, Mend, NewRecord, Record, Resume
from borealis_py.log.corrected import Progress, letter_bucket, letter_id, progress_record, row_id, told_by
from borealis_py.log.progress import Published, last
from sunion.model import TupleId

LETTERS_WINDOW = 4_096
"""So far back a node's dead letters are looked at: they share their topic with those of others."""
_VAIN = "in-vain"


@dataclass(frozen=True, slots=True)
class Mender:
    """Looks at one node. Decides from the log alone, so that whoever takes over after a crash goes on where it ended.

    Attributes:
        upto: how far it tells itself (`Published.upto`).
        known: everything below this bucket was committed, as this process was told.
        progress: makes this writer's progress of a bucket.
    """

    published: Published
    upto: Resume
    known: int | None
    progress: Callable[[int], Progress]

    def next(self, committed: Lookup, raw: Lookup) -> Mend | None:
        """What is to be done first; None: nothing.

        What hangs is ended by a transaction that is aborted. After that what can be seen in any of the partitions tells
        up to where was committed; what of that is hidden in another one is written again, as it lies there.

        Raises:
            ProgressLost, LogError: see `upto`.
        """
        hanging = self._hanging(committed, raw)
        if hanging is not None:
            return Mend(self._in_vain(), False, f"{hanging}: a transaction has no end: the broker lost its markers")
        visible, row, letter = self._visible(committed, raw)
        said = self.upto(committed)
        upto = max((b for b in (said, self.known, visible) if b is not None), default=None)
        if upto is None:
            return None
        again = (*self._rows(raw, row, upto), *self._letters(raw, letter, upto))
        if not again and said == upto:
            return None
        why = f"{self._progress_feed.topic}: below bucket {upto} the broker lost markers of what was committed"
        return Mend(
            (*again, self._record(upto)), True, f"{why}: {len(again)} records that nobody could see are written again"
        )

    @property
    def _progress_feed(self) -> Feed:
        return Feed(topics.progress(self.published.app, self.published.node))

    @property
    def _corrected_feed(self) -> Feed:
        return topics.corrected(self.published.app, self.published.node)

    @property
    def _letters_feed(self) -> Feed:
        return Feed(topics.deadletter(self.published.app))

    def _record(self, upto: int) -> NewRecord:
        return progress_record(self.published.app, self.published.node, self.progress(upto))

    def _in_vain(self) -> tuple[NewRecord, ...]:
        """A record for each partition. It names the node, so that one that hangs itself is known as its own."""
        feeds = (self._progress_feed, self._letters_feed, *([self._corrected_feed] if self.published.corrected else []))
        headers = (("node", self.published.node.encode()), (_VAIN, b"1"))
        return tuple(NewRecord(feed, b"", b"0", None, headers) for feed in feeds)

    # What hangs -------------------------------------------------------------------------------------------------------

    def _hanging(self, committed: Lookup, raw: Lookup) -> str | None:
        """Where, in words. All that lies there is asked for first: what comes meanwhile never looks as if it hung."""
        mine = [self._progress_feed, *([self._corrected_feed] if self.published.corrected else [])]
        ends = [(feed, raw.bounds(feed)[1], committed.bounds(feed)[1]) for feed in (*mine, self._letters_feed)]
        for feed, end, stable in ends:
            if stable < end and (feed in mine or any(self._mine(r) for r in raw.read(feed, stable, end))):
                return f"{feed.topic}[{feed.partition}] at offset {stable}"
        return None

    def _mine(self, record: Record) -> bool:
        """Whether this node has written it into the dead-letter topic, which all nodes of an app share.

        Behind the open transaction of another one, what has its end looks as if it hung. To end it again does no harm,
        and the other transaction is over soon; before that nothing can be told.
        """
        return told_by(record, self.published.node)

    # What is hidden ---------------------------------------------------------------------------------------------------

    def _visible(self, committed: Lookup, raw: Lookup) -> tuple[int | None, int, int]:
        """Up to where can be seen, by rows and letters; the offsets behind the last row and the last letter."""
        first, end = raw.bounds(self._letters_feed)
        start = max(first, end - LETTERS_WINDOW)
        buckets, row = [], 0
        letter = start
        for record in committed.read(self._letters_feed, start, committed.bounds(self._letters_feed)[1]):
            bucket = letter_bucket(record, self.published.node)
            if bucket is not None:
                buckets.append(bucket + 1)
                letter = record.offset + 1
        if self.published.corrected:
            found = last(committed, self._corrected_feed, _placed)
            row = committed.bounds(self._corrected_feed)[0] if found is None else found[1] + 1
            buckets += [] if found is None else [found[0].bucket + 1]
        return max(buckets, default=None), row, letter

    def _rows(self, raw: Lookup, first: int, upto: int) -> list[NewRecord]:
        """Rows below bucket `upto` that lie behind the last one that can be seen, each once, in their order."""
        if not self.published.corrected:
            return []
        found: dict[TupleId, NewRecord] = {}
        for record in raw.read(self._corrected_feed, first, raw.bounds(self._corrected_feed)[1]):
            placed = _placed(record)
            if placed is not None and placed[0].bucket < upto:
                found[placed[0]] = _again(record)
        return _in_order(found)

    def _letters(self, raw: Lookup, first: int, upto: int) -> list[NewRecord]:
        """Likewise dead letters. A bucket's are committed together: behind the last bucket of which one can be seen."""
        found: dict[TupleId, NewRecord] = {}
        for record in raw.read(self._letters_feed, first, raw.bounds(self._letters_feed)[1]):
            told = letter_id(record, self.published.node)
            if told is not None and told.bucket < upto:
                found[told] = _again(record, stamped=False)
        return _in_order(found)


def _in_order(found: Mapping[TupleId, NewRecord]) -> list[NewRecord]:
    return [found[at] for at in sorted(found)]


def _placed(record: Record) -> tuple[TupleId, int] | None:
    try:
        return row_id(record), record.offset
    except (KeyError, ValueError):
        return None  # no row of ours


def _again(record: Record, stamped: bool = True) -> NewRecord:
    at = record.timestamp_ms if stamped else None
    return NewRecord(record.feed, record.value, record.key, at, record.headers)
