"""Join: pairs of rows of two streams that agree in their keys and are close in time.

The later row of a pair, the left one if both have one stime, looks for the earlier one among the rows that were kept,
so each pair is found once, in the bucket of its stime. A left row without a pair is recognised when its time is over:
it looks once more for any row that would have paired. What is found depends on the rows and on nothing else: not on
slices, partitions or the layout of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from borealis_py.engine.keyed.keeping import check_memory
from borealis_py.engine.keyed.kept_rows import (
    HASH,
    Found,
    Kept,
    KeptRows,
    Probes,
    Range,
    hashed,
    sizes,
    taken,
    usable,
)
from borealis_py.engine.operators.base import Operator, OperatorState, Rows, Slice, dead_letter_values, readable
from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.engine.operators.increments import Partial, StatePart
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.query.names import STIME
from sunion.model import Reject

PAIRS_MAX = 100_000
"""A key with more pairs in one bucket is a dead letter."""
PAIR_BYTES = 64
"""What a pair costs before its rows are copied: where they lie, and their order."""

State = Sequence[Partial]


@dataclass(frozen=True)
class _Side:
    """The rows of one input: those that are new in a slice, their hashes, and all that are kept."""

    rows: Rows
    hashes: np.ndarray
    kept: Kept

    @property
    def blocks(self) -> Sequence[Partial]:
        """All that are kept, and behind them the new ones once more, in their order."""
        return self.kept.blocks if self.rows is None else (*self.kept.blocks, (0, self.rows))

    @property
    def stimes(self) -> np.ndarray:
        """Of the new rows; none: there are none."""
        found: np.ndarray = np.zeros(0, dtype=np.int64) if self.rows is None else self.rows.column(STIME).to_numpy()
        return found

    def new(self, numbers: np.ndarray) -> Found:
        """New rows by their number."""
        last = np.full(len(numbers), len(self.kept.blocks))
        return Found(numbers, last, numbers, self.kept.ranks[numbers])


@dataclass(frozen=True)
class _Pairs:
    """Pairs in parallel: where the left and the right row lie (`right` empty: left rows without a pair), and the stime
    of the result."""

    left: Found
    right: Found | None
    stimes: np.ndarray

    def where(self, wanted: np.ndarray) -> _Pairs:
        right = None if self.right is None else self.right.where(wanted)
        return _Pairs(self.left.where(wanted), right, self.stimes[wanted])


@dataclass(frozen=True)
class JoinOperator(Operator):
    """Pairs of the rows of two operators, `inputs`: left and right.

    `node`: named as the source of its dead letters. `on`, `other_on`: the key's columns, as each side spells them.
    `low_us`, `high_us`: how long after the left row the right one may be. `outer`: left rows without a pair count, too.
    `hash`: hashes keys. `left`, `right`: how their rows are kept. `schema`: of the result. `row_max_bytes`: the largest
    row. `memory_bytes`: the limit of what a slice's pairs may take. `whole_us`: left rows before this stime
    (microseconds) do not count as being without a pair, since right rows may never have been read.
    """

    operator_class: ClassVar = OperatorClass.CONVERGENT
    node: str
    inputs: tuple[int, int]
    on: tuple[str, ...]
    other_on: tuple[str, ...]
    low_us: int
    high_us: int
    outer: bool
    hash: Statement
    left: KeptRows
    right: KeptRows
    schema: pa.Schema
    row_max_bytes: int
    memory_bytes: int
    whole_us: int

    @property
    def lookback(self) -> int:
        before_us, after_us = max(-self.low_us, 0), max(self.high_us, 0)
        return -(-(before_us + after_us if self.outer else max(before_us, after_us)) // self.left.width_us)

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        """Each part of its state: the left rows' blocks, and the right ones'."""
        return self.left, self.right

    def run(self, part: Slice, state: OperatorState) -> tuple[Rows, OperatorState]:
        """The pairs whose stimes lie in the slice, and the rows that later buckets need."""
        left_rows, right_rows = self.rows(part), usable(part.outputs[self.inputs[1]], self.other_on)
        if not self.outer:
            left_rows = usable(left_rows, self.on)
        if left_rows is None and right_rows is None and not any(state):
            return None, ((), ())
        left, right = self._sides(left_rows, right_rows, state, part.end)
        found = [p for p in self._found(part, left, right) if len(p.stimes)]
        result = self._result(part, left, right, found) if found else None
        kept = self.left.current(left.kept.blocks, part.end), self.right.current(right.kept.blocks, part.end)
        return result, kept

    def _sides(self, left: Rows, right: Rows, state: Sequence[State], end: int) -> tuple[_Side, _Side]:
        keys = [[pa.nulls(0, f.type) for f in self.hash.input]] * 2
        keys = [
            found if rows is None else [rows.column(name) for name in by]
            for rows, by, found in zip((left, right), (self.on, self.other_on), keys, strict=True)
        ]
        both = [pa.concat_arrays(columns) for columns in zip(*keys, strict=True)]
        hashes = hashed(self.hash, both)
        middle = len(keys[0][0])
        found = hashes[:middle], hashes[middle:]
        return (
            _Side(left, found[0], self.left.added(state[0], left, found[0], end)),
            _Side(right, found[1], self.right.added(state[1], right, found[1], end)),
        )

    # Pairs ------------------------------------------------------------------------------------------------------------

    def _found(self, part: Slice, left: _Side, right: _Side) -> Iterator[_Pairs]:
        """Pairs whose right row is the earlier one, or as early; those whose left row is; left rows without a pair."""
        of_left, of_right = self._of_left(left), self._of_right(right)
        ranges = [
            [] if of_left is None else self.right.ranges(right.kept.blocks, of_left),
            [] if of_right is None else self.left.ranges(left.kept.blocks, of_right),
        ]
        counts = [np.zeros(len(side.hashes), dtype=np.int64) for side in (left, right)]
        for count, found in zip(counts, ranges, strict=True):
            for _, first, end in found:
                count += end - first
        if sum(int(count.sum()) for count in counts) > PAIRS_MAX:
            ranges = self._bounded(part, (left, right), counts, ranges)
        self._check_memory(PAIR_BYTES * sum(int((end - first).sum()) for one in ranges for _, first, end in one))
        if of_left is not None and ranges[0]:
            earlier = self.right.all(right.kept.blocks, of_left, ranges[0])
            yield _Pairs(left.new(earlier.probe), earlier, left.stimes[earlier.probe])
        if of_right is not None and ranges[1]:
            earlier = self.left.all(left.kept.blocks, of_right, ranges[1])
            yield _Pairs(earlier, right.new(earlier.probe), right.stimes[earlier.probe])
        if self.outer:
            yield self._alone(part, left, right)

    def _of_left(self, left: _Side) -> Probes | None:
        """What each new left row looks for: right rows that are not later."""
        if left.rows is None or self.low_us > 0:
            return None
        stimes = left.stimes
        keys = [left.rows.column(name) for name in self.on]  # a null finds nothing: no right row that is kept has one
        return Probes(left.hashes, keys, stimes + self.low_us, stimes + min(self.high_us, 0))

    def _of_right(self, right: _Side) -> Probes | None:
        """What each new right row looks for: left rows that are earlier."""
        if right.rows is None or self.high_us <= 0:
            return None
        stimes = right.stimes
        low, high = stimes - self.high_us, np.minimum(stimes - self.low_us, stimes - 1)
        return Probes(right.hashes, [right.rows.column(name) for name in self.other_on], low, high)

    def _alone(self, part: Slice, left: _Side, right: _Side) -> _Pairs:
        """The left rows whose time is over in this slice and that have no pair."""
        late_us = max(self.high_us, 0)
        first_us, end_us = (bucket * part.width_us - late_us for bucket in (part.first, part.end))
        first_us = max(first_us, self.whole_us)
        due = self.left.between(left.kept.blocks, first_us, max(first_us, end_us))
        if not len(due.probe):
            return _Pairs(due, None, due.row)
        rows = taken(left.kept.blocks, due, (HASH, *self.on, STIME))
        stimes = rows.column(STIME).to_numpy()
        keys = [rows.column(name) for name in self.on]
        probes = Probes(rows.column(HASH).to_numpy(), keys, stimes + self.low_us, stimes + self.high_us)
        alone = self.right.earliest(right.kept.blocks, probes) < 0
        return _Pairs(due.where(alone), None, stimes[alone] + late_us)

    # Bounds -----------------------------------------------------------------------------------------------------------

    def _bounded(
        self,
        part: Slice,
        sides: tuple[_Side, _Side],
        counts: Sequence[np.ndarray],
        ranges: Sequence[Sequence[Range]],
    ) -> list[list[Range]]:
        """The ranges without those of keys that have too many pairs in a bucket, which are dead letters."""
        buckets = np.concatenate([side.stimes // part.width_us for side in sides])
        groups = np.stack([buckets, np.concatenate([side.hashes for side in sides])])
        group, first, number = np.unique(groups, axis=1, return_index=True, return_inverse=True)
        totals = np.zeros(group.shape[1], dtype=np.int64)
        np.add.at(totals, number.ravel(), np.concatenate(counts))
        left_count = len(sides[0].hashes)
        for at in np.flatnonzero(totals > PAIRS_MAX).tolist():
            row = int(first[at])
            side, names = (sides[0], self.on) if row < left_count else (sides[1], self.other_on)
            assert side.rows is not None
            key = dead_letter_values(side.rows.select(names), row if row < left_count else row - left_count)
            reason = (
                f"{totals[at]} pairs in one bucket, at most {PAIRS_MAX} of a key are made: a narrower within=, or "
                "another column to join on, gives fewer"
            )
            self._refuse(part, int(group[0, at]), key, reason)
        good = np.split((totals <= PAIRS_MAX)[number.ravel()], [left_count])
        return [
            [(n, begin, np.where(keep, end, begin)) for n, begin, end in one]
            for keep, one in zip(good, ranges, strict=True)
        ]

    def _check_memory(self, needed_bytes: int) -> None:
        advice = "A narrower within=, or another column to join on, gives fewer pairs"
        check_memory(f"the pairs of a join on ({', '.join(self.on)})", needed_bytes, self.memory_bytes, advice)

    def _refuse(self, part: Slice, bucket: int, key: Mapping[str, object], reason: str) -> None:
        named = dict(zip(self.on, key.values(), strict=True))
        text = ", ".join(f"{name}={readable(value)}" for name, value in named.items())
        raw = msgspec.json.encode({"bucket_start": bucket * part.width_us, **named})
        part.refuse(bucket, Reject(self.node, -1, f"join on {text}: {reason}", raw))

    # Result -----------------------------------------------------------------------------------------------------------

    def _result(self, part: Slice, left: _Side, right: _Side, found: Sequence[_Pairs]) -> Rows:
        """The pairs as rows, in the order (stime, left row, right row)."""
        ours = [name for name in self.schema.names if name in self.left.schema.names and name != STIME]
        theirs = self.schema.names[len(ours) : -1]
        fitting = [self._fitting(part, left, right, pairs, ours, theirs) for pairs in found]
        fitting = [pairs for pairs in fitting if len(pairs.stimes)]
        if not fitting:
            return None
        stimes = np.concatenate([pairs.stimes for pairs in fitting])
        lefts = np.concatenate([pairs.left.rank for pairs in fitting])
        rights = np.concatenate([_ranks(pairs) for pairs in fitting])
        order = pa.array(np.lexsort((rights, lefts, stimes)))
        columns = pa.concat_batches([taken(left.blocks, pairs.left, ours) for pairs in fitting]).take(order).columns
        fields = pa.schema([self.schema.field(name) for name in theirs])
        if theirs:
            others = [self._others(right, pairs, fields) for pairs in fitting]
            columns += pa.concat_batches(others).take(order).columns
        return pa.RecordBatch.from_arrays([*columns, pa.array(stimes).take(order)], schema=self.schema)

    def _others(self, right: _Side, pairs: _Pairs, fields: pa.Schema) -> pa.RecordBatch:
        if pairs.right is None:
            return pa.RecordBatch.from_arrays([pa.nulls(len(pairs.stimes), f.type) for f in fields], schema=fields)
        return taken(right.blocks, pairs.right, fields.names)

    def _fitting(
        self, part: Slice, left: _Side, right: _Side, pairs: _Pairs, ours: Sequence[str], theirs: Sequence[str]
    ) -> _Pairs:
        """The pairs without those that are larger than a row may be, which are dead letters."""
        total = sizes(left.blocks, pairs.left, ours) + 8
        if pairs.right is not None and theirs:
            total += sizes(right.blocks, pairs.right, theirs)
        large = total > self.row_max_bytes
        self._check_memory(int(total[~large].sum()))
        bad = np.flatnonzero(large)
        for i in bad[np.lexsort((_ranks(pairs)[bad], pairs.left.rank[bad], pairs.stimes[bad]))].tolist():
            one = pairs.left.where(np.array([i]))
            key = dead_letter_values(taken(left.blocks, one, self.on), 0)
            reason = (
                f"a pair of {total[i]} bytes, row_max is {self.row_max_bytes}: select less of both before, or raise "
                "`timing: row_max`"
            )
            self._refuse(part, int(pairs.stimes[i]) // part.width_us, key, reason)
        return pairs.where(~large) if large.any() else pairs


def _ranks(pairs: _Pairs) -> np.ndarray:
    return pairs.left.rank if pairs.right is None else pairs.right.rank
