"""Repairs transactions of earlier writers that a broker has not ended, or has ended wrongly (R10.8).

A broker that was away can record a transaction as committed or aborted without writing its end marker into every
partition. Records there hang: read_committed readers stop before them, and the next end marker of the same
transactional id, commit or abort, ends them too. Only one id writes a node's progress and corrected stream: after
fencing, nothing may hang there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from borealis_py.log import topics
from borealis_py.log.base import Feed, Lookup, Mend, NewRecord, Record, Resume
from borealis_py.log.corrected import (
    LostRange,
    Progress,
    gap_header,
    is_gap,
    letter_id,
    letter_of_gap,
    progress_record,
    read_gap,
    read_progress,
    row_id,
    told_by,
)
from borealis_py.log.progress import Published, last
from sunion.model import TupleId

LETTERS_WINDOW = 4_096
"""How many offsets back dead letters and gaps are searched: all nodes of an app share their topic, and progress comes
once a second."""
ROWS_WINDOW = 262_144
"""How many offsets back a row is searched that speaks against a gap."""
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
        seen = [(output, _last_visible(output, committed)) for output in self._outputs()]
        said = self.upto(committed)
        shown = max((b for b in (said, *(at.upto for _, at in seen if at is not None)) if b is not None), default=None)
        upto = max((b for b in (shown, self.known) if b is not None), default=None)
        if upto is None:
            return None
        # What only this process knows of may lie before what others have mended meanwhile.
        hidden = [
            _Hidden(output, record) for output, at in seen for record in _hidden(output, at, raw, upto, upto != shown)
        ]
        if hidden:
            lost = self._lost(committed, raw, hidden, said)
            hidden = [one for one in hidden if self._was_committed(one.record, one.output, lost)]
        again = [_as_it_is(one.record, one.output) for one in hidden]
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

    def _outputs(self) -> list[_Output]:
        letters = _Output(self._letters_feed, lambda r: letter_id(r, self.published.node), LETTERS_WINDOW, False)
        rows = [_Output(self._corrected_feed, _row_id, None, True)] if self.published.corrected else []
        gaps = [_Output(self._progress_feed, self._gap_id, LETTERS_WINDOW, False)] if self.published.gap else []
        return [*rows, letters, *gaps]

    def _lost(self, committed: Lookup, raw: Lookup, hidden: Sequence[_Hidden], said: int | None) -> list[LostRange]:
        """The gaps that were committed: the visible ones, few and maybe far back, and those of the hidden ones for
        which the log speaks. Where two hidden ones overlap, the later one."""
        feed = self._progress_feed
        shown = [gap for r in committed.read(feed, *committed.bounds(feed)) if (gap := self._gap(r)) is not None]
        told = [one.record for one in hidden if one.output.feed == feed]
        unseen = [(record.offset, gap) for record in told if (gap := self._gap(record)) is not None]
        if not unseen:
            return shown
        below = last(committed, feed, lambda record: self._credible(record, said)) or 0
        evidence = self._evidence(committed, raw)
        found = [*shown, *(gap for _, gap in unseen if evidence.names(gap))]
        for offset, gap in sorted(unseen, key=lambda one: one[0], reverse=True):
            own = self.known is not None and below < gap.end <= self.known
            may = (own or gap.first >= below) and not evidence.denies(gap, offset, max(gap.first, below))
            if may and not any(map(gap.overlaps, found)):
                found.append(gap)
        return found

    def _credible(self, record: Record, said: int | None) -> int | None:
        """The bucket of a progress record; None: it is none, or beyond what is published."""
        bucket = self._progress(record)
        return None if bucket is None or said is None or bucket > said else bucket

    def _progress(self, record: Record) -> int | None:
        return read_progress(record, self.published.life, self.published.origin)

    def _evidence(self, committed: Lookup, raw: Lookup) -> _Evidence:
        def newest(lookup: Lookup, feed: Feed) -> list[Record]:
            first, end = lookup.bounds(feed)
            return list(lookup.read(feed, max(first, end - LETTERS_WINDOW), end))

        told = [(r.offset, self._progress(r)) for r in newest(raw, self._progress_feed)]
        return _Evidence(
            self.published.node,
            newest(committed, self._letters_feed),
            newest(raw, self._letters_feed),
            [(offset, bucket) for offset, bucket in told if bucket is not None],
            lambda below: self._last_row(committed, below),
        )

    def _last_row(self, committed: Lookup, below: int) -> int | None:
        """The bucket of the last visible row below a bucket, if it is among the newest `ROWS_WINDOW`."""

        def bucket(record: Record) -> int | None:
            at = _row_id(record)
            return None if at is None or at.bucket >= below else at.bucket

        return last(committed, self._corrected_feed, bucket, ROWS_WINDOW) if self.published.corrected else None

    def _was_committed(self, record: Record, output: _Output, lost: Sequence[LostRange]) -> bool:
        """Whether something hidden was, as far as gaps show (R18.7): a row or dead letter of a bucket that was named
        lost later was not, or the bucket would be published."""
        if letter_of_gap(record):
            return any(gap_header(gap) in record.headers for gap in lost)
        if is_gap(record):
            return self._gap(record) in lost
        at = output.id(record)
        return at is None or not any(gap.first <= at.bucket < gap.end for gap in lost)

    def _gap(self, record: Record) -> LostRange | None:
        return read_gap(record, self.published.life)

    def _gap_id(self, record: Record) -> TupleId | None:
        lost = self._gap(record)
        return None if lost is None else TupleId(lost.end - 1, 0)


@dataclass(frozen=True, slots=True)
class _Output:
    """Rows, dead letters or gaps: where they lie, their ids, how many offsets back they are searched (None: all), and
    whether their time is their bucket's."""

    feed: Feed
    id: Callable[[Record], TupleId | None]
    window: int | None
    stamped: bool


