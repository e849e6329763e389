"""Rows kept for as long as their key needs them, with an index by key: an immutable value, like all state.

Rows lie in blocks, sorted by (hash of the key, position), each with only those rows of a key that are still needed. The
first block has all buckets below the last multiple of 256; the buckets since lie in blocks of 1, 2, 4, ... neighbours,
as those of `keyed.kept_rows` do. So a row costs little, and all is written anew as a whole every 256 buckets. Which
buckets share a block follows from how far the node has run, and from nothing else: m buckets in one step leave the same
blocks as m steps.

A row may hide older ones of its key that are needed no more. It stays until nothing older is left that it could hide.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from borealis_py.engine.arrow.rows import buckets_of
from borealis_py.engine.keyed.kept_rows import same_keys
from borealis_py.engine.operators.increments import EntriesPart, Partial, PartIncrement, increment_by_identity

LEVEL = 8
"""All rows are written anew every 2^8 buckets."""

Ends = Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(number of a block, probes, for each its first row there, its end row) -> the end row up to which it looks."""


@dataclass(frozen=True)
class CompactedBlocks(EntriesPart, ABC):
    """How rows are kept.

    `schema`: of a block; the first column is the key's hash. `by`: the key's columns. `width_us`: of a bucket, in
    microseconds.
    """

    schema: pa.Schema
    by: tuple[str, ...]
    width_us: int

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
            batch = parts[0] if len(parts) == 1 and not len(at) else self._compacted(parts)
            if not made:  # nothing is older than the first block
                batch = self._without_hiding(batch)
            if batch.num_rows:
                made.append((start, batch))
        return tuple(made)

    def increment(self, before: Sequence[Partial], after: Sequence[Partial], since: int, end: int) -> PartIncrement:
        """`engine.operators.increments.StatePart`: blocks that were made anew."""
        return increment_by_identity(before, after)

    @abstractmethod
    def _block(self, rows: pa.RecordBatch, hashes: np.ndarray, at: np.ndarray) -> pa.RecordBatch:
        """The rows with these numbers, in this order, as a block has them."""

    @abstractmethod
    def _compacted(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """One block of several, which follow each other in time: what is needed of each key, sorted."""

    @abstractmethod
    def _without_hiding(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The block without rows that are only there to hide older ones."""

    def latest(
        self, parts: Sequence[pa.RecordBatch], hashes: np.ndarray, keys: Sequence[pa.Array], ends: Ends | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The last row of each probe's key: (block, row); -1: there is none.

        Args:
            parts: the rows of each block. hashes, keys: of each probe. ends: up to where it looks; None: all rows.
        """
        block, row = (np.full(len(hashes), -1) for _ in range(2))
        for number, batch in reversed(list(enumerate(parts))):
            probe = np.flatnonzero(block < 0)
            if not len(probe):
                break
            kept = batch.column(0).to_numpy()
            first, end = (np.searchsorted(kept, hashes[probe], side) for side in ("left", "right"))
            if ends is not None:
                end = ends(number, probe, first, end)
            while len(some := np.flatnonzero(first < end)):
                probe, first, last = probe[some], first[some], end[some] - 1
                same = self.same(batch, last, keys, probe)
                block[probe[same]], row[probe[same]] = number, last[same]
                probe, first, end = probe[~same], first[~same], last[~same]  # another key has the same hash
        return block, row

    def same(self, batch: pa.RecordBatch, rows: np.ndarray, keys: Sequence[pa.Array], probes: np.ndarray) -> np.ndarray:
        """Whether each row of a block has its probe's key."""
        ours = batch.select(self.by).take(pa.array(rows)).columns if self.by else []
        return equal_keys(len(rows), ours, [key.take(pa.array(probes)) for key in keys])


def equal_keys(count: int, ours: Sequence[pa.Array], theirs: Sequence[pa.Array]) -> np.ndarray:
    """Whether each of `count` pairs of keys is one key; keys without columns are."""
    found = np.ones(count, dtype=bool)
    for one, other in zip(ours, theirs, strict=True):
        found &= same_keys(one, other)
    return found


def _starts(buckets: np.ndarray, end: int) -> np.ndarray:
    """Where the block of each bucket begins: 0 below the last multiple of 256, else the largest aligned one that ends
    by `end`."""
    sizes = np.ones(len(buckets), dtype=np.int64)
    for level in range(1, LEVEL):
        sizes[((buckets >> level) + 1) << level <= end] = 1 << level
    return np.where(buckets < end >> LEVEL << LEVEL, 0, buckets & -sizes)
