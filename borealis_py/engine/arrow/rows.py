"""Rows as Arrow record batches: total order, concatenation, canonical hash. Knows no SQL; types are in `types.arrow`.

A segment is a batch of the user's columns, then `stime`. One bucket's rows of all inputs (`Ordered`) are a tuple with
each input's batch or None; operators that need a single stream merge them (`merge`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from borealis_py.query.names import STIME
from borealis_py.types.arrow import arrow_of, hash_column
from borealis_py.types.arrow import sizes as sizes_of
from borealis_py.types.digests import add_column

_STIME_FIELD = pa.field(STIME, pa.int64())


def segment_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Schema of a source's segments: its columns, then stime."""
    return pa.schema([*(pa.field(name, arrow_of(kind)) for name, kind in columns.items()), _STIME_FIELD])


def sorted_by_stime(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sorted by stime; ties keep their order. A batch already in order is returned unchanged."""
    stimes = batch.column(STIME).to_numpy()
    if len(stimes) < 2 or bool((stimes[1:] >= stimes[:-1]).all()):
        return batch
    return batch.take(pa.array(np.argsort(stimes, kind="stable")))


def joined(parts: Sequence[pa.RecordBatch | None]) -> pa.RecordBatch | None:
    """Rows of all parts, one part after the other; None: there are none."""
    present = [p for p in parts if p is not None and p.num_rows]
    if not present:
        return None
    return present[0] if len(present) == 1 else pa.concat_batches(present)


def merge(parts: Sequence[pa.RecordBatch | None]) -> pa.RecordBatch | None:
    """Rows of all parts by (stime, part, position): the total order."""
    rows = joined(parts)
    return None if rows is None else sorted_by_stime(rows)


def buckets_of(batch: pa.RecordBatch, width_us: int) -> np.ndarray:
    """The bucket of each row."""
    found: np.ndarray = batch.column(STIME).to_numpy() // width_us
    return found


def in_buckets(
    rows: pa.RecordBatch, buckets: Sequence[int], parts: Sequence[pa.RecordBatch | None], width_us: int
) -> bool:
    """Whether the rows of each part are of its bucket. `rows`: those of all parts, joined; at least one."""
    if len(buckets) == 1:
        stimes = rows.column(STIME).to_numpy()
        return bool(stimes.min() // width_us == buckets[0] == stimes.max() // width_us)
    counts = [0 if part is None else part.num_rows for part in parts]
    return bool(np.array_equal(buckets_of(rows, width_us), np.repeat(buckets, counts)))


def runs_of(buckets: np.ndarray) -> np.ndarray:
    """Index at which each bucket begins, for rows ordered by bucket."""
    begins = np.ones(len(buckets), dtype=bool)
    np.not_equal(buckets[1:], buckets[:-1], out=begins[1:])
    starts: np.ndarray = begins.nonzero()[0]
    return starts


def by_bucket(batch: pa.RecordBatch, buckets: np.ndarray) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split `batch` into (bucket, its rows) without copying. `buckets` holds each row's, ascending."""
    if len(buckets) and buckets[0] == buckets[-1]:  # live, always
        yield int(buckets[0]), batch
        return
    starts = runs_of(buckets)
    ends = [*starts[1:].tolist(), len(buckets)]
    for bucket, start, end in zip(buckets[starts].tolist(), starts.tolist(), ends, strict=True):
        yield bucket, batch.slice(start, end - start)


class Parsed:
    """Rows of a source fresh from JSON: objects and their stimes. Kept for a turn at most: Arrow takes a fifth of the
    memory.

    `columns`: converts objects into Arrow columns, without stime. Instances that are combined must share it.
    """

    __slots__ = ("_columns", "_objects", "_schema", "_stimes")

    def __init__(
        self,
        schema: pa.Schema,
        columns: Callable[[list[Any]], list[pa.Array]],
        objects: list[Any],
        stimes: Sequence[int],
    ) -> None:
        self._schema = schema
        self._columns = columns
        self._objects = objects
        self._stimes = stimes

    def __len__(self) -> int:
        return len(self._objects)

    def take(self, indices: Sequence[int]) -> Parsed:
        picked = [self._objects[i] for i in indices]
        return Parsed(self._schema, self._columns, picked, [self._stimes[i] for i in indices])

    @staticmethod
    def batch(parts: Sequence[Parsed]) -> pa.RecordBatch:
        """The rows of several instances as one batch."""
        first = parts[0]
        objects = first._objects if len(parts) == 1 else [row for part in parts for row in part._objects]
        stimes = np.fromiter(chain.from_iterable(p._stimes for p in parts), np.int64, len(objects))
        return pa.RecordBatch.from_arrays([*first._columns(objects), pa.array(stimes)], schema=first._schema)


class ArrowRows:
    """Implements `sunion.model.RowOps` on record batches."""

    def take(self, rows: pa.RecordBatch | Parsed, indices: Sequence[int]) -> pa.RecordBatch | Parsed:
        if isinstance(rows, Parsed):
            return rows.take(indices)
        return rows.take(pa.array(indices, pa.int64()))

    def concat(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def settle(self, groups: Sequence[Sequence[pa.RecordBatch | Parsed]]) -> Sequence[pa.RecordBatch]:
        """Slices of a common batch: a separate batch per record would take more memory than its rows."""
        parts = [part for group in groups for part in group]
        if all(isinstance(part, Parsed) for part in parts):
            whole = Parsed.batch(parts)
            ends = np.cumsum([sum(map(len, group)) for group in groups]).tolist()
            return [whole.slice(start, end - start) for start, end in zip([0, *ends], ends, strict=False)]
        return [self.concat([Parsed.batch([p]) if isinstance(p, Parsed) else p for p in group]) for group in groups]

    def order(self, parts: Sequence[pa.RecordBatch | None]) -> tuple[pa.RecordBatch | None, ...]:
        """Lazy: operators merge the inputs they read, so a query over one input never touches the others."""
        return tuple(parts)

    def count(self, rows: pa.RecordBatch) -> int:
        return int(rows.num_rows)

    def size_bytes(self, rows: pa.RecordBatch) -> int:
        return int(rows.nbytes)

    def digest(self, rows: pa.RecordBatch) -> bytes:
        """Hash of the rows' values, column by column; their types follow from the query."""
        digest = hashlib.blake2b(digest_size=8)
        for column in rows.columns:
            add_column(digest, column)
        return digest.digest()


def row_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """Size of each row in bytes: that of its values, as `types.arrow.sizes` counts."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        sizes += sizes_of(column)
    return sizes


def canonical_hash(batch: pa.RecordBatch) -> str:
    """Hex digest of type-tagged values, column by column. Equal for equal rows, whatever their memory layout.

    Doubles are hashed by their bits (so -0.0 differs from 0.0), but all NaNs alike.
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(str(batch.num_rows).encode())
    for field, column in zip(batch.schema, batch.columns, strict=True):
        digest.update(f"|{field.name}:{field.type}|".encode())
        hash_column(digest, column)
    return digest.hexdigest()
