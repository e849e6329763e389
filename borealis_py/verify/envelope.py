"""Decodes the bytes of the topics: a record, its envelope, its rows (A1).

Its own reading of the format on purpose: a product that misreads its own records is caught here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from borealis_py.verify.values import column

Value = int | float | str | bytes | date | Decimal | None
Row = tuple[Value, ...]

_HEAD = struct.Struct(">2sBI")


class Unreadable(ValueError):
    """Bytes that are no record of the known format."""


@dataclass(frozen=True)
class Raw:
    """One record as it lies in a topic partition, at `offset`. `value` None: a tombstone. `headers`: name and bytes
    each."""

    offset: int
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise Unreadable(f"header: {exc}") from exc
    if not isinstance(header, list) or len(header) < 2:
        raise Unreadable("header is no array of a kind and an app_uid")
    return header, view[_HEAD.size + size :]


def decode_rows(payload: memoryview, schema: pa.Schema) -> tuple[Row, ...]:
    """Rows of one Arrow record batch message. Raises Unreadable."""
    if not len(payload):
        return ()
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(payload), schema)
        batch.validate(full=True)
        columns = [column(values) for values in batch.columns]
    except (pa.ArrowException, OSError, ValueError) as exc:
        raise Unreadable(f"rows: {exc}") from exc
    return tuple(zip(*columns, strict=True))


def bits(rows: Iterable[Row]) -> tuple[tuple[Any, ...], ...]:
    """Rows in a form whose `==` compares doubles by their bits, and everything else with its type."""
    return tuple(tuple(_bits(value) for value in row) for row in rows)


def _bits(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack("<d", value)
    return (bool, value) if isinstance(value, bool) else tuple(map(_bits, value)) if isinstance(value, list) else value
