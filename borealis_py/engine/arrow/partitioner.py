"""The partition of a row: a hash of its key columns by value, the same in every process and forever.

Null is a key like any other, as in GROUP BY; so are NaN, and -0.0 is 0.0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.query.names import STIME
from borealis_py.types.arrow import rules_of, stored, type_of

_MIX = np.uint64(0x9E3779B97F4A7C15)


@lru_cache(maxsize=65_536)
def _hash(value: str | int | float | bytes | None, kind: str) -> int:
    if kind == "double" and value is not None:
        value = "nan" if value != value else float(value) + 0.0
    if isinstance(value, bytes):
        text = b"'" + value + b"'"
    else:  # the repr of a string depends on Python's Unicode tables
        text = (f"'{value}'" if isinstance(value, str) else repr(value)).encode()
    digest = hashlib.blake2b(kind.encode() + b"|" + text, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _hashes(column: pa.Array) -> np.ndarray:
    type_, rule = type_of(column.type), rules_of(column.type)
    if type_ is None:
        raise TypeError(f"a stream cannot be divided by a column of type {column.type}")
    encoded = stored(column).dictionary_encode(null_encoding="encode")
    values = encoded.dictionary.to_pylist()
    if rule is not None:
        values = [None if value is None else rule.key(value) for value in values]
    hashes = np.array([_hash(value, type_.kind) for value in values], dtype=np.uint64)
    found: np.ndarray = hashes[encoded.indices.to_numpy(zero_copy_only=False)]
    return found


def partitions_of(batch: pa.RecordBatch, by: Sequence[str], count: int) -> np.ndarray:
    """The partition, 0 to `count` - 1, of each row by its columns `by`."""
    mixed = np.zeros(batch.num_rows, dtype=np.uint64)
    for name in by:
        mixed = (mixed * _MIX) ^ _hashes(batch.column(name))  # wraps around: that is meant
    return (mixed % np.uint64(count)).astype(np.int64)


def part_of(batch: pa.RecordBatch, by: Sequence[str], count: int, index: int) -> pa.RecordBatch | None:
    """The rows that fall to one partition, in their order; None: none do."""
    if count == 1:
        return batch
    mine = partitions_of(batch, by, count) == index
    if mine.all():
        return batch
    return batch.filter(pa.array(mine)) if mine.any() else None


def split_by_partition(batch: pa.RecordBatch, by: Sequence[str], count: int) -> list[pa.RecordBatch | None]:
    """The rows of each partition, in their order; None where there are none."""
    if count == 1:
        return [batch]
    where = partitions_of(batch, by, count)
    rows = (np.flatnonzero(where == index) for index in range(count))
    return [batch.take(pa.array(found)) if len(found) else None for found in rows]


def sort_by_key(batch: pa.RecordBatch, by: Sequence[str]) -> pa.RecordBatch:
    """In the order of a partitioned stream: (stime, key ascending with nulls last, position)."""
    keys = [(name, "ascending") for name in (STIME, *by)]
    columns = pa.record_batch([stored(batch.column(name)) for name, _ in keys], [name for name, _ in keys])
    indices = pc.sort_indices(columns, sort_keys=keys)  # nulls last is its default
    return batch.take(indices)
