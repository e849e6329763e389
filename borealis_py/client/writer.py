"""Rows and boundaries -> records of a source's log (design 2.4, protocol A2). Pure.

Rows go out in the order of their sequence numbers, one bucket a record; a boundary rides on the last record before it
where there is one.
"""

from __future__ import annotations

from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.records import BatchHeader, pack, pack_stimes
from borealis_py.log.topics import ENVELOPE_BYTES_MAX
from sunion.bucket import Buckets
from sunion.model import FOREVER

_HEADER_BYTES = 256
"""More than a header takes, its stimes left out."""


class SourceWriter:
    """Collects one batch at a time; `take` gives the records that are ready to be appended.

    Args:
        boundary: what the log's fold says; goes on from there.
        last_seq: likewise.
    """

    def __init__(
        self, feed: Feed, app_uid: str, epoch: int, uid: str, buckets: Buckets, boundary: int, last_seq: int
    ) -> None:
        self.boundary = boundary
        self.last_seq = last_seq
        self._feed = feed
        self._app_uid = app_uid
        self._epoch = epoch
        self._uid = uid
        self._buckets = buckets
        self._bucket = 0
        self._first_seq = 0
        self._stimes: list[int] = []
        self._rows: list[bytes] = []
        self._bytes = 0
        self._out: list[NewRecord] = []

    def add(self, row: bytes, stime: int, seq: int) -> None:
        """One row as JSON. The caller has seen to it that `stime` >= boundary and `seq` > last_seq."""
        assert stime >= self.boundary, "a tuple below the boundary breaks the promise to every reader"
        assert seq > self.last_seq, "a tuple at or below the last sequence number would count as a duplicate"
        bucket = self._buckets.of(stime)
        size = len(row) + 9  # a comma, and eight bytes of stime in the header
        if self._rows and (
            bucket != self._bucket or seq != self.last_seq + 1 or self._bytes + size > ENVELOPE_BYTES_MAX
        ):
            self.flush()
        if not self._rows:
            self._bucket, self._first_seq, self._bytes = bucket, seq, _HEADER_BYTES
        self._rows.append(row)
        self._stimes.append(stime)
        self._bytes += size
        self.last_seq = seq

    def advance(self, boundary: int) -> None:
        """Promise that all later stimes are at or after `boundary`; nothing happens if that was promised already."""
        if boundary <= self.boundary:
            return
        before, self.boundary = self.boundary, boundary
        if self._rows:
            self._emit(self._bucket, boundary)
        else:
            last_closed = self._buckets.closed_by(before if boundary >= FOREVER else boundary - 1)
            self._emit(last_closed, boundary)

    def flush(self) -> None:
        """Let the collected rows go, without a boundary."""
        if self._rows:
            self._emit(self._bucket, None)

    def take(self) -> list[NewRecord]:
        """The records made since the last call, in order."""
        out, self._out = self._out, []
        return out

    def _emit(self, bucket: int, boundary: int | None) -> None:
        rows, stimes = self._rows, self._stimes
        first_seq = self._first_seq if rows else self.last_seq + 1
        header = BatchHeader(self._app_uid, self._epoch, self._uid, first_seq, pack_stimes(stimes), boundary, "json")
        payload = b"[" + b",".join(rows) + b"]" if rows else b""
        stamp = self._buckets.timestamp_ms(bucket)
        self._out.append(NewRecord(self._feed, pack(header, payload), timestamp_ms=stamp))
        self._rows, self._stimes = [], []
