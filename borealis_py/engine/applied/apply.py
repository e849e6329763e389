"""Applies a function to rows: one row for each row, a bucket at a time, whatever buckets a slice has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from borealis_py.engine.applied.called import CalledFunction
from borealis_py.engine.arrow.row_limit import larger
from borealis_py.engine.arrow.rows import buckets_of, by_bucket, joined
from borealis_py.engine.operators.base import Rows, Slice, StatelessOperator, without_bad_rows
from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.engine.sql.duck_faults import RowError
from borealis_py.query.names import STIME


class RowFunction:
    """A function that makes one row of each row, beside columns `keep` of it; implements `poison_rows.Runs`."""

    def __init__(self, called: CalledFunction, keep: Sequence[str], rows: pa.Schema, row_max_bytes: int) -> None:
        self._called = called
        self._keep = list(keep)
        self._row_max_bytes = row_max_bytes
        self.name = called.name
        self.rows = rows
        self.input = rows
        self.seen: list[pa.RecordBatch] | None = None
        """Where its buckets' rows are noted, for a check; None: nowhere."""
        self.schema = pa.schema([*(rows.field(name) for name in keep), *called.schema, rows.field(STIME)])

    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        made = self._called(batch)
        if made.num_rows != batch.num_rows:
            raise RowError(f"{self.name}: it returned {made.num_rows} rows for {batch.num_rows}", False)
        kept = [batch.column(name) for name in self._keep]
        found = pa.RecordBatch.from_arrays([*kept, *made.columns, batch.column(STIME)], schema=self.schema)
        if self._keep and (how := larger(found, self._row_max_bytes)) is not None:
            raise RowError(
                f"{self.name}: a row of the result is larger than row_max, {self._row_max_bytes} bytes: {how}; "
                "return less, or raise `timing: row_max`",
                True,
            )
        return found

    def run_afresh(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self.run(batch)


@dataclass(frozen=True)
class ApplyOperator(StatelessOperator):
    """What `function` makes of the rows of `inputs`. `node`: named as the source of its dead letters."""

    operator_class: ClassVar = OperatorClass.REPEATABLE
    node: str
    inputs: tuple[int]
    function: RowFunction

    @property
    def schema(self) -> pa.Schema:
        return self.function.schema

    def apply(self, part: Slice) -> Rows:
        rows = self.rows(part)
        if rows is None:
            return None
        buckets = [some for _, some in by_bucket(rows, buckets_of(rows, part.width_us))]
        if self.function.seen is not None:
            self.function.seen += buckets
        return joined([without_bad_rows(self.node, self.function, some, part) for some in buckets])
