"""Who owns an input of an ingress, as its log says (A2.3, A8.4, B5). Pure: fed with records, returns claims.

Unlike a publisher, a standby follows the log from its start, so that it knows the fold, and how far the topic was
copied, at any time: to take over it appends EPOCH and reads up to it. Fenced, it goes on following.
"""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.client.tail import FURTHER, TAIL_RECORDS, SourceEnd, end_after, source_end
from borealis_py.client.target import StreamForgotten, Target
from borealis_py.log.base import NewRecord, Record
from borealis_py.log.description import Life
from borealis_py.log.records import ClaimHeader, pack
from borealis_py.log.source_tail import TailEntry, entry_of
from sunion.errors import IllegalTransition


class Ownership:
    """One input's log as an ingress follows it, and its claims to it.

    Args:
        uid: of this ingress, unique forever.
        lateness_us: what its claims declare.
        start, end: the bounds of the log when this began.
    """

    def __init__(self, target: Target, life: Life, uid: str, lateness_us: int, start: int, end: int) -> None:
        self.target = target
        self.begin = max(start, end - TAIL_RECORDS)
        """The offset to read from; it moves back while the records after it do not determine where the log stands."""
        self.position = self.begin
        """Everything before has been read."""
        self.end: SourceEnd | None = None
        """Where the log stands; None: not known yet."""
        self.epoch = 0
        """Of the last claim."""
        self.claiming = False
        self.owning = False
        self.lost = False
        self.heard = False
        """An owner's record has been read since this was reset."""
        self.stored = 0
        """Batches that this wrote since its last claim, and has read back."""
        self._life = life
        self._uid = uid
        self._lateness_us = lateness_us
        self._start = start
        self._known_end = end
        self._tail: list[TailEntry] = []

    def read(self, records: Sequence[Record], position: int) -> None:
        """Take records of the log, and the reader's position after them. `begin` may change.

        Raises:
            StreamForgotten: retention has deleted what shows how far the topic was copied.
        """
        entries = [entry for entry in (entry_of(record, self._life) for record in records) if entry is not None]
        self.position = position
        if self.end is not None:
            for entry in entries:
                self._one(self.end, entry)
            return
        self._tail += entries
        if position >= self._known_end:
            self.end = source_end(self._tail, self.begin, self.target)
            self._tail = []
            if self.end is None:
                self._look_further()

    def claim(self) -> NewRecord:
        """The EPOCH record to append.

        Raises:
            IllegalTransition: the log has not been read yet.
        """
        if self.end is None:
            raise IllegalTransition(f"a claim of {self.target.source} before its log has been read")
        self.epoch = max(self.end.fold.epoch, self.position) + 1  # exceeds all: a claim's is at most its offset + 1
        self.claiming, self.owning, self.lost, self.stored = True, False, False, 0
        buckets, fold = self.target.buckets, self.end.fold
        stamp = None if fold.ended else buckets.timestamp_ms(buckets.closed_by(fold.boundary))
        claim = ClaimHeader(self.target.app_uid, self.epoch, self._uid, self._lateness_us)
        return NewRecord(self.target.feed, pack(claim), timestamp_ms=stamp)

    @property
    def positioned(self) -> bool:
        """Whether the log says how far the topic was copied."""
        return self.end is not None and self.end.at is not None

    def step_down(self) -> None:
        """Write nothing more; the log decides who owns it."""
        self.claiming = self.owning = self.lost = False

    def _look_further(self) -> None:
        if self.begin == self._start:
            raise StreamForgotten(
                f"{self.target.name}: retention has deleted what shows how far its topic was copied: rows could be "
                "lost or doubled. Start the app anew with `borealis up --reset`; set the source's retention to more "
                "than its ingresses may be away"
            )
        self.begin = max(self._start, self._known_end - FURTHER * (self._known_end - self.begin))

    def _one(self, before: SourceEnd, entry: TailEntry) -> None:
        header, owner = entry.header, (before.fold.epoch, before.fold.owner)
        self.end = after = end_after(before, entry, self.target)
        now_owner, own = (after.fold.epoch, after.fold.owner), (self.epoch, self._uid)
        if now_owner != owner or (not isinstance(header, ClaimHeader) and (header.epoch, header.uid) == owner):
            self.heard = True
        if not isinstance(header, ClaimHeader) and (header.epoch, header.uid) == own:
            self.stored += 1
        if self.owning and now_owner != own:
            self.owning, self.lost = False, True
        if self.claiming and isinstance(header, ClaimHeader) and (header.epoch, header.uid) == own:
            self.claiming, self.owning = False, now_owner == own
            self.lost = not self.owning
