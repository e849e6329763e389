"""The operators of a running fragment: they process a slice of buckets at once, on record batches, with explicit state.

A row's bucket follows from its stime, so a slice is one batch of rows in total order. Each statement groups by bucket
(or by window) before anything else, and a group's rows keep their order: how buckets are grouped into slices cannot
change a bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from borealis_py.engine.arrow.partitioner import part_of, sort_by_key
from borealis_py.engine.arrow.rows import buckets_of, by_bucket, joined, merge, runs_of, sorted_by_stime
from borealis_py.engine.operators.aggregates import POSITION
from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.engine.operators.grouped_sums import GroupedSums
from borealis_py.engine.operators.increments import Partial, StatePart, WindowEntries
from borealis_py.engine.operators.poison_rows import Runs, group_numbers, isolate_bad_rows, run_by_group, run_by_part
from borealis_py.engine.operators.window_times import WindowTimes
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.query.names import STIME
from borealis_py.types.arrow import said
from sunion.model import Reject

Rows: TypeAlias = pa.RecordBatch | None
"""Rows of a slice in order; None: it has none."""
OperatorState: TypeAlias = tuple[tuple[Partial, ...], ...]
"""The entries of each part of an operator's state; no part: it keeps nothing."""
CLOSE_ROWS = 100_000
"""Windows are closed together while they hold at most this many partials or rows: sliding windows overlap."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Buckets [first, end) being processed, each `width_us` microseconds wide.

    `inputs`: each input's rows, bucket after bucket. `outputs`: the rows of each operator that has run. `rejects`: dead
    letters by bucket, in the order of operators, then rows.
    """

    first: int
    end: int
    width_us: int
    inputs: Sequence[Rows]
    outputs: list[Rows] = field(default_factory=list)
    rejects: dict[int, list[Reject]] = field(default_factory=dict)

    def refuse(self, bucket: int, reject: Reject) -> None:
        self.rejects.setdefault(bucket, []).append(reject)


class Operator(ABC):
    """One step of a node's plan.

    `operator_class`: what its results depend on, which decides how its node may recover. `inputs`: the operators whose
    rows it reads, as indices into the plan.
    """

    operator_class: ClassVar[OperatorClass]
    inputs: tuple[int, ...]

    @property
    def lookback(self) -> int:
        """How many earlier buckets a result may depend on."""
        return 0

    @property
    def unbounded(self) -> str:
        """What its user wrote, such as "window(rows=100)", if a result may depend on any earlier bucket; else ""."""
        return ""

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        """How each part of its state changes from bucket to bucket."""
        return ()

    def rows(self, part: Slice) -> Rows:
        """The slice's rows of its first input; most have no other."""
        return part.outputs[self.inputs[0]]

    @abstractmethod
    def run(self, part: Slice, state: OperatorState) -> tuple[Rows, OperatorState]:
        """The results whose stimes lie in the slice, and the state after it. `state`: before it, part by part."""


class StatelessOperator(Operator):
    """An operator that keeps nothing: its results are made of the slice's rows alone."""

    def run(self, part: Slice, state: OperatorState) -> tuple[Rows, OperatorState]:
        return self.apply(part), ()

    @abstractmethod
    def apply(self, part: Slice) -> Rows:
        """The results."""


@dataclass(frozen=True)
class SourceOperator(StatelessOperator):
    """Rows of input `index` of the node, in order. `inputs`: none, as it reads no other operator."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    index: int
    inputs: tuple[int, ...] = ()

    def apply(self, part: Slice) -> Rows:
        batch = part.inputs[self.index] if part.inputs else None
        return sorted_by_stime(batch) if batch is not None and batch.num_rows else None


@dataclass(frozen=True)
class UnionOperator(StatelessOperator):
    """Rows of several operators in total order; columns as in the first one (`columns`). `inputs`: the operators'
    indices."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    inputs: tuple[int, ...]
    columns: tuple[str, ...]

    def apply(self, part: Slice) -> Rows:
        found = [part.outputs[i] for i in self.inputs]
        return merge(
            [b if b is None or tuple(b.schema.names) == self.columns else b.select(self.columns) for b in found]
        )


@dataclass(frozen=True)
class PartitionFilter(StatelessOperator):
    """The rows of `inputs` that belong to partition `index` of `count` of the node, by a hash of their columns
    `by`."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    inputs: tuple[int]
    by: tuple[str, ...]
    count: int
    index: int

    def apply(self, part: Slice) -> Rows:
        batch = self.rows(part)
        return None if batch is None else part_of(batch, self.by, self.count, self.index)


@dataclass(frozen=True)
class MergeOperator(StatelessOperator):
    """Rows of all partitions of a node, by (stime, key, position). `inputs`: indices of the operators that give each
    partition's rows. `by`: the key's columns."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    inputs: tuple[int, ...]
    by: tuple[str, ...]

    def apply(self, part: Slice) -> Rows:
        rows = joined([part.outputs[i] for i in self.inputs])
        return None if rows is None else sort_by_key(rows, self.by)


