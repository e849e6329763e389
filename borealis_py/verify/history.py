"""Replays a replica's topic, statement by statement (A3.1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from borealis_py.verify.envelope import Raw, Row, Unreadable, decode_rows, open_envelope

RAW_BYTES_MAX = 65_536
"""How much of an unusable item a dead letter keeps."""
KEPT_END = 32
"""Records at the end of a replica's topic that are never deleted. So a topic that was trimmed has all that its replica
said from the highest bucket of so many records on: what was deleted lay below a bucket that the records after it have
reached, or below the end that is kept in any case (R16.5)."""


@dataclass(frozen=True)
class Rejection:
    """What could not be used, as a replica said it with a bucket. `source`: where it came from; `offset` there, -1
    where a kernel refused a row. `reason` and `raw` bytes, both truncated by the writer. `seq` of what a publisher
    refused, else -1."""

    source: str
    offset: int
    reason: str
    raw: bytes
    seq: int = -1


@dataclass(frozen=True)
class HistoryRecord:
    """One statement of a replica in its incarnation `inc`: `kind` about the buckets [bucket, end). Parts of one bucket
    are already joined. `rows`: what they hold; `rejections`: dead letters with them.

    If TENTATIVE: `missing_sources`: sources missing in any bucket that it depends on; `missing`: in this one;
    `completeness`: the lowest of those buckets, 0 to 1; `diverged_from`: the first bucket whose absence affects the
    state.
    """

    kind: str
    inc: int
    bucket: int
    end: int
    rows: tuple[Row, ...] = ()
    missing_sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    completeness: float = 1.0
    diverged_from: int = 0
    rejections: tuple[Rejection, ...] = ()


@dataclass(frozen=True)
class ReplicaHistory:
    """What one replica's topic holds, in order (`records`). `unreadable`: why, of each record that could not be
    decoded. `trimmed`: its beginning was deleted."""

    records: Iterable[HistoryRecord] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    trimmed: bool = False


def replay(raw: Iterable[Raw], schema: pa.Schema, trimmed: bool = False) -> ReplicaHistory:
    """The statements in one replica's topic, all of them read."""
    unreadable: list[str] = []
    return ReplicaHistory(list(statements(raw, schema, unreadable)), unreadable, trimmed)


def statements(raw: Iterable[Raw], schema: pa.Schema, unreadable: list[str]) -> Iterator[HistoryRecord]:
    """The same one by one. What cannot be read is noted in `unreadable` and passed over.

    A bucket whose last part never came is passed over too: its writer died, and the successor says it again.
    """
    parts = _Parts(schema)
    for record in raw:
        try:
            header, payload = open_envelope(record.value)
            found = parts.add_record(header, payload)
        except (Unreadable, msgspec.ValidationError) as exc:
            unreadable.append(f"offset {record.offset}: {exc}")
            continue
        if found is not None:
            yield found


class _Range(msgspec.Struct, array_like=True, frozen=True):
    kind: str
    inc: int
    first: int
    end: int


class _Mark(msgspec.Struct, array_like=True, frozen=True):
    kind: str
    inc: int
    bucket: int


class _Rows(_Mark, frozen=True):
    waited_us: int
    part: int
    parts: int
    schema: str


class _Stable(_Rows, frozen=True):
    rejects: tuple[tuple[Any, ...], ...] = ()


class _Tentative(_Rows, frozen=True):
    missing_sources: tuple[str, ...]
    missing: tuple[str, ...]
    completeness: float
    diverged_from: int


Part = tuple[tuple[Row, ...], tuple[Rejection, ...]]


class _Parts:
    """Joins the parts of a bucket: those belong together whose headers agree in all but `part` and `rejects`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._open: dict[int, dict[Hashable, dict[int, Part]]] = {}

    def add_record(self, header: list[Any], payload: memoryview) -> HistoryRecord | None:
        """What a record completes. Raises Unreadable, msgspec.ValidationError."""
        kind = header[0]
        if kind in ("BOUNDARY", "GAP"):
            found = msgspec.convert(header, _Range)
            return HistoryRecord(kind, found.inc, found.first, found.end)
        if kind in ("UNDO", "REC_DONE"):
            mark = msgspec.convert(header, _Mark)
            return HistoryRecord(kind, mark.inc, mark.bucket, mark.bucket)
        if kind == "STABLE":
            stable = msgspec.convert(header, _Stable)
            rejections = tuple(_refusal(one) for one in stable.rejects)
            whole = self._joined(stable, (decode_rows(payload, self._schema), rejections))
            if whole is None:
                return None
            for bucket in [b for b in self._open if b <= stable.bucket]:  # what is left of those are copies
                del self._open[bucket]
            return HistoryRecord(kind, stable.inc, stable.bucket, stable.bucket + 1, whole[0], rejections=whole[1])
        if kind == "TENTATIVE":
            said = msgspec.convert(header, _Tentative)
            whole = self._joined(said, (decode_rows(payload, self._schema), ()))
            if whole is None:
                return None
            labels = said.missing_sources, said.missing, said.completeness, said.diverged_from
            return HistoryRecord(kind, said.inc, said.bucket, said.bucket + 1, whole[0], *labels)
        raise Unreadable(f"kind {kind!r}")

    def _joined(self, header: _Rows, part: Part) -> Part | None:
        if not 0 <= header.part < header.parts:
            raise Unreadable(f"part {header.part} of {header.parts}")
        if header.parts == 1:
            return part
        labels = tuple(getattr(header, name) for name in header.__struct_fields__ if name not in ("part", "rejects"))
        got = self._open.setdefault(header.bucket, {}).setdefault(labels, {})
        got[header.part] = part
        if len(got) < header.parts:
            return None
        del self._open[header.bucket][labels]
        ordered = [got[i] for i in range(header.parts)]
        rows = tuple(row for of, _ in ordered for row in of)
        return rows, tuple(one for _, of in ordered for one in of)


def _refusal(fields: tuple[Any, ...]) -> Rejection:
    source, offset, reason, raw, seq = msgspec.convert([*fields, -1][:5], tuple[str, int, str, bytes, int])
    return Rejection(source, offset, reason, raw, seq)
