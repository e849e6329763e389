"""A table kept whole, with an index by key: of each key the last row. An immutable value, like all state.

How rows lie is in `keyed.compacted_blocks`. A deletion is a row, too: it hides older ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from borealis_py.engine.keyed.compacted_blocks import CompactedBlocks, equal_keys
from borealis_py.engine.keyed.kept_rows import HASH, Found, bisected
from borealis_py.engine.operators.increments import Partial
from borealis_py.query.names import STIME

DELETED = "__deleted"
"""The last column of a block: whether the row deletes its key."""


@dataclass(frozen=True)
class TableChanges:
    """The rows of a slice as a `block`, with all rows of a key, and their `stimes`."""

    block: pa.RecordBatch
    stimes: np.ndarray


@dataclass(frozen=True)
class KeptTable(CompactedBlocks):
    """How a table is kept: a block has the key's hash, the table's columns, and whether the row deletes."""

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
        return self._compacted([self._block(rows, hashes, np.arange(rows.num_rows))])

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
        parts = [batch for _, batch in blocks] + ([] if changes is None else [changes.block])

        def ends(number: int, probe: np.ndarray, first: np.ndarray, end: np.ndarray) -> np.ndarray:
            if changes is None or number < len(blocks):
                return end
            return bisected(changes.stimes, first, end, stimes[probe] + 1)

        block, row = self.latest(parts, hashes, keys, ends)
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

    def _compacted(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        whole = pa.concat_batches(parts)
        whole = whole.take(pa.array(np.argsort(whole.column(0).to_numpy(), kind="stable")))
        apart = 1
        while True:
            hashes = whole.column(0).to_numpy()
            first = np.flatnonzero(hashes[:-apart] == hashes[apart:])
            if not len(first):
                return whole
            keys = whole.select(self.by)
            one, other = (keys.take(pa.array(at)).columns for at in (first, first + apart))
            replaced = first[equal_keys(len(first), one, other)]
            apart += 1
            if len(replaced):
                left = np.ones(len(hashes), dtype=bool)
                left[replaced] = False
                whole, apart = whole.filter(pa.array(left)), 1

    def _without_hiding(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        deleted = batch.column(DELETED).to_numpy(zero_copy_only=False).astype(bool)
        return batch.filter(pa.array(~deleted)) if deleted.any() else batch
