"""The operators of a fragment at work: bucket by bucket, on record batches, with state passed in and out.

Each computes a bucket from that bucket's rows alone, as one contiguous batch, and a window from its buckets' partials
in bucket order: how buckets are grouped into steps cannot change a bit (design 3.2). Sources: design 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from borealis_py.engine.aggregates import POSITION
from borealis_py.engine.blame import group_numbers, run_by_group, run_by_row
from borealis_py.engine.classes import OperatorClass
from borealis_py.engine.duck import Statement
from borealis_py.engine.parts import by_key, part_of
from borealis_py.engine.rows import joined, merge, sorted_by_stime
from sunion.model import Reject

Partial = tuple[int, pa.RecordBatch]
"""(bucket, partial aggregates or rows of it)."""
Slots = list[pa.RecordBatch | None]
"""The rows of the present bucket, by operator."""


@dataclass(frozen=True)
class Source:
    """Rows of input `index`, in order."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    index: int
    inputs: tuple[int, ...] = ()

    def run(self, parts: Sequence[pa.RecordBatch | None], slots: Slots, rejects: list[Reject]) -> pa.RecordBatch | None:
        batch = parts[self.index] if parts else None
        return sorted_by_stime(batch) if batch is not None and batch.num_rows else None


@dataclass(frozen=True)
class Union:
    """Rows of several operators in total order; columns as in the first."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    inputs: tuple[int, ...]
    columns: tuple[str, ...]

    def run(self, parts: Sequence[pa.RecordBatch | None], slots: Slots, rejects: list[Reject]) -> pa.RecordBatch | None:
        found = [slots[i] for i in self.inputs]
        return merge(
            [b if b is None or tuple(b.schema.names) == self.columns else b.select(self.columns) for b in found]
        )


@dataclass(frozen=True)
class Part:
    """The rows that fall to one partition of the node."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    input: int
    by: tuple[str, ...]
    count: int
    index: int

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.input,)

    def run(self, parts: Sequence[pa.RecordBatch | None], slots: Slots, rejects: list[Reject]) -> pa.RecordBatch | None:
        batch = slots[self.input]
        return None if batch is None else part_of(batch, self.by, self.count, self.index)


@dataclass(frozen=True)
class Merge:
    """Rows of all partitions of a node, by (stime, key, position)."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    inputs: tuple[int, ...]
    by: tuple[str, ...]

    def run(self, parts: Sequence[pa.RecordBatch | None], slots: Slots, rejects: list[Reject]) -> pa.RecordBatch | None:
        rows = joined([slots[i] for i in self.inputs])
        return None if rows is None else by_key(rows, self.by)


@dataclass(frozen=True)
class Pipe:
    """A fused chain of filters and maps."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    node: str
    input: int
    statement: Statement

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.input,)

    def run(self, parts: Sequence[pa.RecordBatch | None], slots: Slots, rejects: list[Reject]) -> pa.RecordBatch | None:
        return _by_row(self.node, self.statement, slots[self.input], rejects)


@dataclass(frozen=True)
class Window:
    """Aggregates over windows. `every`, `size` in buckets.

    `collect` turns a bucket's rows into its partial (None: the rows themselves, `columns` of them), `close` a window's
    partials into its result. `positions`: computed from rows, which get their place in the total order as a column.
    """

    operator_class: ClassVar = OperatorClass.CONVERGENT
    node: str
    input: int
    size: int
    every: int
    width_us: int
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    collect: Statement | None
    close: Statement
    rank: Statement | None
    positions: bool
    partial_schema: pa.Schema
    schema: pa.Schema

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.input,)

    def absorb(self, bucket: int, batch: pa.RecordBatch | None, state: list[Partial], rejects: list[Reject]) -> None:
        """Add a bucket's partial to the state."""
        if batch is None:
            return
        partial = _by_row(self.node, self.collect, batch, rejects) if self.collect else batch.select(self.columns)
        if partial is not None and partial.num_rows:
            state.append((bucket, partial))

    def closes_at(self, cursor: int, state: Sequence[Partial]) -> int | None:
        """The first bucket >= cursor with which a window closes that has content already."""
        if not state:
            return None
        end = self._next_end(cursor)
        return end - 1 if state[-1][0] >= end - self.size else None

    def fire(self, bucket: int, state: list[Partial], rejects: list[Reject]) -> pa.RecordBatch | None:
        """The result of the window that closes with this bucket, None without rows. Drops what no later one needs."""
        end = bucket + 1
        if end % self.every:
            return None
        content = [partial for b, partial in state if b >= end - self.size]
        result = self._evaluate(end, content, rejects) if content else None
        self.prune(end, state)
        return result

    def prune(self, cursor: int, state: list[Partial]) -> None:
        """Drop the buckets that no window closing at `cursor` or later holds.

        Enough to do when a window closes: what is left then belongs to the next one, which is visited for its sake.
        """
        needed = self._next_end(cursor) - self.size
        kept = next((i for i, (b, _) in enumerate(state) if b >= needed), len(state))
        del state[:kept]

    def _next_end(self, cursor: int) -> int:
        """End (in buckets, exclusive) of the first window that closes with bucket `cursor` or a later one."""
        return (cursor // self.every + 1) * self.every

    def _evaluate(self, end: int, content: list[pa.RecordBatch], rejects: list[Reject]) -> pa.RecordBatch | None:
        rows = content[0] if len(content) == 1 else pa.concat_batches(content)
        rows = _with_column(rows, POSITION, pa.array(np.arange(rows.num_rows))) if self.positions else rows
        groups = _Groups(self.rank, rows)
        result, bad = run_by_group(self.close, rows, groups)
        start_us, end_us = (end - self.size) * self.width_us, end * self.width_us
        for group, reason in sorted(bad.items()):
            keys = groups.keys(group, self.keys)
            named = "".join(f", {k}={v!r}" for k, v in keys.items())
            where = f"window [{start_us}, {end_us}) us{named}: {reason}"
            raw = msgspec.json.encode({"window_start": start_us, "window_end": end_us, **keys})
            rejects.append(Reject(self.node, -1, where, raw))
        if result is None or not result.num_rows:
            return None
        return self._frame(result, start_us, end_us)

    def _frame(self, result: pa.RecordBatch, start_us: int, end_us: int) -> pa.RecordBatch:
        start, end, stime = (pa.array(np.full(result.num_rows, v)) for v in (start_us, end_us, end_us - 1))
        return pa.RecordBatch.from_arrays([start, end, *result.columns, stime], schema=self.schema)


class _Groups:
    """Which row of a window belongs to which key, found out only when something failed."""

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
        return {name: self._rows.column(name)[row].as_py() for name in names}


def _by_row(
    node: str, statement: Statement, batch: pa.RecordBatch | None, rejects: list[Reject]
) -> pa.RecordBatch | None:
    if batch is None:
        return None
    rows, bad = run_by_row(statement, batch)
    for row, reason in sorted(bad.items()):
        values = {name: batch.column(name)[row].as_py() for name in batch.schema.names}
        rejects.append(Reject(node, -1, f"tuple at stime {values['stime']}: {reason}", msgspec.json.encode(values)))
    return rows if rows is not None and rows.num_rows else None


def _with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    schema = batch.schema.append(pa.field(name, column.type))
    return pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)
