"""The envelope: bytes of every record of ours except the plain JSON of a corrected stream (tables in PROTOCOL.md).

    0      2   magic b"BZ"
    2      1   version (2)
    3      4   header length n, big endian
    7      n   header: a msgpack array, its first element the record kind
    7+n    -   payload: rows (JSON array or one Arrow IPC batch), empty where there are none

Kind, app_uid, incarnation and bucket lie in the header, so that a reader drops a repeat without decoding rows.
`app_uid` is the description's (`log.description`): a record with another one belongs to another life of the app and
says nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

MAGIC = b"BZ"
VERSION = 2
_HEAD = struct.Struct(">2sBI")


class EnvelopeError(ValueError):
    """The bytes are no envelope of this version."""


class EnvelopeVersion(EnvelopeError):
    """An envelope of another version."""


class Part(msgspec.Struct, array_like=True, frozen=True):
    """A dead letter that travels with a bucket."""

    source: str
    offset: int
    reason: str
    raw: bytes


class ClaimHeader(msgspec.Struct, array_like=True, frozen=True, tag="EPOCH"):
    """A publisher takes the stream."""

    app_uid: str
    epoch: int
    uid: str


class BatchHeader(msgspec.Struct, array_like=True, frozen=True, tag="TUPLES"):
    """Tuples first_seq, first_seq + 1, ... of one bucket, then a boundary (None: none).

    `stimes`: int64 little endian, one a tuple. `encoding`: "json" (an array of objects) or "arrow".
    """

    app_uid: str
    epoch: int
    uid: str
    first_seq: int
    stimes: bytes
    boundary: int | None
    encoding: str


class StableHeader(msgspec.Struct, array_like=True, frozen=True, tag="STABLE"):
    app_uid: str
    inc: int
    bucket: int
    held: int
    part: int
    parts: int
    schema: str
    rejects: tuple[Part, ...] = ()


class TentativeHeader(msgspec.Struct, array_like=True, frozen=True, tag="TENTATIVE"):
    app_uid: str
    inc: int
    bucket: int
    held: int
    part: int
    parts: int
    schema: str
    lacked: tuple[str, ...]
    missing: tuple[str, ...]
    completeness: float
    diverged_from: int


class RangeHeader(msgspec.Struct, array_like=True, frozen=True, tag="BOUNDARY"):
    app_uid: str
    inc: int
    first: int
    end: int
    held: int


class UndoHeader(msgspec.Struct, array_like=True, frozen=True, tag="UNDO"):
    app_uid: str
    inc: int
    bucket: int


class RecDoneHeader(msgspec.Struct, array_like=True, frozen=True, tag="REC_DONE"):
    app_uid: str
    inc: int
    bucket: int


SourceHeader = ClaimHeader | BatchHeader
StreamHeader = StableHeader | TentativeHeader | RangeHeader | UndoHeader | RecDoneHeader

_encoder = msgspec.msgpack.Encoder()
_source = msgspec.msgpack.Decoder(SourceHeader)
_stream = msgspec.msgpack.Decoder(StreamHeader)
_BAD = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What a decoder makes of bytes that are not ours: deep nesting and text in no UTF-8 are no msgspec errors."""


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
        return _source.decode(header), payload
    except _BAD as exc:
        raise EnvelopeError(f"bad source header: {exc}") from exc


def unpack_stream(value: bytes | None) -> tuple[StreamHeader, memoryview]:
    """Header and payload of a record of S.r<k>. Raises EnvelopeError."""
    header, payload = _unpack(value)
    try:
        return _stream.decode(header), payload
    except _BAD as exc:
        raise EnvelopeError(f"bad stream header: {exc}") from exc


def pack_stimes(stimes: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(stimes)}q", *stimes)


def unpack_stimes(raw: bytes) -> tuple[int, ...]:
    """Raises EnvelopeError when the length is no multiple of eight."""
    if len(raw) % 8:
        raise EnvelopeError("stimes cut short")
    return struct.unpack(f"<{len(raw) // 8}q", raw)