@dataclass(frozen=True, slots=True)
class _Hidden:
    """A record of an output that nobody can see."""

    output: _Output
    record: Record


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What shows whether a gap was committed whose own record cannot be seen.

    Attributes:
        node: whose dead letters count.
        seen: dead letters that are visible. written: all that lie in the log.
        steps: offset and bucket of all progress that lies in the log.
        last_row: the bucket of the last visible row below a bucket; None: there is none.
    """

    node: str
    seen: Sequence[Record]
    written: Sequence[Record]
    steps: Sequence[tuple[int, int]]
    last_row: Callable[[int], int | None]

    def names(self, gap: LostRange) -> bool:
        """Whether its dead letter is visible."""
        return any(self._names(record, gap) for record in self.seen)

    def denies(self, gap: LostRange, offset: int, first: int) -> bool:
        """Whether buckets of it from `first` on were published: a row of them is visible, or what was written after the
        gap, which is at this offset, has a dead letter of them or progress between them."""
        row = self.last_row(gap.end)
        own = max((r.offset for r in self.written if self._names(r, gap)), default=0)
        return (
            (row is not None and row >= first)
            or any(r.offset > own and self._of(r, first, gap.end) for r in self.written)
            or any(at > offset and first < bucket < gap.end for at, bucket in self.steps)
        )

    def _names(self, record: Record, gap: LostRange) -> bool:
        return letter_id(record, self.node) is not None and gap_header(gap) in record.headers

    def _of(self, record: Record, first: int, end: int) -> bool:
        at = letter_id(record, self.node)
        return at is not None and not letter_of_gap(record) and first <= at.bucket < end


@dataclass(frozen=True, slots=True)
class _Last:
    """The last visible one."""

    id: TupleId
    offset: int
    timestamp_ms: int

    @property
    def upto(self) -> int:
        """All below this bucket was committed."""
        return self.id.bucket + 1


def _last_visible(output: _Output, committed: Lookup) -> _Last | None:
    def told(record: Record) -> _Last | None:
        at = output.id(record)
        return None if at is None else _Last(at, record.offset, record.timestamp_ms)

    return last(committed, output.feed, told, output.window)


def _hidden(output: _Output, seen: _Last | None, raw: Lookup, upto: int, mended: bool) -> list[Record]:
    """What lies in the log below bucket `upto` after the last visible one, each once, in order.

    Of a bucket all are committed together. Only what was `mended` may lie behind later ones, yet never before its time.
    """
    first, end = raw.bounds(output.feed)
    if output.window is not None:
        first = max(first, end - output.window)
    if seen is not None and not mended:
        first = seen.offset + 1
    elif seen is not None and output.stamped:
        first = raw.find(output.feed, seen.timestamp_ms)
    found: dict[TupleId, Record] = {}
    for record in raw.read(output.feed, first, end):
        at = output.id(record)
        if at is not None and at.bucket < upto and (seen is None or at > seen.id):
            found[at] = record
    return [found[at] for at in sorted(found)]


def _as_it_is(record: Record, output: _Output) -> NewRecord:
    stamp = record.timestamp_ms if output.stamped else None
    return NewRecord(record.feed, record.value, record.key, stamp, record.headers)


def _row_id(record: Record) -> TupleId | None:
    try:
        return row_id(record)
    except (KeyError, ValueError):
        return None  # not written by us
