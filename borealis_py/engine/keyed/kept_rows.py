"""Rows kept for a time, with an index by key: an immutable value, like all state.

Rows lie in blocks: each a batch of all rows of 1, 2, 4, ... neighbouring buckets, sorted by (hash of the key, stime,
position). So the rows of one key and a range of time are found by two binary searches. Which buckets share a block
follows from how far the node has run, and from nothing else: m buckets in one step leave the same blocks as m steps. A
step makes new blocks and leaves the old ones alone.

Equal hashes only suggest equal keys: whatever is found is compared by value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.engine.arrow.rows import buckets_of, row_sizes, runs_of
from borealis_py.engine.operators.increments import Partial, PartIncrement, grown
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.query.names import STIME
from borealis_py.types.arrow import stored

HASH = "__hash"
"""The first column of a block: the hash of the row's key."""
PLACE = "__place"
"""The second one: the row's position among the rows of the block in total order, from 0."""
_OWN = (HASH, PLACE)
_LEVEL_MAX = 8
"""A block has at most 2^8 buckets: it is sorted anew as a whole when it is made."""
_BLOCKS = 8
"""Rows are kept in at least this many blocks of full size, so that at most an eighth of them is out of date."""
_PLACES = 40
"""A rank is a block's number, then this many bits for a row's place."""


Range = tuple[int, np.ndarray, np.ndarray]
"""(number of a block, for each probe its first row there, its end row)"""


@dataclass(frozen=True)
class Kept:
    """`blocks` after the rows of a step were added, before old ones are dropped. `ranks`: of the added rows, as `Found`
    has them."""

    blocks: tuple[Partial, ...]
    ranks: np.ndarray


@dataclass(frozen=True)
class Found:
    """Rows in blocks, in parallel: `probe`, the number of the probe that each was found for; `block` and `row`, where
    it lies, blocks ascending; `rank`, which ascends in total order."""

    probe: np.ndarray
    block: np.ndarray
    row: np.ndarray
    rank: np.ndarray

    def where(self, wanted: np.ndarray) -> Found:
        return Found(self.probe[wanted], self.block[wanted], self.row[wanted], self.rank[wanted])


