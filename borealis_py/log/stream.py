"""Records of a replica's stream, S.r<k>: dataclasses of `sunion.model` <-> records of the log (A3.1).

Rows stay encoded on the reading side (`Encoded`): a reader drops most of what it reads, so rows are decoded only on
use. A bucket too big for one record is split into parts and counts when its last part is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

import msgspec
import structlog

from borealis_py.log.base import Feed, Lookup, NewRecord, Record
from borealis_py.log.codec import RowCodec
from borealis_py.log.description import Life, OtherVersion
from borealis_py.log.records import (
    EnvelopeError,
    EnvelopeVersion,
    GapHeader,
    RangeHeader,
    RecDoneHeader,
    RecordPart,
    StableHeader,
    TentativeHeader,
    UndoHeader,
    pack,
    unpack_stream,
)
from borealis_py.log.topics import ENVELOPE_BYTES_MAX
from borealis_py.log.unreadable import ignored
from sunion.bucket import Buckets
from sunion.model import (
    GapRange,
    Output,
    RecDone,
    Reject,
    Rows,
    StableBucket,
    StableRange,
    StreamRecord,
    TentativeBucket,
    Undo,
)

log = structlog.get_logger(__package__)

LETTER_BYTES = 100
"""Size of a dead letter apart from its raw bytes and reason."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rows as stored in the log, in `parts`: one payload each, in order; at least one."""

    parts: tuple[bytes, ...]

    def rows(self, codec: RowCodec) -> Rows:
        """Decode them."""
        decoded = [codec.decode(part) for part in self.parts]
        return decoded[0] if len(decoded) == 1 else codec.join(decoded)


class StreamEncoder:
    """Encodes one replica's stream. `schema`: fingerprint of the rows' schema, which Arrow bytes do not contain."""

    def __init__(self, feed: Feed, app_uid: str, buckets: Buckets, codec: RowCodec, schema: str) -> None:
        self._feed = feed
        self._app_uid = app_uid
        self._buckets = buckets
        self._codec = codec
        self._schema = schema

    def encode(self, record: StreamRecord) -> list[NewRecord]:
        """The log records of one stream record, to be appended in this order."""
        if isinstance(record, StableRange):
            header = RangeHeader(self._app_uid, record.inc, record.first, record.end, record.waited_us)
            return [self._record(record.end - 1, pack(header))]
        if isinstance(record, GapRange):
            gap = GapHeader(self._app_uid, record.inc, record.first, record.end)
            return [self._record(record.end - 1, pack(gap))]
        if isinstance(record, Undo):
            return [self._record(record.bucket, pack(UndoHeader(self._app_uid, record.inc, record.bucket)))]
        if isinstance(record, RecDone):
            return [self._record(record.bucket, pack(RecDoneHeader(self._app_uid, record.inc, record.bucket)))]
        letters = _letters(record.output.rejects) if isinstance(record, StableBucket) else []
        parts = _together(self._parts(record.output.rows), letters)
        return [
            self._record(record.bucket, pack(self._header(record, i, len(parts), own or ()), rows or b""))
            for i, (rows, own) in enumerate(parts)
        ]

    def _header(
        self, record: StableBucket | TentativeBucket, part: int, parts: int, letters: Sequence[RecordPart]
    ) -> StableHeader | TentativeHeader:
        if isinstance(record, StableBucket):
            common = (self._app_uid, record.inc, record.bucket, record.waited_us, part, parts, self._schema)
            return StableHeader(*common, tuple(letters))
        return TentativeHeader(
            self._app_uid,
            record.inc,
            record.bucket,
            record.waited_us,
            part,
            parts,
            self._schema,
            record.missing_sources,
            record.missing,
            record.completeness,
            record.diverged_from,
        )

    def _parts(self, rows: Rows | None) -> list[bytes]:
        return [b""] if rows is None else self._codec.encode_parts(rows, ENVELOPE_BYTES_MAX)

    def _record(self, bucket: int, value: bytes) -> NewRecord:
        return NewRecord(self._feed, value, timestamp_ms=self._buckets.timestamp_ms(bucket))


def _together(rows: list[bytes], letters: list[list[RecordPart]]) -> list[tuple[bytes | None, list[RecordPart] | None]]:
    """What each part of an output holds: rows and dead letters, or only one of them where both would be too much: a
    single row may fill a record alone."""
    if all(len(some) + sum(map(_size, own)) <= ENVELOPE_BYTES_MAX for some, own in zip(rows, letters, strict=False)):
        return list(zip_longest(rows, letters))
    return [*((some, None) for some in rows), *((None, own) for own in letters)]


def _size(letter: RecordPart) -> int:
    return len(letter.raw) + len(letter.reason.encode()) + LETTER_BYTES


def _letters(rejects: Sequence[Reject]) -> list[list[RecordPart]]:
    """Split dead letters into portions that fit a record: the log would refuse a larger one, and
    block every replica.
    """
    portions: list[list[RecordPart]] = []
    room = 0
    for reject in rejects:
        size = len(reject.raw) + len(reject.reason.encode()) + LETTER_BYTES
        if size > room:
            portions.append([])
            room = ENVELOPE_BYTES_MAX
        portions[-1].append(RecordPart.of(reject))
        room -= size
    return portions


Headed = StableHeader | TentativeHeader


class _Part(NamedTuple):
    header: Headed
    payload: bytes
    offset: int


