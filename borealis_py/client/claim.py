"""How a publisher becomes the owner of its source, and learns that it no longer is (A2.3, B5).

It appends EPOCH, reads the log up to it, and only then trusts what it read: the fold at that point tells where to
resume. Only the end of the log before it is read (`tail`). Pure: it is fed with records and returns records to append;
it knows neither threads nor a clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.client.tail import FURTHER, TAIL_RECORDS, advanced, fold_at_end
from borealis_py.client.target import StreamEnded, StreamFenced, StreamForgotten, StreamTaken, Target
from borealis_py.log.base import NewRecord, Record
from borealis_py.log.description import Life
from borealis_py.log.records import BatchHeader, ClaimHeader, SourceHeader, pack
from borealis_py.log.source_tail import TailEntry, entry_of, header_of
from sunion.model import FOREVER
from sunion.source import SourceFold

WATCH_US = 1_500_000
"""How long a new publisher watches whether the current owner still writes; at least three buckets."""
_ATTEMPTS_MAX = 5


class Claim:
    """The steps to ownership: read the end of the log, watch the current owner, claim, read the claim back.

    Args:
        uid: of this process, unique forever.
        start, end: the bounds of the log when this began.
        take_over: do not check for another active publisher.
        lateness_us: how late this publisher's rows may arrive.
    """

    def __init__(
        self, target: Target, uid: str, start: int, end: int, take_over: bool = False, lateness_us: int = 0
    ) -> None:
        self.fold = SourceFold(target.buckets.start(target.origin))
        self.ready = False
        self.epoch = 0
        self.begin = max(start, end - TAIL_RECORDS)
        """The offset to read from; it moves back while the records after it do not determine the fold."""
        self._target = target
        self.life = Life(target.app_uid)
        self._uid = uid
        self._start = start
        self._end = end
        self._take_over = take_over
        self._lateness_us = lateness_us
        self._watch_us = max(WATCH_US, 3 * target.bucket_us)
        self._watching_since_us: int | None = None
        self._attempts = 0
        self._position = 0
        self._complete = False
        self._tail: list[TailEntry] = []

    @property
    def read_to(self) -> int:
        """All records below this offset were read, and none of them is a newer claim than this publisher's."""
        return self._position if self.ready else 0

    def read(self, records: Sequence[Record], position: int, now_us: int) -> None:
        """Take records of the source's log, and the reader's position after them. `begin` may change.

        Raises:
            StreamTaken, StreamEnded, StreamForgotten: before ownership.
            StreamFenced: after.
        """
        if self.ready:
            for record in records:
                if (header := header_of(record, self.life)) is not None:
                    self._owned(header)
        else:
            self._take(records, position, now_us)
        self._position = position

    def _take(self, records: Sequence[Record], position: int, now_us: int) -> None:
        """Take records before ownership: all that the fold goes by counts."""
        found = [entry_of(record, self.life) for record in records]
        entries = [entry for entry in found if entry is not None]
        if self._watching_since_us is None:
            self._tail += entries
            if position >= self._end:
                self._look(now_us)
        else:
            for entry in entries:
                self._one(entry, now_us)

    def claims(self, now_us: int) -> list[NewRecord]:
        """The EPOCH record, returned in the turn in which it is to be appended."""
        if self.epoch or self._watching_since_us is None or now_us < (self.next_wakeup() or now_us):
            return []
        return [self._claim()]

    def next_wakeup(self) -> int | None:
        """When watching ends (µs); None: only reading can make progress."""
        if self.epoch or self._watching_since_us is None:
            return None
        nobody = self._take_over or not self.fold.owner
        return self._watching_since_us + (0 if nobody else self._watch_us)

    def _look(self, now_us: int) -> None:
        """The end was read: continue if it determines the fold, else read further back."""
        found = fold_at_end(self._tail, self.begin, self._target)
        if found is not None:
            self.fold = found
            self._refuse_ended()
            self._watching_since_us = now_us
        elif self.begin == self._start:
            raise StreamForgotten(
                f"{self._target.name}: retention has deleted what shows how far it was published: new rows could "
                "be dropped as duplicates. Start the app anew with `borealis up --reset`, or publish to another "
                "source; set its retention to more than its publisher may be away"
            )
        else:
            self.begin = max(self._start, self._end - FURTHER * (self._end - self.begin))
        self._tail = []

    def _claim(self) -> NewRecord:
        self._attempts += 1
        self.epoch = max(self.fold.epoch, self._position) + 1  # exceeds all: a claim's is at most its offset + 1
        buckets = self._target.buckets
        stamp = buckets.timestamp_ms(buckets.closed_by(self.fold.boundary))
        claim = ClaimHeader(self._target.app_uid, self.epoch, self._uid, self._lateness_us)
        return NewRecord(self._target.feed, pack(claim), timestamp_ms=stamp)

    def _owned(self, header: SourceHeader) -> None:
        """Take a record that follows the own claim: what it says tells nothing new, unless it takes the stream."""
        if isinstance(header, BatchHeader):
            mine = (header.epoch, header.uid) == (self.epoch, self._uid)
            self._complete |= mine and header.boundary is not None and header.boundary >= FOREVER
        elif header.epoch > self.epoch and not self._complete:  # after its own END nothing can be taken
            raise StreamFenced(
                f"{self._target.name}: another publisher took the stream (epoch {header.epoch}, uid {header.uid}); "
                "this one has stopped, and what it sent since does not count. A source has one publisher at a time"
            )

    def _one(self, entry: TailEntry, now_us: int) -> None:
        header = entry.header
        if self.ready:
            self._owned(header)
            return
        before = (self.fold.epoch, self.fold.owner)
        self.fold = advanced(self.fold, entry, self._target)
        if not self.epoch:
            self._refuse_ended()  # no claim can follow END: it would be of no time
        if before == (header.epoch, header.uid):
            self._refuse_fresh(now_us)
        elif before != (self.fold.epoch, self.fold.owner):
            self._watching_since_us = now_us  # another new publisher was faster: see whether it continues
        if isinstance(header, ClaimHeader) and (header.epoch, header.uid) == (self.epoch, self._uid):
            self._read_back()

    def _refuse_fresh(self, now_us: int) -> None:
        since = self._watching_since_us
        # Records that a dead publisher had in flight arrive early in the watch; whoever writes later is alive.
        if since is not None and not self.epoch and not self._take_over and now_us >= since + self._watch_us // 3:
            raise StreamTaken(self._taken())

    def _read_back(self) -> None:
        self._refuse_ended()
        if (self.fold.epoch, self.fold.owner) == (self.epoch, self._uid):
            self.ready = True
        elif self._take_over and self._attempts < _ATTEMPTS_MAX:
            self.epoch = 0  # another publisher was faster: claim again, with a higher epoch
        else:
            raise StreamTaken(self._taken())

    def _refuse_ended(self) -> None:
        if self.fold.ended:
            raise StreamEnded(
                f"{self._target.name} has ended: its publisher sent END, and nothing can follow that. To publish it "
                "again, start the app anew with `borealis up --reset`, or publish to another source",
                self.fold.last_seq,
            )

    def _taken(self) -> str:
        return (
            f"{self._target.name}: another publisher is writing it (epoch {self.fold.epoch}, uid {self.fold.owner}). "
            "Stop it first, or use --take-over to replace it"
        )
