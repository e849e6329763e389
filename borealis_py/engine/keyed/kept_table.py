"""A table kept whole, with an index by key: of each key the last row. An immutable value, like all state.

Rows lie in blocks, sorted by (hash of the key, position), each with one row of a key. The first block has all buckets
below the last multiple of 256; the buckets since lie in blocks of 1, 2, 4, ... neighbours, as those of
`keyed.kept_rows` do. So a change costs little, and the table is written anew as a whole every 256 buckets. Which
buckets share a block follows from how far the node has run, and from nothing else: m buckets in one step leave the same
blocks as m steps.

A deletion is a row, too. It stays until nothing older is left that it could hide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from borealis_py.engine.keyed.kept_rows import HASH, Found, bisected, same_keys
from borealis_py.engine.operators import Partial
from borealis_py.engine.rows import buckets_of
from borealis_py.query.names import STIME

DELETED = "__deleted"
"""The last column of a block: whether the row deletes its key."""
LEVEL = 8
"""The table is written anew every 2^8 buckets."""


@dataclass(frozen=True)
class TableChanges:
    """The rows of a slice as a `block`, with all rows of a key, and their `stimes`."""

    block: pa.RecordBatch
    stimes: np.ndarray


@dataclass(frozen=True)
class KeptTable:
    """How a table is kept.

    `schema`: of a block: the key's hash, the table's columns, whether the row deletes. `by`: the key's columns.
    `width_us`: of a bucket, in microseconds.
    """

    schema: pa.Schema
    by: tuple[str, ...]
    width_us: int

    @classmethod
    def of(cls, columns: pa.Schema, by: Sequence[str], width_us: int) -> KeptTable:
        """A table with these columns."""
        own = pa.field(HASH, pa.int64()), pa.field(DELETED, pa.bool_())
        return cls(pa.schema([own[0], *columns, own[1]]), tuple(by), width_us)

    @property
    def columns(self) -> list[str]:
        """Of the table."""
        return list(self.schema.names[1:-1])

    def changes(self, rows: pa.RecordBatch, hashes: np.ndarray) -> TableChanges:
        """Rows, in total order, to be found in."""
        order = np.argsort(hashes, kind="stable")
        return TableChanges(self._block(rows, hashes, order), rows.column(STIME).to_numpy()[order])

    def whole(self, rows: pa.RecordBatch, hashes: np.ndarray) -> pa.RecordBatch:
        """A table as one block: of each key the last row."""
        return self._lasts([self._block(rows, hashes, np.arange(rows.num_rows))])

    def added(
        self, blocks: Sequence[Partial], rows: pa.RecordBatch | None, hashes: np.ndarray, end: int
    ) -> tuple[Partial, ...]:
        """The blocks of a node that has run all buckets below `end`, with the rows that came since."""
        olds = _starts(np.array([start for start, _ in blocks], dtype=np.int64), end)
        news = np.zeros(0, dtype=np.int64) if rows is None else _starts(buckets_of(rows, self.width_us), end)
        starts = np.unique(np.concatenate([olds, news]))
        if rows is None and np.array_equal(starts, [start for start, _ in blocks]):
            return tuple(blocks)
        made: list[Partial] = []
        old, new = (np.searchsorted(of, np.append(starts, end)) for of in (olds, news))
        for number, start in enumerate(starts.tolist()):
            parts = [batch for _, batch in blocks[old[number] : old[number + 1]]]
            at = np.arange(int(new[number]), int(new[number + 1]))
            if rows is not None and len(at):
                parts.append(self._block(rows, hashes, at))
            batch = parts[0] if len(parts) == 1 and not len(at) else self._lasts(parts)
            if not made:  # a deletion in the first block hides nothing
                batch = _without_deletions(batch)
            if batch.num_rows:
                made.append((start, batch))
        return tuple(made)

    def find(
        self,
        blocks: Sequence[Partial],
        changes: TableChanges | None,
        hashes: np.ndarray,
        keys: Sequence[pa.Array],
        stimes: np.ndarray,
    ) -> Found:
        """The version of the table's row that each probe finds at its stime, if there is one that is not deleted.

        Args:
            blocks: of all buckets before the slice; in what is found, `changes` are the block behind them.
            hashes, keys, stimes: of each probe.
        """
        block, row = (np.full(len(hashes), -1) for _ in range(2))
        parts = [batch for _, batch in blocks] + ([] if changes is None else [changes.block])
        for number, batch in reversed(list(enumerate(parts))):
            probe = np.flatnonzero(block < 0)
            if not len(probe):
                break
            kept = batch.column(0).to_numpy()
            first, end = (np.searchsorted(kept, hashes[probe], side) for side in ("left", "right"))
            if changes is not None and number == len(blocks):
                end = bisected(changes.stimes, first, end, stimes[probe] + 1)
            while len(some := np.flatnonzero(first < end)):
                probe, first, last = probe[some], first[some], end[some] - 1
                asked = [key.take(pa.array(probe)) for key in keys]
                same = _same(batch.select(self.by).take(pa.array(last)).columns, asked)
                block[probe[same]], row[probe[same]] = number, last[same]
                probe, first, end = probe[~same], first[~same], last[~same]  # another key has the same hash
        there = np.flatnonzero(block >= 0)
        for number in range(len(parts)):
            mine = there[block[there] == number]
            gone = parts[number].column(DELETED).take(pa.array(row[mine])).to_numpy(zero_copy_only=False)
            block[mine[gone.astype(bool)]] = -1
        there = np.flatnonzero(block >= 0)
        there = there[np.argsort(block[there], kind="stable")]
        return Found(there, block[there], row[there], there)

    def _block(self, rows: pa.RecordBatch, hashes: np.ndarray, at: np.ndarray) -> pa.RecordBatch:
        taken = rows.select([*self.columns, DELETED]).take(pa.array(at))
        return pa.RecordBatch.from_arrays([pa.array(hashes[at]), *taken.columns], schema=self.schema)

    def _lasts(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """One block of several, which follow each other in time: of each key the last row."""
        whole = pa.concat_batches(parts)
        whole = whole.take(pa.array(np.argsort(whole.column(0).to_numpy(), kind="stable")))
        apart = 1
        while True:
            hashes = whole.column(0).to_numpy()
            first = np.flatnonzero(hashes[:-apart] == hashes[apart:])
            if not len(first):
                return whole
            keys = whole.select(self.by)
            replaced = first[_same(*(keys.take(pa.array(at)).columns for at in (first, first + apart)))]
            apart += 1
            if len(replaced):
                left = np.ones(len(hashes), dtype=bool)
                left[replaced] = False
                whole, apart = whole.filter(pa.array(left)), 1


def _starts(buckets: np.ndarray, end: int) -> np.ndarray:
    """Where the block of each bucket begins: 0 below the last multiple of 256, else the largest aligned one that ends
    by `end`."""
    sizes = np.ones(len(buckets), dtype=np.int64)
    for level in range(1, LEVEL):
        sizes[((buckets >> level) + 1) << level <= end] = 1 << level
    return np.where(buckets < end >> LEVEL << LEVEL, 0, buckets & -sizes)


def _without_deletions(batch: pa.RecordBatch) -> pa.RecordBatch:
    deleted = batch.column(DELETED).to_numpy(zero_copy_only=False).astype(bool)
    return batch.filter(pa.array(~deleted)) if deleted.any() else batch


def _same(ours: Sequence[pa.Array], theirs: Sequence[pa.Array]) -> np.ndarray:
    found: np.ndarray = np.logical_and.reduce([same_keys(*both) for both in zip(ours, theirs, strict=True)])
    return found