class StreamDecoder:
    """Decodes one replica's stream: one decoder per feed, records in log order.

    Args:
        life: records of other lives are ignored.
        schema: expected schema of the rows; None: any.
    """

    def __init__(self, life: Life, schema: str | None = None) -> None:
        self._life = life
        self._schema = schema
        self._open: dict[Headed, dict[int, _Part]] = {}  # by the header fields that the parts of a bucket share

    def decode(self, record: Record) -> StreamRecord | None:
        """The decoded record; None: a part other than the last one, or a record of another life of the app.

        Raises:
            EnvelopeError: not one of our records, or rows of another schema than this reader's.
            OtherVersion: an envelope of another version.
        """
        try:
            header, payload = unpack_stream(record.value)
        except EnvelopeVersion as exc:
            raise OtherVersion.of_record(record.feed.topic, record.offset, str(exc)) from exc
        if not self._life.owns(record, header.app_uid):
            return None
        if isinstance(header, RangeHeader):
            return StableRange(header.inc, header.first, header.end, header.waited_us)
        if isinstance(header, GapHeader):
            return GapRange(header.inc, header.first, header.end)
        if isinstance(header, UndoHeader):
            return Undo(header.inc, header.bucket)
        if isinstance(header, RecDoneHeader):
            return RecDone(header.inc, header.bucket)
        if self._schema is not None and payload and header.schema != self._schema:
            raise EnvelopeError(f"{record.feed.topic}: rows of schema {header.schema}, expected {self._schema}")
        parts = self._gathered(header, bytes(payload), record.offset)
        if len(parts) < header.parts or 0 not in parts:
            return None  # the rest follows, or the writer died and its successor repeats the bucket
        self._forget(header)
        first = min(part.offset for part in parts.values())
        return self._whole([(part.header, part.payload) for _, part in sorted(parts.items())], first)

    def _gathered(self, header: Headed, payload: bytes, offset: int) -> dict[int, _Part]:
        """Add this part to its bucket's parts. Parts of two writers may interleave, even with equal `inc`, until one
        has read of the other.
        """
        if header.parts == 1:
            return {header.part: _Part(header, payload, offset)}
        common = msgspec.structs.replace(header, part=0)
        if isinstance(common, StableHeader):
            common = msgspec.structs.replace(common, rejects=())
        parts = self._open.setdefault(common, {})
        parts[header.part] = _Part(header, payload, offset)
        return parts

    def _forget(self, said: Headed) -> None:
        """Forget parts below a stable bucket: they are copies, because all below it lay whole in the stream's topics
        before it was written (B2).

        Most of that came in this topic. Below a hole another replica's has it, and whoever needs it reads that one,
        too. So no bucket is missed, even where a replica that starts again from an older checkpoint fills the hole
        late, in parts, and a record of its predecessor's comes between them: what it fills in is a copy. A copy that
        loses some of its parts is dropped as a whole, since those that follow do not make it complete.
        """
        stable = isinstance(said, StableHeader)
        for other in [o for o in self._open if o.bucket <= said.bucket]:
            if stable or (isinstance(other, TentativeHeader) and other.inc == said.inc):
                del self._open[other]

    def _whole(self, parts: list[tuple[Headed, bytes]], offset: int) -> StreamRecord:
        header, encoded = parts[0][0], tuple(payload for _, payload in parts if payload)
        rows = Encoded(encoded) if encoded else None
        if isinstance(header, StableHeader):
            letters = [letter for own, _ in parts if isinstance(own, StableHeader) for letter in own.rejects]
            rejects = tuple(letter.reject for letter in letters)
            return StableBucket(header.inc, header.bucket, Output(rows, rejects), header.waited_us)
        return TentativeBucket(
            inc=header.inc,
            bucket=header.bucket,
            output=Output(rows),
            missing_sources=header.missing_sources,
            missing=header.missing,
            waited_us=header.waited_us,
            completeness=header.completeness,
            diverged_from=header.diverged_from,
            offset=offset,
        )


def decoded(output: Output, codec: RowCodec) -> Output:
    """The same output with its rows decoded."""
    return replace(output, rows=output.rows.rows(codec)) if isinstance(output.rows, Encoded) else output


def unpacker(codec: RowCodec) -> Callable[[Rows], Rows]:
    """A function that decodes the rows of a stream on use."""
    return lambda rows: rows.rows(codec) if isinstance(rows, Encoded) else rows


def records_from(lookup: Lookup, feed: Feed, buckets: Buckets, bucket: int) -> Iterator[Record]:
    """One replica's records from the first that may cover `bucket` (B37) to the current end. Raises LogError."""
    return lookup.read(feed, lookup.find(feed, buckets.timestamp_ms(bucket)), lookup.bounds(feed)[1])


def follow(records: Iterator[Record], decoder: StreamDecoder) -> Iterator[StreamRecord]:
    """The stream records of one replica; records that do not decode are logged and skipped."""
    for record in records:
        said = readable(record, decoder)
        if said is not None:
            yield said


def readable(record: Record, decoder: StreamDecoder) -> StreamRecord | None:
    """Decode one record; None for a part other than the last one, and for records that no replica
    of ours has written.
    """
    try:
        return decoder.decode(record)
    except EnvelopeError as exc:
        ignored(log, "undecodable record of a replica's stream skipped", record, exc)
        return None
