"""What was read of one foreign partition and is not copied yet, in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from borealis_py.ingress.decoder import Decoded, TopicDecoder
from borealis_py.log.base import Record

CHUNK, CHUNK_BYTES = 2_000, 1 << 20
"""Records decoded together, and about how many bytes of them."""
QUEUE_BYTES = 4 << 20
QUEUE_RECORDS = 20_000
"""Beyond either, a partition is not read on: one that is held back must not fill the memory."""
_RECORD_BYTES = 200
"""Size of a record in memory in addition to its key, value and headers."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that will never be read: copying goes on at offset `to` instead of `at`. `made_again`: how it showed that
    the topic was deleted and created again, for people; "": it was not, and retention has deleted them."""

    at: int
    to: int
    made_again: str = ""


class PartitionQueue:
    """Records of one partition. `copied`: the offset to copy next; `fetched`: the offset to read next."""

    def __init__(self, partition: int, offset: int, topic_id: str = "") -> None:
        self.partition = partition
        self.topic_id = topic_id
        """Of the topic in which its offsets count; "": not known."""
        self.copied = offset
        self.fetched = offset
        self.reading = True
        """Its feed is open."""
        self.moved_us = 0
        """When its records last came, or were copied."""
        self.waits_for = ""
        """What its next record needs to be decoded, for people; "": nothing."""
        self.too_far = False
        """Its next row lies so far ahead of an input's boundary that it waits until that has moved (B53)."""
        self._items: deque[Record | Gap] = deque()
        self._bytes = 0
        self._head: Decoded | None = None

    @property
    def empty(self) -> bool:
        return self._head is None and not self._items

    @property
    def full(self) -> bool:
        return self._bytes > QUEUE_BYTES or len(self._items) > QUEUE_RECORDS

    @property
    def drained(self) -> bool:
        """So little is left that reading may go on."""
        return self._bytes < QUEUE_BYTES // 4 and len(self._items) < QUEUE_RECORDS // 4

    def put(self, record: Record) -> None:
        self._items.append(record)
        self._bytes += _size(record)
        self.fetched = record.offset + 1

    def skip(self, gap: Gap) -> None:
        """Records after it will come from elsewhere."""
        self._items.append(gap)
        self.fetched = gap.to

    def head(self, decoder: TopicDecoder) -> Decoded | Gap | None:
        """What is to be copied next; None: nothing has come, or it cannot be decoded yet (B55; `waits_for`)."""
        if self._head is None and self._items:
            if isinstance(self._items[0], Gap):
                return self._items[0]
            if self.waits_for and not decoder.ready([self._items[0]]):
                return None  # of thousands behind it, none is looked at again
            records: list[Record] = []
            size = 0
            while self._items and isinstance(item := self._items[0], Record):
                if len(records) >= CHUNK or size >= CHUNK_BYTES:
                    break
                records.append(item)
                self._items.popleft()
                size += _size(item)
            self._bytes -= size
            ready = decoder.ready(records)
            for record in reversed(records[ready:]):
                self._items.appendleft(record)
                self._bytes += _size(record)
            self.waits_for = "" if ready else decoder.waits_for()
            self._head = decoder.decode(records[:ready]) if ready else None
        return self._head

    def done(self, copied: Decoded, rest: Decoded | None) -> None:
        """The first part of the head is copied; `rest`: the other one, if there is one."""
        self.copied = copied.records[-1].offset + 1
        self._head = rest or None

    def passed(self, gap: Gap) -> None:
        """The gap, which was the head, is dealt with."""
        self._items.popleft()
        self.copied = gap.to

    def idle(self, position: int) -> None:
        """Nothing is queued, and the reader stands at this position: what lies before is seen by nobody."""
        self.copied = max(self.copied, position)


def _size(record: Record) -> int:
    """Called twice for each record: a loop costs a third of a generator."""
    size = _RECORD_BYTES + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")  # a foreign header may have no value
    return size
