"""Encodes rows and boundaries as records of a source's log (A2.1). Pure.

Rows and rejects are written in the order of their sequence numbers, with rows of one bucket per record; a boundary is
added to the last record before it if there is one. Each record carries the whole fold: owner, last position, boundary
(B5).
"""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.records import BatchHeader, Refused, pack, pack_stimes
from borealis_py.log.topics import ENVELOPE_BYTES_MAX
from sunion.bucket import Buckets
from sunion.errors import IllegalTransition
from sunion.model import FOREVER, RAW_BYTES_MAX, REASON_CHARS_MAX

LARGE_BYTES = 32 << 10
"""Readers decode this much while the rest of its bucket comes, and a second record costs less than what that saves."""
_HEADER_BYTES = 256
"""Upper bound of a header's size without its stimes and rejects."""
_ROW_BYTES = 9
"""Size of a row in addition to its JSON: a comma, and its stime in the header."""
_REJECT_BYTES = 40
"""Upper bound of a reject's size in addition to its bytes and its reason."""


class SourceWriter:
    """Collects one batch at a time; `take` returns the records that are ready to be appended.

    Args:
        boundary: the fold's, from which to continue.
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
        self.read_to = 0
        """Offset up to which the log was read without finding a newer claim."""
        self._bucket: int | None = None
        self._first_seq = 0
        self._stimes: list[int] = []
        self._rows: list[bytes] = []
        self._rejects: list[Refused] = []
        self._bytes = 0
        self.out: list[NewRecord] = []
        """Records ready to be taken."""
        self.collecting = False
        """Whether a row or reject waits for others of its batch."""

    @property
    def large(self) -> bool:
        """Whether the current batch is large enough to be worth a record of its own."""
        return self._bytes >= LARGE_BYTES

    def add(self, row: bytes, stime: int, seq: int) -> None:
        """Add one row as JSON.

        Raises:
            IllegalTransition: `stime` < boundary, or `seq` <= last_seq. The caller ensures that neither is.
        """
        self._check_promise(stime)
        bucket = stime // self._buckets.width_us
        size = len(row) + _ROW_BYTES
        if bucket != self._bucket or seq != self.last_seq + 1 or self._bytes + size > ENVELOPE_BYTES_MAX:
            self._make_room(seq, size, bucket)
            self._bucket = bucket
        else:  # the common case: the row joins the current batch
            self._bytes += size
            self.last_seq = seq
        self._rows.append(row)
        self._stimes.append(stime)

    def add_many(self, rows: bytes, stimes: Sequence[int], seq: int) -> bool:
        """Add rows of one bucket, as JSON joined by commas, at `seq` and the positions after it; as `add` for each.

        Returns:
            False: they do not fit into one record with the current batch; nothing was added.
        """
        count, bucket = len(stimes), self._buckets.of(stimes[0])
        size = len(rows) + 1 + (_ROW_BYTES - 1) * count
        goes_on = self.collecting and self._bucket in (None, bucket) and seq == self.last_seq + 1
        if (self._bytes if goes_on else _HEADER_BYTES) + size > ENVELOPE_BYTES_MAX:
            return False
        self._check_promise(min(stimes))
        self._make_room(seq, size, bucket)
        self._bucket, self.last_seq = bucket, seq + count - 1
        self._rows.append(rows)
        self._stimes += stimes
        return True

    def reject(self, raw: bytes, reason: str, seq: int, late_us: int = 0) -> None:
        """Add one dead letter, truncated to what is kept of it.

        Raises:
            IllegalTransition: `seq` <= last_seq. The caller ensures that it is not.
        """
        raw, told = raw[:RAW_BYTES_MAX], reason[:REASON_CHARS_MAX].encode(errors="replace").decode()
        self._make_room(seq, len(raw) + 4 * len(told) + _REJECT_BYTES, self._bucket)
        self._rejects.append(Refused(seq, told, raw, late_us))

    def _check_promise(self, stime: int) -> None:
        if stime < self.boundary:
            raise IllegalTransition(
                f"a tuple at stime {stime} below the boundary {self.boundary}, which every reader was promised"
            )

    def _make_room(self, seq: int, size: int, bucket: int | None) -> None:
        """Emit the current batch if this position cannot share its record."""
        if seq <= self.last_seq:
            raise IllegalTransition(
                f"position {seq} after sequence number {self.last_seq}: readers would drop it as a duplicate"
            )
        other = self._bucket is not None and bucket != self._bucket
        if self.collecting and (other or seq != self.last_seq + 1 or self._bytes + size > ENVELOPE_BYTES_MAX):
            self.flush()
        if not self.collecting:
            self._first_seq, self._bytes, self.collecting = seq, _HEADER_BYTES, True
        self._bytes += size
        self.last_seq = seq

    def advance(self, boundary: int) -> None:
        """Promise that all later stimes are at or after `boundary`. Does nothing if that was already promised."""
        if boundary <= self.boundary:
            return
        before, self.boundary = self.boundary, boundary
        last_closed = self._buckets.closed_by(before if boundary >= FOREVER else boundary - 1)
        self._emit(last_closed if self._bucket is None else self._bucket)

    def flush(self) -> None:
        """Emit the current batch. Its record repeats the boundary, so that it carries the whole fold."""
        if self.collecting:
            self._emit(self._buckets.closed_by(self.boundary) if self._bucket is None else self._bucket)

    def drain(self) -> list[NewRecord]:
        """Return the records made since the last call, in order."""
        out, self.out = self.out, []
        return out

    def _emit(self, bucket: int) -> None:
        first_seq = self._first_seq if self.collecting else self.last_seq + 1
        header = BatchHeader(
            self._app_uid,
            self._epoch,
            self._uid,
            first_seq,
            pack_stimes(self._stimes),
            self.boundary,
            "json",
            self.read_to,
            tuple(self._rejects),
        )
        payload = b"[" + b",".join(self._rows) + b"]" if self._rows else b""
        stamp = self._buckets.timestamp_ms(bucket)
        self.out.append(NewRecord(self._feed, pack(header, payload), timestamp_ms=stamp))
        self._rows, self._stimes, self._rejects, self._bucket = [], [], [], None
        self.collecting, self._bytes = False, 0
