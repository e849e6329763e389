"""Records as the checker sees them, and the bytes they come from (tables of envelopes in PROTOCOL.md).

Its own reading of the format on purpose: a product that misreads its own records is caught here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from borealis_py.demo.checker.truth import FlightRow, FlightValue

_HEAD = struct.Struct(">2sBI")


class Unreadable(ValueError):
    """Bytes that are no record of the known format."""


@dataclass(frozen=True)
class Raw:
    """One record as it lies in a topic."""

    offset: int
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class HistoryRecord:
    """One statement of a replica: `kind` about the buckets [bucket, end). Parts of one bucket are already joined.

    `missing_sources`: sources missing in any bucket that it depends on; `missing`: in this one.
    """

    kind: str
    inc: int
    bucket: int
    end: int
    rows: tuple[FlightRow, ...] = ()
    missing_sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    completeness: float = 1.0
    diverged_from: int = 0


@dataclass(frozen=True)
class CorrectedRecord:
    """One row of a corrected stream; `id` and `stime` are its headers, `row` its JSON object, None: no such thing."""

    id: str | None
    stime: str | None
    row: Mapping[str, FlightValue] | None


@dataclass(frozen=True)
class ReplicaHistory:
    """What one replica's topic holds, in order."""

    records: list[HistoryRecord] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    torn: int = 0
    """Buckets whose last part never came: legitimate after a crash, readers skip them."""


def open_envelope(value: bytes | None) -> tuple[list[Any], memoryview]:
    """Kind and header fields after app_uid (what is judged has one life), and payload. Raises Unreadable."""
    header, payload = _header(value)
    return [header[0], *header[2:]], payload


def life_of(value: bytes | None) -> str | None:
    """The app_uid of a record; None: it is no envelope, or carries none."""
    try:
        life = _header(value)[0][1]
    except Unreadable:
        return None
    return life if isinstance(life, str) else None


def _header(value: bytes | None) -> tuple[list[Any], memoryview]:
    if value is None or len(value) < _HEAD.size:
        raise Unreadable("shorter than an envelope")
    magic, version, size = _HEAD.unpack_from(value)
    if magic != b"BZ" or version != 2 or len(value) < _HEAD.size + size:
        raise Unreadable("no envelope of version 2")
    view = memoryview(value)
    try:
        header = msgspec.msgpack.decode(view[_HEAD.size : _HEAD.size + size])
    except msgspec.DecodeError as exc:
        raise Unreadable(f"header: {exc}") from exc
    if not isinstance(header, list) or len(header) < 2:
        raise Unreadable("header is no array of a kind and an app_uid")
    return header, view[_HEAD.size + size :]


def decode_rows(payload: memoryview, schema: pa.Schema) -> tuple[FlightRow, ...]:
    """Rows of one Arrow record batch message. Raises Unreadable."""
    if not len(payload):
        return ()
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(payload), schema)
        batch.validate(full=True)
    except (pa.ArrowInvalid, OSError) as exc:
        raise Unreadable(f"rows: {exc}") from exc
    return tuple(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def replay(raw: Iterable[Raw], schema: pa.Schema) -> ReplicaHistory:
    """The statements in one replica's topic."""
    out = ReplicaHistory()
    open_parts: dict[tuple[str, int, int], list[tuple[FlightRow, ...]]] = {}
    torn = 0
    for record in raw:
        try:
            header, payload = open_envelope(record.value)
            kind, inc, bucket = header[:3]
            if kind == "BOUNDARY":
                out.records.append(HistoryRecord(kind, inc, bucket, header[3]))
            elif kind in ("UNDO", "REC_DONE"):
                out.records.append(HistoryRecord(kind, inc, bucket, bucket))
            elif kind in ("STABLE", "TENTATIVE"):
                part, parts = header[4:6]
                rows = decode_rows(payload, schema)
                if part == 0:
                    torn += (kind, inc, bucket) in open_parts
                    open_parts[kind, inc, bucket] = []
                got = open_parts.get((kind, inc, bucket))
                if got is None or len(got) != part:
                    raise Unreadable(f"part {part} of bucket {bucket} without the parts before it")
                got.append(rows)
                if len(got) == parts:
                    joined = sum(open_parts.pop((kind, inc, bucket)), ())
                    said = header[7:11] if kind == "TENTATIVE" else ((), (), 1.0, 0)
                    names = tuple(said[0]), tuple(said[1])
                    out.records.append(HistoryRecord(kind, inc, bucket, bucket + 1, joined, *names, *said[2:]))
            else:
                raise Unreadable(f"kind {kind!r}")
        except (Unreadable, TypeError, ValueError, IndexError) as exc:
            out.unreadable.append(f"offset {record.offset}: {exc}")
    return ReplicaHistory(out.records, out.unreadable, torn + len(open_parts))


def corrected(raw: Iterable[Raw]) -> list[CorrectedRecord]:
    """The rows of a corrected topic."""
    out = []
    for record in raw:
        headers = {name: value.decode("utf-8", "replace") for name, value in record.headers}
        try:
            row = json.loads(record.value or b"null")
        except ValueError:
            row = None
        out.append(CorrectedRecord(headers.get("id"), headers.get("stime"), row if isinstance(row, dict) else None))
    return out


def published_stimes(raw: Iterable[Raw]) -> tuple[list[int], int]:
    """Stimes of the tuples that a source's log holds, by its own rules, and how many were dropped (PROTOCOL.md, A2)."""
    epoch, owner, last_seq, boundary = 0, "", -1, None
    stimes: list[int] = []
    dropped = 0
    for record in raw:
        header, _ = open_envelope(record.value)
        if header[0] == "EPOCH":
            if header[1] > epoch:
                epoch, owner = header[1], header[2]
            continue
        _, of_epoch, uid, first_seq, packed, closes = header[:6]
        batch = struct.unpack(f"<{len(packed) // 8}q", packed)
        if (of_epoch, uid) != (epoch, owner):
            dropped += len(batch)
            continue
        refused = {one[0] for one in (header[8] if len(header) > 8 else ())}  # dead letters take positions, too
        positions = range(first_seq, first_seq + len(batch) + len(refused))
        for seq, stime in zip([p for p in positions if p not in refused], batch, strict=True):
            if seq <= last_seq or (boundary is not None and stime < boundary):
                dropped += 1
                continue
            last_seq = seq
            stimes.append(stime)
        last_seq = max([last_seq, *refused])
        if closes is not None:
            boundary = closes if boundary is None else max(boundary, closes)
    return stimes, dropped
