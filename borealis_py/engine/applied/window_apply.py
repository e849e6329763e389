"""Applies a function to windows: one call for each window and group, with the group's rows in total order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from borealis_py.engine.applied.called import CalledFunction
from borealis_py.engine.arrow.row_limit import larger
from borealis_py.engine.arrow.rows import joined
from borealis_py.engine.operators.base import Rows, Slice, WindowedOperator, dead_letter_values, refuse_window
from borealis_py.engine.operators.increments import Partial
from borealis_py.engine.operators.poison_rows import group_numbers
from borealis_py.engine.sql.duck_faults import RowError
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START

RESULT_ROWS_MAX = 100_000
"""The most rows that a function may return for one group: all results of a bucket are in memory at once."""


class GroupFunction:
    """A function that makes a table of the rows of one window and group, beside its `keys`."""

    def __init__(self, called: CalledFunction, keys: Sequence[str], rows: pa.Schema, row_max_bytes: int) -> None:
        self._called = called
        self._keys = list(keys)
        self._row_max_bytes = row_max_bytes
        self.name = called.name
        self.rows = rows
        self.seen: list[pa.RecordBatch] | None = None
        """Where its groups are noted, for a check; None: nowhere."""
        window = [pa.field(WINDOW_START, pa.int64()), pa.field(WINDOW_END, pa.int64())]
        self.input = pa.schema([*window, *rows])
        self.schema = pa.schema([*window, *(rows.field(key) for key in keys), *called.schema, rows.field(STIME)])

    def run(self, group: pa.RecordBatch) -> pa.RecordBatch:
        """The results of a group, whose rows have the columns `input`. Raises RowError."""
        made = self._called(group)
        count = made.num_rows
        if count > RESULT_ROWS_MAX:
            raise RowError(f"{self.name}: it returned {count} rows for one group, over {RESULT_ROWS_MAX}", False)
        first = group.take(pa.array([0] * count, pa.int64()))
        ends = pa.array(np.full(count, group.column(WINDOW_END)[0].as_py() - 1))
        beside = [first.column(name) for name in (WINDOW_START, WINDOW_END, *self._keys)]
        found = pa.RecordBatch.from_arrays([*beside, *made.columns, ends], schema=self.schema)
        if self._keys and (how := larger(found, self._row_max_bytes)) is not None:
            raise RowError(
                f"{self.name}: a row of the result is larger than row_max, {self._row_max_bytes} bytes: {how}; "
                "return less, or raise `timing: row_max`",
                True,
            )
        return found


@dataclass(frozen=True)
class WindowApplyOperator(WindowedOperator):
    """What `function` makes of windows of the rows of `inputs`. `rank`: numbers the groups of a window by
    `keys`, in the order of the results; None: it has no keys."""

    function: GroupFunction
    rank: Statement | None

    def _closed(self, part: Slice, windows: Sequence[tuple[int, Sequence[Partial]]]) -> Rows:
        found: list[Rows] = []
        for end, partials in windows:
            rows = pa.concat_batches([batch for _, batch in partials])
            found += [self._group(part, end, group) for group in self._groups(rows)]
        return joined(found)

    def _groups(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of each group of a window, in the order of keys."""
        if self.rank is None:
            yield rows
            return
        positions = pa.array(np.arange(rows.num_rows))
        keyed = pa.RecordBatch.from_arrays([*rows.select(list(self.keys)).columns, positions], schema=self.rank.input)
        numbers = group_numbers(self.rank, keyed)
        order = np.argsort(numbers, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
            yield rows.take(pa.array(some))

    def _group(self, part: Slice, end: int, rows: pa.RecordBatch) -> Rows:
        """The results of one group; none if the function fails on it twice."""
        times = [self.times.begin(end) * self.width_us, end * self.width_us]
        bounds = [pa.array(np.full(rows.num_rows, at)) for at in times]
        group = pa.RecordBatch.from_arrays([*bounds, *rows.columns], schema=self.function.input)
        if self.function.seen is not None:
            self.function.seen.append(group)
        try:
            return self.function.run(group)
        except RowError:
            try:
                return self.function.run(group)
            except RowError as exc:
                key = dead_letter_values(rows.select(list(self.keys)), 0)
                refuse_window(part, self.node, times[0], times[1], key, str(exc))
                return None
