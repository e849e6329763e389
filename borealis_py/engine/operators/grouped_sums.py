"""Counts and sums by group without a statement: the engine's own bits, at a small part of a statement's fixed cost.

A window that only counts rows and adds up plain columns, the commonest one, runs here: a statement takes about two
milliseconds at ten buckets a second, most of it before the first row. A group's values are added one by one, in the
order of the rows and from zero, as the engine adds them; groups come in the order of the statement. Whether a window
runs here follows from the query alone, so there is one way for each query: live, in a redo, on every replica, in an
audit. Knows nothing of logs or windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.engine.sql.duck_statement import Statement, checked, empty

KEY_TYPES = (pa.string(), pa.int64(), pa.bool_())
"""Types of keys of which equal values have equal bits. Doubles do not: 0.0 and -0.0 are one key."""
ROOM = 4
"""How many possible groups per row are numbered by a table; beyond that, groups are found by sorting."""


class MeasureKind(Enum):
    """What a result column holds."""

    ROWS = "the number of rows"
    VALUES = "the number of values that are not null"
    SUM = "the sum of doubles; null without any"
    TOTAL = "the sum of counts"
    MEAN = "the sum of doubles over the sum of counts; null without any"


class Measure(NamedTuple):
    """A result column: its `kind`, and the `columns` that it is computed from."""

    kind: MeasureKind
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupedSums:
    """Runs in place of `statement`, whose input and output it has.

    Rows are grouped by their column `number`, divided by `width` without the remainder, and by the columns `keys`. The
    `measures` are the columns after these.
    """

    statement: Statement
    number: str
    width: int
    keys: tuple[str, ...]
    measures: tuple[Measure, ...]

    @property
    def input(self) -> pa.Schema:
        return self.statement.input

    @property
    def output(self) -> pa.Schema:
        return self.statement.output

    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """As `Statement.run`. Raises RowError: a row of the result is too large."""
        if not batch.schema.equals(self.input):
            raise TypeError(f"rows of another schema than the statement's: {batch.schema} instead of {self.input}")
        if batch.num_rows == 0:
            return empty(self.output)
        numbers = batch.column(self.number).to_numpy() // self.width
        columns = grouped(batch, numbers, self.keys, self.measures)
        batch = pa.RecordBatch.from_arrays(columns, schema=self.output)
        return checked(batch, self.output, self.statement.row_max_bytes)

    def run_afresh(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same: there is no connection that could be at fault."""
        return self.run(batch)


def grouped(
    batch: pa.RecordBatch, first: np.ndarray, keys: Sequence[str], measures: Sequence[Measure]
) -> list[pa.Array]:
    """The groups of rows by `first` and keys, in ascending order, nulls last: `first`, keys and measures of each.

    Args:
        batch: at least one row. first: a number for each row.
    """
    group, row = _numbered(first, [batch.column(key) for key in keys])
    at = pa.array(row)
    columns = [pa.array(first[row]), *(batch.column(key).take(at) for key in keys)]
    return [*columns, *(_measured(batch, group, len(row), measure) for measure in measures)]


def _numbered(first: np.ndarray, keys: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row's group, and for each group the number of its first row."""
    codes, room = _codes(first)
    for key in keys:
        ranks, size = _ranks(key)
        if room * size > ROOM * len(first):
            codes, room = _codes(codes)
        codes, room = codes * size + ranks, room * size
    if room > ROOM * len(first):
        group, count = _codes(codes)
    else:
        there = np.zeros(room, dtype=np.int64)
        there[codes] = 1
        so_far = there.cumsum()
        group, count = (so_far - 1)[codes], int(so_far[-1])
    row = np.empty(count, dtype=np.int64)
    row[group[::-1]] = np.arange(len(group))[::-1]  # of several, the last assignment stays: the first row's
    return group, row


def _codes(values: np.ndarray) -> tuple[np.ndarray, int]:
    """The rank of each value among the distinct ones, and how many there are."""
    steps = values[1:] - values[:-1]
    if (steps >= 0).all():
        codes = np.zeros(len(values), dtype=np.int64)
        np.cumsum(steps > 0, out=codes[1:])
        return codes, int(codes[-1]) + 1
    found, inverse = np.unique(values, return_inverse=True)
    return inverse, len(found)


def _ranks(key: pa.Array) -> tuple[np.ndarray, int]:
    """The rank of each value among the distinct ones, null after all others, and how many ranks there may be."""
    encoded = key.dictionary_encode()
    known = len(encoded.dictionary)
    ranks = np.full(known + 1, known, dtype=np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(known)
    indices = encoded.indices.fill_null(known) if encoded.null_count else encoded.indices
    return ranks[indices.to_numpy()], known + 1


def _measured(batch: pa.RecordBatch, group: np.ndarray, count: int, measure: Measure) -> pa.Array:
    kind, names = measure
    if kind is MeasureKind.ROWS:
        return pa.array(np.bincount(group, minlength=count))
    column = batch.column(names[0])
    if kind is MeasureKind.TOTAL:  # of counts of rows: below 2^53, where doubles add exactly
        return pa.array(np.bincount(group, column.to_numpy(), count).astype(np.int64))
    if column.null_count:
        there = column.is_valid().to_numpy(zero_copy_only=False)
        some, values = group[there], column.filter(pa.array(there))
    else:
        some, values = group, column
    counts = np.bincount(some, minlength=count)
    if kind is MeasureKind.VALUES:
        return pa.array(counts)
    sums: np.ndarray = np.bincount(some, values.to_numpy(), count)
    if kind is MeasureKind.MEAN:
        with np.errstate(all="ignore"):
            sums = sums / np.bincount(group, batch.column(names[1]).to_numpy(), count)
    return pa.array(sums, mask=counts == 0)