@dataclass(frozen=True)
class StatementOperator(StatelessOperator):
    """A fused chain of filters and maps. `statement`: runs over the rows of `inputs`. `node`: named as the
    source of its dead letters."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    node: str
    inputs: tuple[int]
    statement: Statement

    def apply(self, part: Slice) -> Rows:
        batch = self.rows(part)
        return None if batch is None else _by_row(self.node, self.statement, batch, part)


@dataclass(frozen=True)
class WindowedOperator(Operator):
    """Something computed over windows of the rows of `inputs`. `times`: when they begin and end, in buckets,
    each `width_us` microseconds wide.

    `collect` turns rows into partials, one per bucket and key, with the bucket as first column and `partial_schema`
    (None: the partials are the rows themselves, with `columns`). `schema`: of the results, which are grouped by `keys`.
    `node`: named as the source of its dead letters. `whole_us`: windows that begin before this stime (microseconds)
    have no result, since rows of theirs were never read.
    """

    operator_class: ClassVar = OperatorClass.CONVERGENT
    node: str
    inputs: tuple[int]
    times: WindowTimes
    width_us: int
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    collect: Statement | GroupedSums | None
    partial_schema: pa.Schema
    schema: pa.Schema
    whole_us: int

    @property
    def lookback(self) -> int:
        return self.times.longest - 1

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        return (WindowEntries(self.partial_schema),)

    def run(self, part: Slice, state: OperatorState) -> tuple[Rows, OperatorState]:
        """The results of the windows that close in the slice, and the partials that later windows need."""
        rows = self.rows(part)
        content = [*state[0], *(self._collected(part, rows) if rows is not None else ())]
        if not content:
            return None, ((),)
        needed = self.times.begin(self.times.next_end(part.end))
        if self.times.next_end(max(content[0][0], part.first)) > part.end:  # live, mostly: none closes
            return None, (tuple(entry for entry in content if entry[0] >= needed),)
        buckets = np.array([bucket for bucket, _ in content])
        found = joined([self._closed(part, windows) for windows in self._windows(part, buckets, content)])
        return found, (tuple(content[int(np.searchsorted(buckets, needed)) :]),)

    def _collected(self, part: Slice, rows: pa.RecordBatch) -> Iterator[Partial]:
        """The partials of each bucket in the slice."""
        if self.collect is None:
            yield from by_bucket(rows.select(self.columns), buckets_of(rows, self.width_us))
            return
        found = _by_row(self.node, self.collect, rows, part)
        if found is not None:
            yield from by_bucket(found.select(self.partial_schema.names), found.column(0).to_numpy())

    def _windows(
        self, part: Slice, buckets: np.ndarray, content: Sequence[Partial]
    ) -> Iterator[list[tuple[int, Sequence[Partial]]]]:
        """The non-empty windows that close in the slice, as (end, its partials), grouped by how many are closed at
        once.

        Gaps are free, however long.
        """
        some: list[tuple[int, Sequence[Partial]]] = []
        rows = 0
        longest = self.times.longest
        for run in np.split(buckets, np.flatnonzero(np.diff(buckets) > longest) + 1):
            last = min(int(run[-1]) + longest, part.end)
            begins, ends = self.times.between(max(int(run[0]), part.first), last)
            low, high = np.searchsorted(buckets, begins), np.searchsorted(buckets, ends)
            bounds = (begins.tolist(), ends.tolist(), low.tolist(), high.tolist())
            for begin, end, one, other in zip(*bounds, strict=True):
                if one == other or begin * self.width_us < self.whole_us:
                    continue
                size = sum(batch.num_rows for _, batch in content[one:other])
                if some and rows + size > CLOSE_ROWS:
                    yield some
                    some, rows = [], 0
                some.append((end, content[one:other]))
                rows += size
        if some:
            yield some

    @abstractmethod
    def _closed(self, part: Slice, windows: Sequence[tuple[int, Sequence[Partial]]]) -> Rows:
        """The results of these windows, each (end, its partials), in their order."""


@dataclass(frozen=True)
class WindowOperator(WindowedOperator):
    """Aggregates over windows.

    `close` turns the partials of windows into results; in both, the first column is the window's end. `rank` numbers
    the groups of a window by `keys`, to name those that fail; None: it has no keys. `positions`: computed from rows,
    with their position in the total order as a column.
    """

    close: Statement | GroupedSums
    rank: Statement | None
    positions: bool

    def _closed(self, part: Slice, windows: Sequence[tuple[int, Sequence[Partial]]]) -> Rows:
        batches = [[batch for _, batch in partials] for _, partials in windows]
        sizes = [sum(batch.num_rows for batch in one) for one in batches]
        rows = pa.concat_batches([batch for one in batches for batch in one])
        columns = [pa.array(np.repeat([end for end, _ in windows], sizes)), *rows.columns]
        if self.positions:
            columns.append(pa.array(np.arange(rows.num_rows)))
        content = pa.RecordBatch.from_arrays(columns, schema=self.close.input)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        found = joined(run_by_part(self.close, content, starts, lambda one: self._one(part, one)))
        return None if found is None else self._frame(found)

    def _one(self, part: Slice, rows: pa.RecordBatch) -> Rows:
        """The results of one window, without the keys that fail."""
        end = rows.column(0)[0].as_py()
        groups = GroupNumbers(self.rank, rows)
        result, bad = run_by_group(self.close, rows, groups)
        start_us, end_us = self.times.begin(end) * self.width_us, end * self.width_us
        for group, reason in sorted(bad.items()):
            refuse_window(part, self.node, start_us, end_us, groups.keys(group, self.keys), reason)
        return result

    def _frame(self, result: pa.RecordBatch) -> pa.RecordBatch:
        closed = result.column(0).to_numpy()
        begins, ends = self.times.begins(closed) * self.width_us, closed * self.width_us
        start, end, stime = (pa.array(v) for v in (begins, ends, ends - 1))
        return pa.RecordBatch.from_arrays([start, end, *result.columns[1:], stime], schema=self.schema)


class GroupNumbers:
    """Maps rows of a window to keys; computed only after a failure."""

    def __init__(self, rank: Statement | None, rows: pa.RecordBatch) -> None:
        self._rank = rank
        self._rows = rows
        self._numbers: np.ndarray | None = None

    def __call__(self) -> np.ndarray:
        if self._numbers is None:
            self._numbers = np.zeros(self._rows.num_rows, dtype=np.int64)
            if self._rank is not None:
                names = self._rank.input.names[:-1]
                positions = pa.array(np.arange(self._rows.num_rows))
                keyed = _with_column(self._rows.select(names), POSITION, positions)
                self._numbers = group_numbers(self._rank, keyed)
        return self._numbers

    def keys(self, group: int, names: Sequence[str]) -> dict[str, object]:
        row = int(np.flatnonzero(self() == group)[0])
        return dead_letter_values(self._rows.select(names), row)


def refuse_window(part: Slice, node: str, start_us: int, end_us: int, keys: Mapping[str, object], reason: str) -> None:
    """Make a window of these keys, which failed for this reason, a dead letter of the node."""
    named = "".join(f", {k}={readable(v)}" for k, v in keys.items())
    where = f"window [{start_us}, {end_us}) us{named}: {reason}"
    raw = msgspec.json.encode({"window_start": start_us, "window_end": end_us, **keys})
    part.refuse((end_us - 1) // part.width_us, Reject(node, -1, where, raw))


def _by_row(node: str, statement: Runs, batch: pa.RecordBatch, part: Slice) -> Rows:
    """Run rows through a statement, without those that fail; a bucket with a failing row is run by itself."""
    buckets = buckets_of(batch, part.width_us)
    starts = np.append(runs_of(buckets), len(buckets))

    return joined(run_by_part(statement, batch, starts, lambda rows: without_bad_rows(node, statement, rows, part)))


def without_bad_rows(node: str, runs: Runs, rows: pa.RecordBatch, part: Slice) -> Rows:
    """Run rows, of one bucket, without those that fail, which become dead letters."""
    found, bad = isolate_bad_rows(runs, rows)
    for row, reason in sorted(bad.items()):
        values = dead_letter_values(rows, row)
        stime = rows.column(STIME)[row].as_py()
        reject = Reject(node, -1, f"tuple at stime {stime}: {reason}", msgspec.json.encode(values))
        part.refuse(stime // part.width_us, reject)
    return found


def dead_letter_values(rows: pa.RecordBatch, row: int) -> dict[str, object]:
    """A row as JSON has it, for its dead letter."""
    return {name: said(column)[0] for name, column in zip(rows.schema.names, rows.slice(row, 1).columns, strict=True)}


def readable(value: object) -> str:
    """A value in the text of a dead letter's reason."""
    return bytes(value).decode() if isinstance(value, msgspec.Raw) else repr(value)


def _with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    schema = batch.schema.append(pa.field(name, column.type))
    return pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)
