"""Partitions as A6 has them, in a reading of its own: which rows of a stage lie where."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache

from borealis_py.verify.values import JsonText, in_json

Key = int | float | str | bytes | date | Decimal | None

_TYPES = {int: "int64", float: "double", str: "string", Decimal: "decimal", datetime: "timestamp", date: "date",
          bytes: "binary", JsonText: "json"}  # fmt: skip


_NAMES = {"timestamp[us]": "timestamp", "date32[day]": "date", "extension<arrow.json>": "json"}
"""Our names for what Arrow calls otherwise."""


@lru_cache(maxsize=65_536)
def partition_of(key: Key, kind: str, count: int) -> int:
    """The partition of a key column's value.

    Args:
        kind: Arrow's name of the column's type: null is a key like any other, and has one too.
    """
    kind = "decimal" if kind.startswith("decimal128(") else _NAMES.get(kind, kind)
    if key is not None and _TYPES[type(key)] != kind:
        raise TypeError(f"{key!r} is no {kind}")
    if isinstance(key, Decimal):
        whole, _, after = f"{key:f}".partition(".")
        key = f"{whole}.{after}".rstrip("0").rstrip(".")
    elif isinstance(key, date):
        key = str(in_json(key))
    text = key if isinstance(key, bytes) else key.encode() if isinstance(key, str) else None
    written = repr(key).encode() if text is None else b"'%b'" % text
    digest = hashlib.blake2b(b"%b|%b" % (kind.encode(), written), digest_size=8).digest()
    return int.from_bytes(digest, "little") % count


@dataclass(frozen=True, order=True)
class Piece:
    """What one Kafka partition of a stage's replica topics is to hold.

    Attributes:
        stage: which one, from 0.
        part: partition of the stage itself; its records are in topics of its own.
        reader: partition of the next stage that it is written for; for the last stage 0.
    """

    stage: int
    part: int = 0
    reader: int = 0


def merged(rows: Iterable[Sequence[Key]], by: int) -> list[Sequence[Key]]:
    """A partitioned stage's rows in the order of the whole: stime, then key with null last, then their own."""
    return sorted(rows, key=lambda row: (row[-1], row[by] is None, 0 if row[by] is None else row[by]))
