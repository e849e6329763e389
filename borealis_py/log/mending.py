"""Repairs transactions of earlier writers that a broker has not ended, or has ended wrongly (R10).

A broker that was away can record a transaction as committed or aborted without writing its end marker into every
partition. Records there hang: read_committed readers stop before them, and the next end marker of the same
transactional id, commit or abort, ends them too. Only one id writes a node's progress and corrected stream: after
fencing, nothing may hang there.
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
"""How many offsets back dead letters are searched: all nodes of an app share their topic."""
_VAIN = "in-vain"


@dataclass(frozen=True, slots=True)
class Mender:
    """Examines one node. It decides from the log alone, so that whoever takes over after a crash resumes the repair.

    Attributes:
        published: the node, and where its published output lies.
        upto: reads how far the node is published (`Published.upto`).
        known: this process knows that everything below this bucket was committed; None: it has committed nothing yet.
        progress: makes this writer's progress record for a bucket.
    """

    published: Published
    upto: Resume
    known: int | None
    progress: Callable[[int], Progress]

    def next(self, committed: Lookup, raw: Lookup) -> Mend | None:
        """The next repair; None: none is needed.

        First, hanging records are ended by an aborted transaction. Then the records visible in any partition show how
        far was committed; whatever of that is hidden in another partition is written again as it is in the log.

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
        """One record per partition. It names the node, so that the node recognises it if it hangs itself."""
        feeds = (self._progress_feed, self._letters_feed, *([self._corrected_feed] if self.published.corrected else []))
        headers = (("node", self.published.node.encode()), (_VAIN, b"1"))
        return tuple(NewRecord(feed, b"", b"0", None, headers) for feed in feeds)

    # What hangs -------------------------------------------------------------------------------------------------------

    def _hanging(self, committed: Lookup, raw: Lookup) -> str | None:
        """Where records hang, human-readable; None: nowhere. The log's end is read first, so that later records never
        seem to hang.
        """
        mine = [self._progress_feed, *([self._corrected_feed] if self.published.corrected else [])]
        ends = [(feed, raw.bounds(feed)[1], committed.bounds(feed)[1]) for feed in (*mine, self._letters_feed)]
        for feed, end, stable in ends:
            if stable < end and (feed in mine or any(self._mine(r) for r in raw.read(feed, stable, end))):
                return f"{feed.topic}[{feed.partition}] at offset {stable}"
        return None

    def _mine(self, record: Record) -> bool:
        """Whether this node wrote the record into the dead-letter topic, which all nodes of an app share.

        Finished transactions behind the open one of another node look as if they hung. Ending them again is harmless,
        and the other transaction ends soon; until then the two cases cannot be told apart.
        """
        return told_by(record, self.published.node)

    # What is hidden ---------------------------------------------------------------------------------------------------

    def _visible(self, committed: Lookup, raw: Lookup) -> tuple[int | None, int, int]:
        """The bucket up to which rows or dead letters are visible; the offsets after the last
        visible row and letter.
        """
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
        """Rows below bucket `upto` after the last visible one, each once, in order."""
        if not self.published.corrected:
            return []
        found: dict[TupleId, NewRecord] = {}
        for record in raw.read(self._corrected_feed, first, raw.bounds(self._corrected_feed)[1]):
            placed = _placed(record)
            if placed is not None and placed[0].bucket < upto:
                found[placed[0]] = _again(record)
        return _in_order(found)

    def _letters(self, raw: Lookup, first: int, upto: int) -> list[NewRecord]:
        """Likewise dead letters. Those of a bucket are committed together: only buckets after the last visible one."""
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
        return None  # not written by us


def _again(record: Record, stamped: bool = True) -> NewRecord:
    at = record.timestamp_ms if stamped else None
    return NewRecord(record.feed, record.value, record.key, at, record.headers)
