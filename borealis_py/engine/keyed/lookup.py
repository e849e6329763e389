"""Lookup: each row with the row of a table that has its key, as the table was at the row's stime.

A table is a stream of changes: a row replaces the earlier one of its key, or deletes it. Of changes with one stime the
last one in total order counts, and a change counts for rows of its own stime, whichever input the order puts first. So
what is found depends on the rows and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from borealis_py.engine.keyed.keeping import EVER, check_memory
from borealis_py.engine.keyed.kept_rows import Found, hashed, sizes, sizes_at, taken, usable
from borealis_py.engine.keyed.kept_table import KeptTable, TableChanges
from borealis_py.engine.operators.base import (
    Operator,
    OperatorState,
    Rows,
    Slice,
    StatelessOperator,
    dead_letter_values,
    readable,
)
from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.engine.operators.increments import Partial, StatePart
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.query.names import STIME
from sunion.model import Reject


@dataclass(frozen=True)
class FoundRows:
    """Puts what a table has beside rows.

    `node`: named as the source of its dead letters. `on`: the key's columns, as the rows spell them. `hash`: hashes
    keys. `kept`: how the table is kept. `schema`: of the result. `row_max_bytes`: the largest row. `memory_bytes`: the
    limit of what a slice's results may take.
    """

    node: str
    on: tuple[str, ...]
    hash: Statement
    kept: KeptTable
    schema: pa.Schema
    row_max_bytes: int
    memory_bytes: int

    def beside(
        self, part: Slice, rows: pa.RecordBatch, blocks: Sequence[Partial], changes: TableChanges | None = None
    ) -> Rows:
        """Each row with what the table has for it. `blocks`: the table before the slice. `changes`: those in it."""
        keys = [rows.column(name) for name in self.on]
        found = self.kept.find(blocks, changes, hashed(self.hash, keys), keys, rows.column(STIME).to_numpy())
        blocks = blocks if changes is None else (*blocks, (part.first, changes.block))
        return self._result(part, rows, blocks, found)

    def hashes(self, changed: pa.RecordBatch) -> np.ndarray:
        """Of rows of the table."""
        return hashed(self.hash, [changed.column(name) for name in self.kept.by])

    def _result(self, part: Slice, rows: pa.RecordBatch, blocks: Sequence[Partial], found: Found) -> Rows:
        """The rows with what was found, or nulls, without those that are larger than a row may be."""
        ours = rows.schema.names[:-1]
        theirs = [name for name in self.kept.columns if name not in self.kept.by]
        total = sizes_at(rows.select(ours), np.arange(rows.num_rows)) + 8
        if len(found.probe):
            total[found.probe] += sizes(blocks, found, theirs)
        large = total > self.row_max_bytes
        if large.any():
            self._refuse(part, rows, total, np.flatnonzero(large))
        advice = "A table with fewer or shorter columns needs less"
        what = f"the rows of a lookup on ({', '.join(self.on)})"
        check_memory(what, int(total[~large].sum()), self.memory_bytes, advice)
        found = found.where(~large[found.probe])
        columns = [*rows.select(ours).columns, *self._looked_up(rows.num_rows, blocks, found, theirs)]
        result = pa.RecordBatch.from_arrays([*columns, rows.column(STIME)], schema=self.schema)
        if not large.any():
            return result
        return None if large.all() else result.filter(pa.array(~large))

    def _looked_up(
        self, count: int, blocks: Sequence[Partial], found: Found, theirs: Sequence[str]
    ) -> Sequence[pa.Array]:
        """The table's columns beside each of `count` rows."""
        if not len(found.probe):
            return [pa.nulls(count, self.schema.field(name).type) for name in theirs]
        where = np.full(count, -1)
        where[found.probe] = np.arange(len(found.probe))
        columns: Sequence[pa.Array] = taken(blocks, found, theirs).take(pa.array(where, mask=where < 0)).columns
        return columns

    def _refuse(self, part: Slice, rows: pa.RecordBatch, total: np.ndarray, large: np.ndarray) -> None:
        for row in large.tolist():
            key = dead_letter_values(rows.select(self.on), row)
            named = ", ".join(f"{name}={readable(value)}" for name, value in key.items())
            stime = rows.column(STIME)[row].as_py()
            reason = (
                f"lookup on {named}: with what the table has, a row of {total[row]} bytes at stime {stime}, row_max is "
                f"{self.row_max_bytes}: select less of both before, or raise `timing: row_max`"
            )
            values = msgspec.json.encode(dead_letter_values(rows, row))
            part.refuse(stime // part.width_us, Reject(self.node, -1, reason, values))


@dataclass(frozen=True)
class LookupOperator(Operator):
    """Each row of the first of `inputs`, with the columns of the table whose changes are the second one's rows, by
    `found`."""

    operator_class: ClassVar = OperatorClass.DETERMINISTIC
    inputs: tuple[int, int]
    found: FoundRows

    @property
    def lookback(self) -> int:
        return EVER

    @property
    def unbounded(self) -> str:
        return f"lookup(on={', '.join(self.found.on)})"

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        return (self.found.kept,)

    def run(self, part: Slice, state: OperatorState) -> tuple[Rows, OperatorState]:
        kept = self.found.kept
        rows, changed = self.rows(part), usable(part.outputs[self.inputs[1]], kept.by)
        hashes = np.zeros(0, dtype=np.int64) if changed is None else self.found.hashes(changed)
        after = (kept.added(state[0], changed, hashes, part.end),)
        if rows is None:
            return None, after
        changes = None if changed is None else kept.changes(changed, hashes)
        return self.found.beside(part, rows, state[0], changes), after


@dataclass(frozen=True)
class FileLookupOperator(StatelessOperator):
    """Each row of `inputs`, with the columns of a table that never changes (`block`), by `found`."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    inputs: tuple[int]
    found: FoundRows
    block: pa.RecordBatch

    def apply(self, part: Slice) -> Rows:
        rows = self.rows(part)
        return None if rows is None else self.found.beside(part, rows, ((0, self.block),))
