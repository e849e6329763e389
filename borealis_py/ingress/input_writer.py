"""Makes the records of one input: rows as an Arrow batch, dead letters, boundary, and how far the topic is copied: one
record, so that they are in the log together or not at all (B48)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from borealis_py.client.target import Target
from borealis_py.engine.codec import BATCH_ROWS_MAX, ArrowSourceCodec
from borealis_py.ingress.input_part import InputPart
from borealis_py.log.base import NewRecord
from borealis_py.log.records import BatchHeader, Refused, pack
from borealis_py.log.topics import ENVELOPE_BYTES_MAX
from sunion.model import FOREVER, RAW_BYTES_MAX, REASON_CHARS_MAX

_HEADER_BYTES = 1_024
"""Upper bound of a header without its stimes, rejects and positions, and of the schema of an Arrow stream."""
_ROW_BYTES, _REJECT_BYTES, _POSITION_BYTES = 9, 40, 16
ROWS_MAX = 5_000
"""Rows of one record: a reader decodes a record as a whole, and has other things to do in between."""


class InputWriter:
    """Collects one record at a time; `drain` returns those that are ready to be appended.

    Args:
        boundary, last_seq: the fold's, from which to continue.
        at: how far each partition has been copied. topic_id: of the topic in which that counts; "": not known.
        spoken: of the input of all values that the user has not named: it has had a record.
        uid, epoch: of the claim.
        now_us: the last record counts as sent then.
    """

    def __init__(
        self,
        target: Target,
        codec: ArrowSourceCodec,
        uid: str,
        epoch: int,
        boundary: int,
        last_seq: int,
        at: Mapping[int, int],
        now_us: int,
        topic_id: str = "",
        spoken: bool = False,
    ) -> None:
        self.boundary = boundary
        self.last_seq = last_seq
        self.at = dict(at)
        self.topic_id = topic_id
        self.spoken = spoken
        self.sent_us = now_us
        """When the last record was made."""
        self.rows = 0
        self.rejected = 0
        self.late = 0
        """Rows added, and records refused; of these, those that came late."""
        self.misread = ""
        """How times of refused rows seem to be read wrong, for people; "": nothing says so."""
        self.read_to = 0
        """Offset up to which the input's log was read without finding a newer claim."""
        self.made = 0
        self.stored = 0
        """Records made, and how many of them have been read back from the input's log."""
        self._unheard: deque[int] = deque()  # when those were made that have not been
        self._target = target
        self._codec = codec
        self._uid = uid
        self._epoch = epoch
        self._parts: list[InputPart] = []
        self._first_seq = last_seq + 1
        self._bytes = 0
        self._rows = 0
        self._out: list[NewRecord] = []
        self._out_bytes = 0

    @property
    def unheard_us(self) -> int | None:
        """When the first of the records was made that have not been read back; None: all have been."""
        return self._unheard[0] if self._unheard else None

    def heard(self, read_to: int, stored: int) -> None:
        """Take how far the input's log has been read, and how many of the records have been found in it."""
        self.read_to, self.stored = read_to, stored
        while len(self._unheard) > self.made - stored:
            self._unheard.popleft()

    @property
    def collecting(self) -> bool:
        """Whether something waits for `flush`."""
        return bool(self._parts)

    @property
    def waiting_rows(self) -> int:
        """How many records' rows and dead letters wait for `flush`."""
        return self._rows

    @property
    def ended(self) -> bool:
        """END has been written, by this or before it: nothing may follow."""
        return self.boundary >= FOREVER

    @property
    def waiting_bytes(self) -> int:
        """Size of what waits for `flush` and `drain`."""
        return self._bytes + self._out_bytes

    def add(self, part: InputPart, now_us: int) -> None:
        """Add records, in offset order of their partition. The caller has checked them (`part_for`)."""
        size = _size(part)
        if len(part) > 1 and (size > self._room or len(part) > ROWS_MAX):
            for half in part.halves():
                self.add(half, now_us)
            return
        if self._parts and (self._bytes + size > self._room or self._rows + len(part) > ROWS_MAX):
            self.flush(self.boundary, now_us)
        self._parts.append(part)
        self.rows += part.rows.num_rows
        self.rejected += len(part.refused)
        self.misread = part.misread or self.misread
        self.late += sum(one.late_us > 0 for one in part.refused)
        self._bytes += size
        self._rows += len(part)
        self.last_seq += len(part)
        self.at[part.partition] = part.after

    def flush(self, boundary: int, now_us: int) -> None:
        """Make the record of what was collected, even if that is nothing. It promises `boundary`, if that is more than
        was promised before; FOREVER: it is END."""
        parts, self._parts = self._parts, []
        before, self.boundary = self.boundary, max(self.boundary, boundary)
        rows = [part.rows for part in parts if part.rows.num_rows]
        stimes = np.concatenate([part.stimes for part in parts]) if parts else np.empty(0, np.int64)
        rejects, seq = [], self._first_seq
        for part in parts:
            rejects += [_refused(seq + one.place, one.reason, one.raw, one.late_us) for one in part.refused]
            seq += len(part)
        header = BatchHeader(
            self._target.app_uid,
            self._epoch,
            self._uid,
            self._first_seq,
            stimes.astype("<i8").tobytes(),
            self.boundary,
            "arrow",
            self.read_to,
            tuple(rejects),
            tuple(sorted(self.at.items())),
            self.topic_id,
            self.spoken,
        )
        payload = self._codec.encode(rows[0] if len(rows) == 1 else pa.concat_batches(rows)) if rows else b""
        buckets = self._target.buckets
        closed = before if self.ended else self.boundary - 1
        lowest = buckets.of(int(stimes.min())) if len(stimes) else buckets.closed_by(closed)
        stamp = buckets.timestamp_ms(lowest) if before < FOREVER else None  # after END, no bucket has a time
        self._out.append(NewRecord(self._target.feed, pack(header, payload), timestamp_ms=stamp))
        self._out_bytes += self._bytes
        self._first_seq, self._bytes, self._rows, self.sent_us = self.last_seq + 1, 0, 0, now_us
        self.made += 1
        self._unheard.append(now_us)

    def drain(self) -> list[NewRecord]:
        """The records made since the last call, in order."""
        out, self._out, self._out_bytes = self._out, [], 0
        return out

    @property
    def _room(self) -> int:
        room = ENVELOPE_BYTES_MAX - _HEADER_BYTES - _POSITION_BYTES * (len(self.at) + 1)
        return min(room, BATCH_ROWS_MAX * self._target.row_max_bytes)  # readers refuse more, unread


def _size(part: InputPart) -> int:
    letters = sum(min(len(one.raw), RAW_BYTES_MAX) + 4 * min(len(one.reason), REASON_CHARS_MAX) for one in part.refused)
    rows: int = part.rows.nbytes + _ROW_BYTES * part.rows.num_rows
    return rows + letters + _REJECT_BYTES * len(part.refused)


def _refused(seq: int, reason: str, raw: bytes, late_us: int) -> Refused:
    return Refused(seq, reason[:REASON_CHARS_MAX].encode(errors="replace").decode(), raw[:RAW_BYTES_MAX], late_us)
