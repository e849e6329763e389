"""Reads one input of a replay: a source's range of offsets, or the replicas of a stream one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from borealis_py.log.base import Record
from borealis_py.log.source_records import decode_source
from borealis_py.log.stream import StreamDecoder, follow, records_from
from borealis_py.protocol.redo import SourceRange
from reconcile.replay_context import OpenReplayContext
from sunion.errors import RetentionLost
from sunion.model import StreamRecord
from sunion.union import SUnion

Check = Callable[[], None]
"""Raises OutOfTime after the deadline."""


class SourceRangeReader:
    """Reads one source's range. It keeps the cursor between slices: a new consumer costs more than a slice."""

    def __init__(self, opened: OpenReplayContext, union: SUnion, index: int, range_: SourceRange) -> None:
        self._union = union
        self._index = index
        self._end = range_.end
        self._codec = opened.codecs[index]
        self._name = opened.work.inputs[index].name
        self._life = opened.life
        self._feed = opened.work.feeds[index][0]
        self._lookup = opened.lookup
        self._first = range_.first
        self._records: Iterator[Record] | None = None

    def read(self, rows: int, target: int, check: Check) -> bool:
        """Read about `rows` more rows, or until all buckets below `target` are closed. False: nothing was left to read.

        Raises:
            LogError: the log cannot be read. OutOfTime: by `check`.
        """
        if self._records is None:
            self._records = self._lookup.read(self._feed, self._first, self._end)
        taken, any_ = 0, False
        for record in self._records:
            any_ = True
            check()
            accepted = self._union.feed(self._index, decode_source(record, self._codec, self._name, self._life))
            taken += sum(count for _, _, count in accepted.rows)
            if taken >= rows or self._union.closed(self._index) >= target:
                break  # all buckets below `target` are closed
        return any_

    def close(self) -> None:
        """Let go of the cursor."""
        _close(self._records)

    def __str__(self) -> str:
        return f"source {self._name} up to offset {self._end}"


class StreamRangeReader:
    """Reads a stream: one replica's topic to its end, then the next one's, round robin while that closes buckets."""

    def __init__(self, opened: OpenReplayContext, union: SUnion, index: int) -> None:
        self._opened = opened
        self._union = union
        self._index = index
        self._name = opened.work.inputs[index].name
        self._feeds = opened.work.feeds[index]
        self._replica = -1
        self._in_vain = 0  # replicas in a row that closed no further bucket
        self._began_at = -1
        self._said: Iterator[StreamRecord] = iter(())
        self._records: Iterator[Record] | None = None

    def read(self, rows: int, target: int, check: Check) -> bool:
        """As `SourceRangeReader.read`."""
        stream = self._union.streams[self._index]
        before = stream.tuples
        while self._union.closed(self._index) < target:
            said = next(self._said, None)
            if said is None:
                if not self._next_replica():
                    return False
                continue
            check()
            with suppress(RetentionLost):  # reported below: no replica's topic has the bucket
                self._union.feed_stream(self._index, [(self._replica, said)])
            if stream.fold.waits(self._replica):
                self._said = iter(())  # the others must supply what is between
            if stream.tuples - before >= rows:
                break
        return True

    def _next_replica(self) -> bool:
        self.close()
        closed = self._union.closed(self._index)
        self._in_vain = self._in_vain + 1 if closed == self._began_at else 0
        if self._in_vain > len(self._feeds):
            return False
        self._began_at = closed
        self._replica = (self._replica + 1) % len(self._feeds)
        opened, feed = self._opened, self._feeds[self._replica]
        self._records = records_from(opened.lookup, feed, opened.buckets, closed)
        self._said = follow(self._records, StreamDecoder(opened.life, opened.streams[self._index].schema_id))
        return True

    def close(self) -> None:
        """Let go of the cursor."""
        _close(self._records)

    def __str__(self) -> str:
        return f"stream {self._name} as its {len(self._feeds)} replicas have it"


def _close(records: Iterator[Record] | None) -> None:
    close = getattr(records, "close", None)
    if close is not None:
        close()