@dataclass(frozen=True)
class Probes:
    """What to look for: rows with the hashes `hashes` and the values `keys`, and stimes from `low` to `high`, both
    included, in microseconds."""

    hashes: np.ndarray
    keys: Sequence[pa.Array]
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class KeptRows:
    """How the rows of one input are kept.

    `schema`: of a block, the rows' columns behind `HASH` and `PLACE`. `by`: the key's columns. `reach`: how many
    earlier buckets a bucket may need. `width_us`: of a bucket, in microseconds.
    """

    schema: pa.Schema
    by: tuple[str, ...]
    reach: int
    width_us: int

    @classmethod
    def of(cls, columns: pa.Schema, by: Sequence[str], keep_us: int, width_us: int) -> KeptRows:
        """Rows with these columns, which are needed for `keep_us` microseconds after their stime."""
        own = [pa.field(name, pa.int64()) for name in _OWN]
        return cls(pa.schema([*own, *columns]), tuple(by), -(-keep_us // width_us), width_us)

    @property
    def level(self) -> int:
        """Blocks have at most 2^level buckets."""
        return min(_LEVEL_MAX, max(1, self.reach // _BLOCKS).bit_length() - 1)

    def added(self, blocks: Sequence[Partial], rows: pa.RecordBatch | None, hashes: np.ndarray, end: int) -> Kept:
        """The blocks of a node that has run all buckets below `end`, with the rows that came since."""
        olds = self._starts(np.array([start for start, _ in blocks], dtype=np.int64), end)
        news = np.zeros(0, dtype=np.int64) if rows is None else self._starts(buckets_of(rows, self.width_us), end)
        starts, ranks = np.unique(np.concatenate([olds, news])), np.zeros(len(news), dtype=np.int64)
        if not len(news) and np.array_equal(starts, [start for start, _ in blocks]):
            return Kept(tuple(blocks), ranks)
        made = []
        old, new = (np.searchsorted(of, np.append(starts, end)) for of in (olds, news))
        for number, start in enumerate(starts.tolist()):
            parts = [batch for _, batch in blocks[old[number] : old[number + 1]]]
            first, past = int(new[number]), int(new[number + 1])
            before = sum(part.num_rows for part in parts)
            if rows is not None and past > first:
                ranks[first:past] = (number << _PLACES) | np.arange(before, before + past - first)
                parts.append(self._block(rows.slice(first, past - first), hashes[first:past]))
            made.append((start, parts[0] if len(parts) == 1 and past == first else _sorted(parts)))
        return Kept(tuple(made), ranks)

    def current(self, blocks: Sequence[Partial], end: int) -> tuple[Partial, ...]:
        """The blocks that bucket `end` or a later one may need."""
        sizes = self._sizes(np.array([start for start, _ in blocks], dtype=np.int64), end)
        needed = end - self.reach
        return tuple(b for b, size in zip(blocks, sizes.tolist(), strict=True) if b[0] + size > needed)

    # Checkpoints ------------------------------------------------------------------------------------------------------

    @property
    def row_schema(self) -> pa.Schema:
        """Of rows that are still to be filed: without their place."""
        return self.schema.remove(self.schema.get_field_index(PLACE))

    def increment(self, before: Sequence[Partial], after: Sequence[Partial], since: int, end: int) -> PartIncrement:
        """`engine.operators.increments.StatePart`: the rows that came since. Blocks follow from them."""
        found = self.between(after, since * self.width_us, end * self.width_us)
        columns = self.row_schema
        rows = taken(after, found, columns.names) if len(found.row) else pa.RecordBatch.from_pylist([], columns)
        if self._shapes(before, rows, end) != [(start, batch.num_rows) for start, batch in after]:
            return PartIncrement(entries=tuple(after))  # another state than the one it grew from
        return PartIncrement(rows=rows)

    def grown(self, before: Sequence[Partial], by: PartIncrement, end: int) -> tuple[Partial, ...]:
        """`engine.operators.increments.StatePart`."""
        if by.rows is None:
            return grown(before, by)
        rows = by.rows if by.rows.num_rows else None
        return self.current(self.added(before, rows, by.rows.column(0).to_numpy(), end).blocks, end)

    def _shapes(self, before: Sequence[Partial], rows: pa.RecordBatch, end: int) -> list[tuple[int, int]]:
        """(first bucket, number of rows) of the blocks that `grown` would make."""
        olds = self._starts(np.array([start for start, _ in before], dtype=np.int64), end)
        news = self._starts(buckets_of(rows, self.width_us), end)
        starts, at = np.unique(np.concatenate([olds, news]), return_inverse=True)
        weights = [batch.num_rows for _, batch in before] + [1] * len(news)
        counts = np.bincount(at, weights=weights, minlength=len(starts)).astype(np.int64)
        there = starts + self._sizes(starts, end) > end - self.reach
        return list(zip(starts[there].tolist(), counts[there].tolist(), strict=True))

    def _block(self, rows: pa.RecordBatch, hashes: np.ndarray) -> pa.RecordBatch:
        own = [pa.array(hashes), pa.array(np.arange(rows.num_rows))]
        columns = [rows.column(name) for name in self.schema.names[len(_OWN) :]]
        return pa.RecordBatch.from_arrays([*own, *columns], schema=self.schema)

    def _sizes(self, buckets: np.ndarray, end: int) -> np.ndarray:
        """How many buckets the block of each bucket has: the largest aligned one that ends by `end`."""
        sizes = np.ones(len(buckets), dtype=np.int64)
        for level in range(1, self.level + 1):
            sizes[((buckets >> level) + 1) << level <= end] = 1 << level
        return sizes

    def _starts(self, buckets: np.ndarray, end: int) -> np.ndarray:
        found: np.ndarray = buckets & -self._sizes(buckets, end)
        return found

    # Finding ----------------------------------------------------------------------------------------------------------

    def ranges(self, blocks: Sequence[Partial], probes: Probes) -> list[Range]:
        """Where rows lie with each probe's hash and a stime in its range, in each block that has any."""
        found: list[Range] = []
        if not len(probes.hashes):
            return found
        order = np.argsort(probes.hashes, kind="stable")  # sorted needles are found faster
        hashes = probes.hashes[order]
        lowest, highest = probes.low.min(), probes.high.max()
        for number, (start, batch) in enumerate(blocks):
            begin_us, end_us = start * self.width_us, (start + (1 << self.level)) * self.width_us
            if highest < begin_us or lowest >= end_us:
                continue
            kept = batch.column(0).to_numpy()
            first = np.searchsorted(kept, hashes)
            some = np.flatnonzero(kept[np.minimum(first, len(kept) - 1)] == hashes)
            if not len(some):
                continue
            who, first = order[some], first[some]
            end = np.searchsorted(kept, hashes[some], "right")
            if (probes.low[who] > begin_us).any() or (probes.high[who] < end_us - 1).any():
                stimes = batch.column(STIME).to_numpy()
                first = bisected(stimes, first, end, probes.low[who])
                end = bisected(stimes, first, end, probes.high[who] + 1)
            firsts, ends = (np.zeros(len(hashes), dtype=np.int64) for _ in range(2))
            firsts[who], ends[who] = first, end
            found.append((number, firsts, ends))
        return found

    def all(self, blocks: Sequence[Partial], probes: Probes, ranges: Sequence[Range]) -> Found:
        """All rows in these ranges whose keys are those of the probe."""
        found = [_expanded(blocks, *one) for one in ranges]
        return self._equal(blocks, probes, _together(found))

    def earliest(self, blocks: Sequence[Partial], probes: Probes) -> np.ndarray:
        """The rank of the first row in total order that each probe finds; -1: none."""
        ranks = np.full(len(probes.hashes), -1, dtype=np.int64)
        for number, first, end in self.ranges(blocks, probes):
            open_ = np.flatnonzero((ranks < 0) & (first < end))
            while len(open_):
                rows = first[open_]
                places = blocks[number][1].column(1).to_numpy()[rows]
                one = Found(open_, np.full(len(open_), number), rows, (number << _PLACES) | places)
                equal = self._equal(blocks, probes, one)
                ranks[equal.probe] = equal.rank
                first = first + 1  # where another key has the same hash, the next row
                open_ = np.flatnonzero((ranks < 0) & (first < end))
        return ranks

    def latest(self, blocks: Sequence[Partial], probes: Probes, until: np.ndarray, count: int) -> Found:
        """The last rows in total order that each probe finds, `count` at most, up to the rank `until`."""
        wanted = np.full(len(until), count)
        found: list[Found] = []
        for number, first, end in reversed(self.ranges(blocks, probes)):
            places = blocks[number][1].column(1).to_numpy()
            end = bisected(places, first, end, until - (number << _PLACES) + 1)  # places ascend with stimes
            one = _expanded(blocks, number, np.maximum(first, end - wanted), end)
            equal = self._equal(blocks, probes, one)
            if len(equal.probe) < len(one.probe):  # another key has the same hash: its rows do not count
                equal = self._equal(blocks, probes, _expanded(blocks, number, first, end))
                counts = np.bincount(equal.probe, minlength=len(until))
                after = np.repeat(np.cumsum(counts), counts) - np.arange(len(equal.probe))
                equal = equal.where(after <= wanted[equal.probe])
            wanted = wanted - np.bincount(equal.probe, minlength=len(until))
            found.append(equal)
        return _together(found)

    def between(self, blocks: Sequence[Partial], low_us: int, end_us: int) -> Found:
        """All rows with stimes in [low_us, end_us), in total order within each block."""
        found = []
        for number, (start, batch) in enumerate(blocks):
            if start * self.width_us >= end_us or (start + (1 << self.level)) * self.width_us <= low_us:
                continue
            stimes = batch.column(STIME).to_numpy()
            rows = np.flatnonzero((stimes >= low_us) & (stimes < end_us))
            places = batch.column(1).to_numpy()[rows]
            order = np.argsort(places)
            rows, places = rows[order], places[order]
            found.append(Found(rows, np.full(len(rows), number), rows, (number << _PLACES) | places))
        return _together(found)

    def _equal(self, blocks: Sequence[Partial], probes: Probes, found: Found) -> Found:
        if not len(found.probe) or not self.by:
            return found
        rows = taken(blocks, found, self.by)
        asked = pa.array(found.probe)
        same = [same_keys(rows.column(i), key.take(asked)) for i, key in enumerate(probes.keys)]
        return found.where(np.logical_and.reduce(same))


def taken(blocks: Sequence[Partial], found: Found, columns: Sequence[str]) -> pa.RecordBatch:
    """The rows that were found; at least one."""
    parts = [blocks[number][1].select(columns).take(pa.array(rows)) for number, rows in _by_block(found)]
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def sizes(blocks: Sequence[Partial], found: Found, columns: Sequence[str]) -> np.ndarray:
    """The size of each row that was found, in bytes, as `engine.arrow.rows.row_sizes` counts."""
    parts = [sizes_at(blocks[number][1].select(columns), rows) for number, rows in _by_block(found)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def sizes_at(batch: pa.RecordBatch, rows: np.ndarray) -> np.ndarray:
    """The same of some rows of a batch, of which no texts and bytes are copied for it: they may be too many."""
    columns = {field.name: stored(batch.column(field.name)) for field in batch.schema}
    texts = [
        name for name, column in columns.items() if pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    ]
    total = np.zeros(len(rows), dtype=np.int64)
    if len(texts) < batch.num_columns:
        total += row_sizes(batch.drop_columns(texts).take(pa.array(rows)))
    for name in texts:
        column = columns[name]
        offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset :]
        there = np.asarray(column.is_valid())[rows]  # others may leave bytes under a null, which count for nothing
        total += np.where(there, offsets[rows + 1] - offsets[rows], 0)
    return total


def usable(rows: pa.RecordBatch | None, by: Sequence[str]) -> pa.RecordBatch | None:
    """The rows without a null in their key."""
    if rows is None:
        return None
    whole = np.ones(rows.num_rows, dtype=bool)
    for name in by:
        column = rows.column(name)
        if column.null_count:
            whole &= np.asarray(column.is_valid())
    if whole.all():
        return rows
    return rows.filter(pa.array(whole)) if whole.any() else None


def same_keys(ours: pa.Array, theirs: pa.Array) -> np.ndarray:
    """Whether values are the same key: null is null, NaN is NaN, and -0.0 is 0.0."""
    if isinstance(ours, pa.ExtensionArray):  # a marked type: of what is marked
        ours, theirs = ours.storage, theirs.storage
    equal = np.asarray(pc.fill_null(pc.equal(ours, theirs), False))
    if ours.null_count and theirs.null_count:
        equal = equal | (np.asarray(ours.is_null()) & np.asarray(theirs.is_null()))
    if pa.types.is_floating(ours.type):
        both = pc.and_(pc.is_nan(ours), pc.is_nan(theirs))
        equal = equal | np.asarray(pc.fill_null(both, False))
    return equal


def _sorted(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One block of several, which follow each other in time."""
    whole = pa.concat_batches(parts)
    if len(parts) > 1:
        counts = [part.num_rows for part in parts[:-1]]
        places = whole.column(1).to_numpy().copy()
        at = np.cumsum(counts).tolist()
        for before, first, end in zip(at, at, [*at[1:], len(places)], strict=True):
            places[first:end] += before
        columns = [whole.column(0), pa.array(places), *whole.columns[2:]]
        whole = pa.RecordBatch.from_arrays(columns, schema=whole.schema)
    order = np.argsort(whole.column(0).to_numpy(), kind="stable")
    return whole.take(pa.array(order))


def bisected(values: np.ndarray, first: np.ndarray, end: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """In each range [first, end) of ascending values, the first index whose value is at least the target."""
    low, high = first.copy(), end.copy()
    while (apart := low < high).any():
        middle = (low + high) >> 1
        less = apart & (values[np.minimum(middle, len(values) - 1)] < targets)
        low = np.where(less, middle + 1, low)
        high = np.where(apart & ~less, middle, high)
    return low


def _expanded(blocks: Sequence[Partial], number: int, first: np.ndarray, end: np.ndarray) -> Found:
    counts = end - first
    probe = np.repeat(np.arange(len(first)), counts)
    row = np.arange(len(probe)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    places = blocks[number][1].column(1).to_numpy()[row]
    return Found(probe, np.full(len(probe), number), row, (number << _PLACES) | places)


def _together(found: Sequence[Found]) -> Found:
    if not found:
        none = np.zeros(0, dtype=np.int64)
        return Found(none, none, none, none)
    columns = ([f.probe for f in found], [f.block for f in found], [f.row for f in found], [f.rank for f in found])
    return Found(*(np.concatenate(column) for column in columns))


def _by_block(found: Found) -> Iterator[tuple[int, np.ndarray]]:
    starts = runs_of(found.block)
    ends = [*starts[1:].tolist(), len(found.block)]
    for start, end in zip(starts.tolist(), ends, strict=True):
        yield int(found.block[start]), found.row[start:end]


def hashed(statement: Statement, keys: Sequence[pa.Array]) -> np.ndarray:
    """The hash of each key, by a statement over the key's columns."""
    if not len(keys[0]):
        return np.zeros(0, dtype=np.int64)
    batch = pa.RecordBatch.from_arrays(list(keys), schema=statement.input)
    found: np.ndarray = statement.run(batch).column(0).to_numpy().view(np.int64)
    return found
