"""The rows of windows that are open, one window of each key at most.

How rows lie is in `keyed.compacted_blocks`. The last row of a key says all that must be known of its window: its place
there, from 0, so how many rows the window has, and the stime of the window's first row. Each block has at most the rows
of a key's last window in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from borealis_py.engine.keyed.compacted_blocks import CompactedBlocks, equal_keys
from borealis_py.engine.keyed.kept_rows import HASH, Found
from borealis_py.engine.keyed.window_rules import WindowRule
from borealis_py.engine.operators.increments import Partial
from borealis_py.query.names import STIME

PLACE, START = "__place", "__start"
"""The columns of a block behind the key's hash: the row's place in its window, the stime of the window's first row."""
_OWN = (HASH, PLACE, START)


@dataclass(frozen=True)
class OpenRows(CompactedBlocks):
    """How rows of open windows are kept: a block has `_OWN`, the rows' columns, and their stimes. `rule`: when a window
    is open."""

    rule: WindowRule

    @classmethod
    def of(cls, columns: pa.Schema, by: Sequence[str], width_us: int, rule: WindowRule) -> OpenRows:
        """Rows with these columns."""
        own = [pa.field(name, pa.int64()) for name in _OWN]
        return cls(pa.schema([*own, *columns, pa.field(STIME, pa.int64())]), tuple(by), width_us, rule)

    @property
    def columns(self) -> list[str]:
        """Of the rows, without their stime."""
        return list(self.schema.names[len(_OWN) : -1])

    def due(self, blocks: Sequence[Partial], low_us: int, high_us: int) -> Found:
        """The last row of each window that ends in (low_us, high_us], and others that may be rows of such windows.
        `probe` and `rank` have no meaning."""
        found = []
        for number, (_, batch) in enumerate(blocks if self.rule.by_time else ()):
            place, start, last = (batch.column(name).to_numpy() for name in (PLACE, START, STIME))
            ends = self.rule.ends(place, start, last)
            rows = np.flatnonzero((ends > low_us) & (ends <= high_us))
            found.append((rows, np.full(len(rows), number), rows, rows))
        return _found(found)

    def last_of(
        self, blocks: Sequence[Partial], block: np.ndarray, row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(place, stime of the window's first row, stime) of these rows; place -1 where `block` is: there is none."""
        found = tuple(np.full(len(block), -1) for _ in range(3))
        for number, (_, batch) in enumerate(blocks):
            mine = np.flatnonzero(block == number)
            for values, name in zip(found, (PLACE, START, STIME), strict=True):
                values[mine] = batch.column(name).to_numpy()[row[mine]]
        return found[0], found[1], found[2]

    def rows_of(
        self, blocks: Sequence[Partial], hashes: np.ndarray, keys: Sequence[pa.Array], counts: np.ndarray
    ) -> Found:
        """So many of the last rows of each probe's key, which are those of its open window. `rank`: their places."""
        wanted = counts.copy()
        found = []
        for number, (_, batch) in reversed(list(enumerate(blocks))):
            probe = np.flatnonzero(wanted > 0)
            if not len(probe):
                break
            kept = batch.column(0).to_numpy()
            first, end = (np.searchsorted(kept, hashes[probe], side) for side in ("left", "right"))
            some = np.repeat(np.arange(len(probe)), end - first)
            rows = np.arange(len(some)) - np.repeat(np.cumsum(end - first) - (end - first), end - first) + first[some]
            mine = self.same(batch, rows, keys, probe[some])
            probe, rows = probe[some[mine]], rows[mine]
            wanted -= np.bincount(probe, minlength=len(wanted))
            places = batch.column(PLACE).to_numpy()[rows]
            found.append((probe, np.full(len(rows), number), rows, places))
        return _found(found)

    def _block(self, rows: pa.RecordBatch, hashes: np.ndarray, at: np.ndarray) -> pa.RecordBatch:
        taken = rows.select([PLACE, START, *self.columns, STIME]).take(pa.array(at))
        return pa.RecordBatch.from_arrays([pa.array(hashes[at]), *taken.columns], schema=self.schema)

    def _compacted(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        whole = pa.concat_batches(parts)
        hashes = whole.column(0).to_numpy()
        order = np.argsort(hashes, kind="stable")
        place, start, stime = (whole.column(name).to_numpy()[order] for name in (PLACE, START, STIME))
        key = numbered(hashes, whole.select(self.by).columns if self.by else [])[order]
        by_key = np.argsort(key, kind="stable")
        counts = np.bincount(key)
        ends = np.cumsum(counts)
        last = by_key[ends - 1]
        # The last row of all is in an open window, so it stays, and with it the time by which others are closed.
        needed = self.rule.needed(place[last], self.rule.ends(place[last], start[last], stime[last]), int(stime.max()))
        from_end = np.repeat(ends, counts) - np.arange(len(key))
        left = np.zeros(len(key), dtype=bool)
        left[by_key] = from_end <= np.repeat(needed, counts)
        return whole.take(pa.array(order[left]))

    def _without_hiding(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        hiding = self.rule.hiding(batch.column(PLACE).to_numpy())
        return batch.filter(pa.array(~hiding)) if hiding.any() else batch


def _found(parts: Sequence[tuple[np.ndarray, ...]]) -> Found:
    none = np.zeros(0, dtype=np.int64)
    columns = list(zip(*parts, strict=True)) or [()] * 4
    return Found(*(np.concatenate([none, *column]) for column in columns))


def numbered(hashes: np.ndarray, keys: Sequence[pa.Array]) -> np.ndarray:
    """A number for each key, from 0 without gaps, in no order that means anything: equal where keys are."""
    numbers = np.zeros(len(hashes), dtype=np.int64)
    left = np.argsort(hashes, kind="stable")
    count = 0
    while len(left):
        run = np.cumsum(np.diff(hashes[left], prepend=hashes[left[:1]] - 1) != 0) - 1
        first = left[np.flatnonzero(np.diff(run, prepend=-1))][run]
        same = equal_keys(len(left), *([key.take(pa.array(at)) for key in keys] for at in (left, first)))
        numbers[left[same]] = run[same] + count
        count += int(run[-1]) + 1
        left = left[~same]  # another key has the same hash
    return numbers
