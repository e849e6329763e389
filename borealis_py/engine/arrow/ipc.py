"""What an Arrow IPC stream declares before anything is unpacked: its rows, and its bytes once decompressed.

18 kB of compressed batches can hold fifty million rows. Arrow's own reader reports the number only after building them,
so the metadata is read here (flatbuffers; Message.fbs and Schema.fbs of the Arrow format, version 1.5).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import pyarrow as pa

_PREFIX = 8
"""Bytes before a compressed buffer: its decompressed length, -1 if it is stored uncompressed."""


class Claims(NamedTuple):
    """What a batch declares to hold."""

    rows: int
    body_bytes: int


class Unclaimed(ValueError):
    """The stream does not have the expected form."""


class _Table:
    """A flatbuffers table. Raises struct.error beyond the end."""

    def __init__(self, raw: bytes, at: int) -> None:
        self._raw = raw
        self._at = at
        self._vtable = at - struct.unpack_from("<i", raw, at)[0]
        if self._vtable < 0:
            raise Unclaimed("metadata point outside of themselves")
        self._size = struct.unpack_from("<H", raw, self._vtable)[0]

    @classmethod
    def root(cls, raw: bytes) -> _Table:
        return cls(raw, struct.unpack_from("<I", raw, 0)[0])

    def _field(self, number: int) -> int | None:
        slot = 4 + 2 * number
        offset = struct.unpack_from("<H", self._raw, self._vtable + slot)[0] if slot + 2 <= self._size else 0
        return self._at + offset if offset else None

    def scalar(self, number: int, form: str, default: int = 0) -> int:
        at = self._field(number)
        return default if at is None else int(struct.unpack_from(form, self._raw, at)[0])

    def table(self, number: int) -> _Table | None:
        at = self._field(number)
        return None if at is None else _Table(self._raw, at + struct.unpack_from("<I", self._raw, at)[0])

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """A vector of structs of two int64."""
        at = self._field(number)
        if at is None:
            return []
        start = at + struct.unpack_from("<I", self._raw, at)[0]
        count = struct.unpack_from("<I", self._raw, start)[0]
        if start + 4 + 16 * count > len(self._raw):
            raise Unclaimed("metadata are cut short")
        values = struct.unpack_from(f"<{2 * count}q", self._raw, start + 4)
        return list(zip(values[::2], values[1::2], strict=True))


def claims(payload: bytes, schema: pa.Schema) -> list[Claims]:
    """What each batch of a stream declares to hold, from its metadata alone.

    Raises:
        Unclaimed: it has other columns than `schema`, or messages other than batches.
        pa.ArrowInvalid, OSError, EOFError: it is not a stream.
    """
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(payload))
    first = reader.read_next_message()
    if first.type != "schema":  # Arrow has checked the metadata as those of what it is, and reads them as a schema
        raise Unclaimed("it does not begin with a schema")
    told = pa.ipc.read_schema(first)
    if not told.equals(schema):
        raise Unclaimed(f"columns ({spell(told)}), expected ({spell(schema)})")
    found: list[Claims] = []
    while (message := next(reader, None)) is not None:
        if message.type != "record batch":
            raise Unclaimed(f"a {message.type} in it, batches only are expected")
        found.append(_claims(message))
    return found


def _claims(message: pa.ipc.Message) -> Claims:
    try:
        batch = _Table.root(message.metadata.to_pybytes()).table(2)
        if batch is None:
            raise Unclaimed("a batch without a header")
        body = message.body
        compressed = batch.table(3) is not None
        sizes = [_size(body, offset, length, compressed) for offset, length in batch.pairs(2)]
        rows = {batch.scalar(0, "<q"), *(length for length, _ in batch.pairs(1))}
    except struct.error as exc:
        raise Unclaimed("metadata are cut short") from exc
    if len(rows) > 1:
        raise Unclaimed("its columns are of different lengths")
    return Claims(rows.pop(), sum(sizes))


def _size(body: pa.Buffer, offset: int, length: int, compressed: bool) -> int:
    if length == 0:
        return 0
    if offset < 0 or length < 0 or offset + length > body.size:
        raise Unclaimed("a column lies outside of it")
    if not compressed:
        return length
    if length < _PREFIX:
        raise Unclaimed("a compressed column is cut short")
    (told,) = struct.unpack("<q", body.slice(offset, _PREFIX).to_pybytes())
    if told < -1:
        raise Unclaimed("a column of negative length")
    return length if told == -1 else int(told)


def spell(schema: pa.Schema) -> str:
    """Columns and their types, human-readable."""
    return ", ".join(f"{f.name} {f.type}" for f in schema)
