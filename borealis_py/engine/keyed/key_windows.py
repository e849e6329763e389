"""Windows that each key has of its own: so many rows of it, or rows with no long silence between them.

A window's rows are kept until it closes; then they are added up together, in their order. So a result follows from the
rows alone, however they came in steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from borealis_py.engine.arrow.rows import joined, runs_of
from borealis_py.engine.keyed.keeping import EVER
from borealis_py.engine.keyed.kept_rows import HASH, Found, hashed, taken
from borealis_py.engine.keyed.open_rows import PLACE, START, OpenRows, numbered
from borealis_py.engine.keyed.window_rules import RowsByKey, WindowRule
from borealis_py.engine.operators.base import (
    CLOSE_ROWS,
    GroupNumbers,
    Operator,
    OperatorState,
    Rows,
    Slice,
    refuse_window,
)
from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.engine.operators.increments import Partial, StatePart
from borealis_py.engine.operators.poison_rows import run_by_group, run_by_part
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.query.names import STIME


@dataclass(frozen=True)
class KeyWindowOperator(Operator):
    """Aggregates over windows of the rows of `inputs` that each key has of its own, by the rule of `kept`.

    `hash`: hashes keys; None: all rows have one. `close` turns the rows of windows, with `kept.columns`, into results
    with `schema`: in both, the first column is what the windows are ordered by, the second one where each begins. Last
    in its input is the rows' position. `rank` numbers the groups of rows by key, to name those that fail; None: there
    are no keys. `node`: named as the source of its dead letters. `whole_us`: windows that begin before this stime
    (microseconds) have no result, since rows of theirs may never have been read.
    """

    operator_class: ClassVar = OperatorClass.DETERMINISTIC
    node: str
    inputs: tuple[int]
    kept: OpenRows
    hash: Statement | None
    close: Statement
    rank: Statement | None
    schema: pa.Schema
    whole_us: int

    @property
    def lookback(self) -> int:
        """Where a window begins depends on all rows of its key before."""
        return EVER

    @property
    def unbounded(self) -> str:
        return str(self.kept.rule)

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        return (self.kept,)

    def run(self, part: Slice, state: OperatorState) -> tuple[Rows, OperatorState]:
        rows, blocks = self.rows(part), state[0]
        low_us, high_us = part.first * part.width_us, part.end * part.width_us
        due = self.kept.due(blocks, low_us, high_us)
        if rows is None and not len(due.row):
            return None, (self.kept.added(blocks, None, due.row, part.end),)
        keys = self._keys(rows, blocks, due)
        new = self._placed(rows, blocks, keys, low_us)
        closing = new.windows(self.kept.rule, low_us, high_us).of_those_from(self.whole_us)
        found = joined([self._closed(part, rows, blocks, keys, new, some) for some in closing.together()])
        return found, (self._after(blocks, rows, keys, new, part.end),)

    def _keys(self, rows: Rows, blocks: Sequence[Partial], due: Found) -> _Keys:
        """The keys of new rows and of windows that may close."""
        names = (HASH, *self.kept.by)
        parts = [] if rows is None else [[pa.array(self._hashes(rows)), *rows.select(self.kept.by).columns]]
        parts += [taken(blocks, due, names).columns] if len(due.row) else []
        hashes, *columns = (pa.concat_arrays(one) for one in zip(*parts, strict=True))
        found = hashes.to_numpy()
        number = numbered(found, columns)
        _, first = np.unique(number, return_index=True)
        count = 0 if rows is None else rows.num_rows
        return _Keys(number[:count], found[:count], found[first], [column.take(pa.array(first)) for column in columns])

    def _hashes(self, rows: pa.RecordBatch) -> np.ndarray:
        if self.hash is None:
            return np.zeros(rows.num_rows, dtype=np.int64)
        return hashed(self.hash, [rows.column(name) for name in self.kept.by])

    def _placed(self, rows: Rows, blocks: Sequence[Partial], keys: _Keys, low_us: int) -> _Placed:
        """The new rows in the windows that were open at the slice's beginning, and in those that they begin."""
        place, start, last = self.kept.last_of(
            blocks, *self.kept.latest([b for _, b in blocks], keys.hashes, keys.columns)
        )
        place[self.kept.rule.ends(place, start, last) <= low_us] = -1
        order = np.argsort(keys.of_row, kind="stable")
        stimes = np.zeros(0, dtype=np.int64) if rows is None else rows.column(STIME).to_numpy()
        by_key = RowsByKey(keys.of_row[order], stimes[order], place, start, last)
        begins = self.kept.rule.begins(by_key)
        return _Placed(by_key, order, begins, *by_key.windows(begins))

    def _after(self, blocks: Sequence[Partial], rows: Rows, keys: _Keys, new: _Placed, end: int) -> tuple[Partial, ...]:
        if rows is None:
            return self.kept.added(blocks, None, keys.row_hashes, end)
        own = np.empty((2, rows.num_rows), dtype=np.int64)
        own[:, new.order] = new.place, new.start
        placed = pa.RecordBatch.from_arrays(
            [*map(pa.array, own), *rows.columns], names=[PLACE, START, *rows.schema.names]
        )
        return self.kept.added(blocks, placed, keys.row_hashes, end)

    def _closed(
        self, part: Slice, rows: Rows, blocks: Sequence[Partial], keys: _Keys, new: _Placed, closing: _Windows
    ) -> Rows:
        """The results of these windows."""
        content = self._content(rows, blocks, keys, new, closing)
        order = content.column(0).to_numpy()
        starts = np.append(runs_of(order), len(order))
        found = joined(run_by_part(self.close, content, starts, lambda one: self._one(part, rows, one)))
        if found is None:
            return None
        ends = self._ends(rows, found.column(0).to_numpy())
        columns = [found.column(1), pa.array(ends), *found.columns[2:], pa.array(ends - 1)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _content(
        self, rows: Rows, blocks: Sequence[Partial], keys: _Keys, new: _Placed, closing: _Windows
    ) -> pa.RecordBatch:
        """All rows of these windows, window after window, in their order."""
        columns = self.close.input.names[2:-1]
        parts, window, place = [], [], []
        if closing.kept.any():
            at = pa.array(closing.key)
            own = [column.take(at) for column in keys.columns]
            found = self.kept.rows_of(blocks, keys.hashes[closing.key], own, closing.kept)
            parts.append(taken(blocks, found, columns))
            window.append(found.probe)
            place.append(found.rank)
        if rows is not None and closing.new.any():
            number = np.repeat(np.arange(len(closing.new)), closing.new)
            within = np.arange(len(number)) - np.repeat(np.cumsum(closing.new) - closing.new, closing.new)
            sorted_ = closing.first[number] + within
            parts.append(rows.select(columns).take(pa.array(new.order[sorted_])))
            window.append(number)
            place.append(new.place[sorted_])
        of = np.concatenate(window)
        order = np.lexsort((np.concatenate(place), of))
        of, whole = of[order], pa.concat_batches(parts).take(pa.array(order))
        numbers = pa.array(closing.number[of]), pa.array(closing.start[of])
        return pa.RecordBatch.from_arrays(
            [*numbers, *whole.columns, pa.array(np.arange(len(of)))], schema=self.close.input
        )

    def _ends(self, rows: Rows, numbers: np.ndarray) -> np.ndarray:
        """The ends of windows with these numbers."""
        if self.kept.rule.by_time:
            return numbers
        assert rows is not None
        found: np.ndarray = rows.column(STIME).to_numpy()[numbers] + 1
        return found

    def _one(self, part: Slice, rows: Rows, content: pa.RecordBatch) -> Rows:
        """The results of windows of one number, without those that fail."""
        (end,) = self._ends(rows, content.column(0).to_numpy()[:1]).tolist()
        groups = GroupNumbers(self.rank, content)
        result, bad = run_by_group(self.close, content, groups)
        for group, reason in sorted(bad.items()):
            start = content.column(1)[int(np.flatnonzero(groups() == group)[0])].as_py()
            refuse_window(part, self.node, start, end, groups.keys(group, self.kept.by), reason)
        return result


@dataclass(frozen=True)
class _Keys:
    """Of each new row the number of its key and its hash; of each key its hash; and the `columns` of the keys."""

    of_row: np.ndarray
    row_hashes: np.ndarray
    hashes: np.ndarray
    columns: Sequence[pa.Array]


@dataclass(frozen=True)
class _Placed:
    """New rows by key: in parallel the row's number in the slice (`order`), whether it begins a window, its place there
    and the stime of the window's first row."""

    by_key: RowsByKey
    order: np.ndarray
    begins: np.ndarray
    place: np.ndarray
    start: np.ndarray

    def windows(self, rule: WindowRule, low_us: int, high_us: int) -> _Windows:
        """The windows that end in (low_us, high_us], by their numbers."""
        rows, place = self.by_key, self.by_key.open_place
        first = np.flatnonzero(self.begins | rows.firsts())
        past = np.append(first[1:], len(rows.key))[: len(first)]
        silent = place >= 0  # a window that was open and to which no row is added
        silent[rows.key[first[~self.begins[first]]]] = False
        old = np.flatnonzero(silent)
        key, start = np.append(old, rows.key[first]), np.append(rows.open_start[old], self.start[first])
        last = np.append(rows.open_last[old], rows.stimes[past - 1])
        end = rule.ends(np.append(place[old], self.place[past - 1]), start, last)
        none = np.zeros(len(old), dtype=np.int64)
        windows = _Windows(
            number=end if rule.by_time else np.append(none, self.order[past - 1]),
            key=key,
            start=start,
            kept=np.append(place[old] + 1, self.place[first]),
            first=np.append(none, first),
            new=np.append(none, past - first),
        )
        closed = np.flatnonzero((end > low_us) & (end <= high_us))
        return windows.take(closed[np.argsort(windows.number[closed], kind="stable")])


@dataclass(frozen=True)
class _Windows:
    """Windows that close, in parallel: the `number` that orders their results, the number of the `key`, the stime of
    the first row, how many rows were `kept`, and how many are `new`: those from number `first` on of the slice's rows
    by key.

    A window's number is its end where time closes it, and else the number in the slice of the row that does.
    """

    number: np.ndarray
    key: np.ndarray
    start: np.ndarray
    kept: np.ndarray
    first: np.ndarray
    new: np.ndarray

    def take(self, at: np.ndarray | slice) -> _Windows:
        parts = (self.number, self.key, self.start, self.kept, self.first, self.new)
        return _Windows(*(part[at] for part in parts))

    def of_those_from(self, stime: int) -> _Windows:
        """Those that begin at this stime or later."""
        return self if not len(self.start) or self.start.min() >= stime else self.take(self.start >= stime)

    def together(self) -> Iterator[_Windows]:
        """Those that are closed together: all of one number, and not many rows."""
        firsts = np.flatnonzero(np.diff(self.number, prepend=-1))
        sizes = np.add.reduceat(self.kept + self.new, firsts) if len(firsts) else firsts
        begin, rows = 0, 0
        for first, size in zip(firsts.tolist(), sizes.tolist(), strict=True):
            if rows and rows + size > CLOSE_ROWS:
                yield self.take(slice(begin, first))
                begin, rows = first, 0
            rows += size
        if rows:
            yield self.take(slice(begin, None))
