"""Over: each row with values computed over its frame, the last rows of its key.

Every frame is laid out by itself and its rows are added up in their order. The engine's own OVER would add a frame's
rows in an order that depends on what lies before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from borealis_py.engine.arrow.rows import joined
from borealis_py.engine.keyed.keeping import ComparingOperator, NewRows
from borealis_py.engine.keyed.kept_rows import Found, Probes, taken
from borealis_py.engine.operators.base import Rows, Slice, dead_letter_values
from borealis_py.engine.operators.increments import Partial
from borealis_py.engine.operators.poison_rows import run_by_group, run_by_part
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.query.names import STIME
from sunion.model import Reject

FRAME_ROWS = 100_000
"""Frames are computed together while they have at most this many rows."""


@dataclass(frozen=True)
class OverOperator(ComparingOperator):
    """Each row with what `statement` computes over its frame: the last `last` rows of its key, itself included, that
    came in the time before it. Of each row its key, `arguments` and its stime are kept.

    `node`: named as the source of its dead letters. `arguments`: columns that it computes with, of all rows of a frame.
    `own`: columns of the row itself. `statement`: from frames (the row's number, how far before it, arguments, own,
    position) to the row's number and the results. `schema`: of the result.
    """

    node: str
    last: int
    arguments: tuple[str, ...]
    own: tuple[str, ...]
    statement: Statement
    schema: pa.Schema

    def compared(self, part: Slice, new: NewRows) -> Rows:
        return joined([self._computed(part, new.rows, new.kept.blocks, some) for some in self._some(new)])

    def _some(self, new: NewRows) -> Iterator[_Rows]:
        """The rows, as many at a time as have frames of `FRAME_ROWS` rows at most."""
        size = max(1, FRAME_ROWS // self.last)
        for first in range(0, new.rows.num_rows, size):
            at = slice(first, first + size)
            stimes = new.stimes[at]
            probes = Probes(new.hashes[at], [key[at] for key in new.keys], stimes - self.within_us, stimes)
            yield _Rows(first, probes, new.kept.ranks[at])

    def _computed(self, part: Slice, rows: pa.RecordBatch, blocks: Sequence[Partial], some: _Rows) -> Rows:
        found = self.kept.latest(blocks, some.probes, some.ranks, self.last)
        order = np.lexsort((found.rank, found.probe))
        number = found.probe[order]
        counts = np.bincount(number, minlength=len(some.ranks))
        ends = np.cumsum(counts)
        back = np.repeat(ends, counts) - 1 - np.arange(len(number))
        frames = self._frames(rows, blocks, found, order, number + some.first, back)
        starts = np.append(ends - counts, ends[-1])
        result = joined(run_by_part(self.statement, frames, starts, lambda one: self._one(part, rows, one)))
        if result is None:
            return None
        stimes = rows.column(STIME).take(result.column(0))
        return pa.RecordBatch.from_arrays([*result.columns[1:], stimes], schema=self.schema)

    def _frames(
        self,
        rows: pa.RecordBatch,
        blocks: Sequence[Partial],
        found: Found,
        order: np.ndarray,
        number: np.ndarray,
        back: np.ndarray,
    ) -> pa.RecordBatch:
        columns: list[pa.Array] = [pa.array(number), pa.array(back)]
        if self.arguments:
            columns += taken(blocks, found, self.arguments).take(pa.array(order)).columns
        itself = pa.array(number, mask=back != 0)
        columns += [rows.column(name).take(itself) for name in self.own]
        columns.append(pa.array(np.arange(len(number))))
        return pa.RecordBatch.from_arrays(columns, schema=self.statement.input)

    def _one(self, part: Slice, rows: pa.RecordBatch, frame: pa.RecordBatch) -> Rows:
        """The result of one row, or its dead letter."""
        result, bad = run_by_group(self.statement, frame, lambda: np.zeros(frame.num_rows, dtype=np.int64))
        for reason in bad.values():
            row = frame.column(0)[0].as_py()
            values = dead_letter_values(rows.select([name for name in rows.schema.names if name[:2] != "__"]), row)
            stime = rows.column(STIME)[row].as_py()
            reject = Reject(self.node, -1, f"tuple at stime {stime}: {reason}", msgspec.json.encode(values))
            part.refuse(stime // part.width_us, reject)
        return result


@dataclass(frozen=True)
class _Rows:
    """Some rows of a slice: the number of the first one, what their frames may hold, and their ranks."""

    first: int
    probes: Probes
    ranks: np.ndarray
