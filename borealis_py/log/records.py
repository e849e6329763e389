"""The envelope: bytes of every record of ours except the plain JSON of a corrected stream (A1, A2.1, A3.1).

    0      2   magic b"BZ"
    2      1   version (2)
    3      4   header length n, big endian
    7      n   header: a msgpack array, its first element the record kind
    7+n    -   payload: rows (JSON array or one Arrow IPC batch), empty where there are none

Kind, app_uid, incarnation and bucket lie in the header, so that a reader drops a repeat without decoding rows.
`app_uid` is the description's (`log.description`): a record with another one belongs to another life of the app and
is ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import msgspec

from borealis_py.log.numbers import NUMBER_MAX, Number, Place
from borealis_py.log.unreadable import total
from borealis_py.query.units import DURATION_MAX_US
from sunion.model import FOREVER, Reject

MAGIC = b"BZ"
VERSION = 2
LATENESS_MAX_US = DURATION_MAX_US
"""A claim with a larger one is malformed. `parse_duration` refuses what is longer, so that no setting makes one."""
_HEAD = struct.Struct(">2sBI")


class EnvelopeError(ValueError):
    """The bytes are not an envelope of this version."""


class EnvelopeVersion(EnvelopeError):
    """An envelope of another version."""


class RecordPart(msgspec.Struct, array_like=True, frozen=True):
    """A dead letter stored with a bucket. `source`: where it came from: a source, or the node whose kernel refused a
    row. `offset`: of its record there; -1: none. `reason` and `raw`, the item's bytes, are truncated. `seq`: its
    position in the publisher's input if the publisher refused it, else -1."""

    source: str
    offset: Place
    reason: str
    raw: bytes
    seq: Place = -1

    @classmethod
    def of(cls, reject: Reject) -> RecordPart:
        """The same, to be stored."""
        return cls(reject.source, reject.offset, reject.reason, reject.raw, reject.seq)

    @property
    def reject(self) -> Reject:
        """The same, as it was before."""
        return Reject(self.source, self.offset, self.reason, self.raw, self.seq)


class Refused(msgspec.Struct, array_like=True, frozen=True):
    """A dead letter that a publisher sends with its batch: position in its input (`seq`, from 0), `reason` and `raw`
    bytes.

    `late_us`: if it was late, by how much, in microseconds: with this lateness it would have been in time; 0: it was
    not.
    """

    seq: int
    reason: str
    raw: bytes
    late_us: Number = 0


class ClaimHeader(msgspec.Struct, array_like=True, frozen=True, tag="EPOCH"):
    """A publisher takes the stream: the one with the highest `epoch` owns it. `uid`: the publisher's random id.
    `app_uid`: of the app's life, as in all headers. `lateness_us`: how late its rows may come, in microseconds; 0: not
    at all."""

    app_uid: str
    epoch: int
    uid: str
    lateness_us: int = 0


class BatchHeader(msgspec.Struct, array_like=True, frozen=True, tag="TUPLES"):
    """Positions `first_seq`, first_seq + 1, ... of a publisher's input, then a `boundary` (µs since 1970; None: none).

    It counts only if `epoch` and `uid` are those of the claim that owns the stream in the app's life `app_uid`.
    Positions in `rejects` (ascending) are dead letters, the others tuples, of one bucket or of several. `stimes`: int64
    little endian, one per tuple. `encoding`: "json" (an array of objects) or "arrow". `read_to`: the writer has read
    the log up to this offset and found no claim with a higher epoch: a reader that sees everything from there on knows
    the owner. `at`: of an ingress, (partition, next offset) for each partition of the foreign topic that feeds this
    source: everything before has been copied, up to and with this record; -1: the topic was made again (B54); empty:
    its writer is no ingress. `topic_id`: of the topic in which these offsets count; "": not known.
    `spoken`: the input takes the values that the user has not named, and has had a record.
    """

    app_uid: str
    epoch: int
    uid: str
    first_seq: int
    stimes: bytes
    boundary: int | None
    encoding: str
    read_to: Number = 0
    rejects: tuple[Refused, ...] = ()
    at: tuple[tuple[int, int], ...] = ()
    topic_id: str = ""
    spoken: bool = False

    @property
    def positions(self) -> int:
        """Number of positions that it covers."""
        return len(self.stimes) // 8 + len(self.rejects)


class StableHeader(msgspec.Struct, array_like=True, frozen=True, tag="STABLE"):
    """Rows of a stable bucket; the payload holds those of `part`, from 0, of `parts`.

    `app_uid`: of the app's life; `inc`: the writer's incarnation number; both as in all headers of a stream.
    `waited_us`: how long past its end the bucket had waited when it ran (R1.2); 0: it ran in time. `schema`:
    fingerprint of the rows' schema, which Arrow bytes lack. `rejects`: dead letters of this part.
    """

    app_uid: str
    inc: Number
    bucket: Number
    waited_us: Number
    part: Number
    parts: Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)]
    schema: str
    rejects: tuple[RecordPart, ...] = ()


class TentativeHeader(msgspec.Struct, array_like=True, frozen=True, tag="TENTATIVE"):
    """Rows of a tentative bucket. `app_uid`, `inc`, `bucket`, `waited_us`, `part`, `parts`, `schema` as in
    `StableHeader`; `missing_sources`, `missing`, `completeness` and `diverged_from` as in
    `sunion.model.TentativeBucket`."""

    app_uid: str
    inc: Number
    bucket: Number
    waited_us: Number
    part: Number
    parts: Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)]
    schema: str
    missing_sources: tuple[str, ...]
    missing: tuple[str, ...]
    completeness: float
    diverged_from: Number


class RangeHeader(msgspec.Struct, array_like=True, frozen=True, tag="BOUNDARY"):
    """Buckets [first, end) are stable and have no rows. `waited_us`: of the last one. `app_uid`, `inc`: as in
    `StableHeader`."""

    app_uid: str
    inc: Number
    first: Number
    end: Number
    waited_us: Number


class GapHeader(msgspec.Struct, array_like=True, frozen=True, tag="GAP"):
    """Buckets [first, end) are lost (R18). `app_uid`, `inc`: as in `StableHeader`."""

    app_uid: str
    inc: Number
    first: Number
    end: Number


class UndoHeader(msgspec.Struct, array_like=True, frozen=True, tag="UNDO"):
    """Corrections begin at `bucket`. `app_uid`, `inc`: as in `StableHeader`."""

    app_uid: str
    inc: Number
    bucket: Number


class RecDoneHeader(msgspec.Struct, array_like=True, frozen=True, tag="REC_DONE"):
    """Everything below `bucket` is stable. `app_uid`, `inc`: as in `StableHeader`."""

    app_uid: str
    inc: Number
    bucket: Number


SourceHeader = ClaimHeader | BatchHeader
StreamHeader = StableHeader | TentativeHeader | RangeHeader | GapHeader | UndoHeader | RecDoneHeader

_encoder = msgspec.msgpack.Encoder()
_source = msgspec.msgpack.Decoder(SourceHeader)
_stream = msgspec.msgpack.Decoder(StreamHeader)


def pack(header: SourceHeader | StreamHeader, payload: bytes | bytearray | memoryview = b"") -> bytes:
    """One record's value."""
    body = _encoder.encode(header)
    return b"".join((_HEAD.pack(MAGIC, VERSION, len(body)), body, payload))


def _unpack(value: bytes | None) -> tuple[memoryview, memoryview]:
    if value is None or len(value) < _HEAD.size:
        raise EnvelopeError("too short for an envelope")
    magic, version, size = _HEAD.unpack_from(value)
    if magic != MAGIC:
        raise EnvelopeError("not an envelope (wrong magic)")
    if version != VERSION:
        raise EnvelopeVersion(f"envelope version {version}, this program reads {VERSION}")
    view = memoryview(value)
    if len(view) < _HEAD.size + size:
        raise EnvelopeError("header cut short")
    return view[_HEAD.size : _HEAD.size + size], view[_HEAD.size + size :]


def unpack_source(value: bytes | None) -> tuple[SourceHeader, memoryview]:
    """Header and payload of a source's record. Raises EnvelopeError."""
    header, payload = _unpack(value)
    try:
        return total(_source.decode, header), payload
    except msgspec.MsgspecError as exc:
        raise EnvelopeError(f"bad source header: {exc}") from exc


def unpack_stream(value: bytes | None) -> tuple[StreamHeader, memoryview]:
    """Header and payload of a record of S.r<k>. Raises EnvelopeError."""
    header, payload = _unpack(value)
    try:
        found = total(_stream.decode, header)
    except msgspec.MsgspecError as exc:
        raise EnvelopeError(f"bad stream header: {exc}") from exc
    if isinstance(found, StableHeader | TentativeHeader):
        if found.part >= found.parts:
            raise EnvelopeError(f"bad stream header: part {found.part} of {found.parts}")
    elif isinstance(found, RangeHeader | GapHeader) and found.first >= found.end:
        raise EnvelopeError(f"bad stream header: buckets {found.first} to {found.end}")
    return found, payload


def pack_stimes(stimes: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(stimes)}q", *stimes)


def unpack_stimes(raw: bytes) -> tuple[int, ...]:
    """Raises EnvelopeError if the length is not a multiple of eight."""
    if len(raw) % 8:
        raise EnvelopeError("stimes cut short")
    return struct.unpack(f"<{len(raw) // 8}q", raw)


def tuple_seqs(header: BatchHeader) -> Sequence[int]:
    """The seq of each tuple: the positions not in `rejects`. A range if there are no rejects.

    Raises:
        EnvelopeError: the positions of the rejects do not ascend, or are outside the batch.
    """
    first, count = header.first_seq, header.positions
    if not header.rejects:
        return range(first, first + count)
    refused = [r.seq for r in header.rejects]
    inside = first <= refused[0] and refused[-1] < first + count and first >= 0
    if not inside or any(a >= b for a, b in pairwise(refused)):
        raise EnvelopeError(f"rejects at {refused[:5]} do not fit positions {first} to {first + count - 1}")
    gone = set(refused)
    return tuple(seq for seq in range(first, first + count) if seq not in gone)


def check_numbers(header: SourceHeader) -> None:
    """Raises EnvelopeError if a number cannot be: a higher epoch could not be claimed, a boundary not be reached."""
    _check("epoch", header.epoch)
    if isinstance(header, ClaimHeader):
        _check("lateness", header.lateness_us, most=LATENESS_MAX_US)
        return
    _check("first position", header.first_seq)
    if header.boundary is not None and header.boundary != FOREVER:
        _check("boundary", header.boundary, -NUMBER_MAX)
    for partition, offset in header.at:
        _check("partition", partition)
        _check("offset", offset, -1)


def _check(what: str, number: int, least: int = 0, most: int = NUMBER_MAX) -> None:
    if not least <= number <= most:
        raise EnvelopeError(f"{what} {number} is not within {least} to {most}")
