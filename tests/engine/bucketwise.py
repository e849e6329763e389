"""A kernel's windows run bucket by bucket and window by window, each by statements of its own: what slices must equal.

The statements are the kernel's without the column by which slices are taken apart: a bucket's rows are then all that a
statement sees. Rows are refused as `engine.operators.poison_rows` has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from borealis_py.engine import DuckKernel, canonical_hash
from borealis_py.engine.arrow.rows import joined
from borealis_py.engine.operators.aggregates import BUCKET, WINDOW
from borealis_py.engine.operators.base import GroupNumbers, Slice, WindowOperator
from borealis_py.engine.operators.grouped_sums import GroupedSums
from borealis_py.engine.operators.poison_rows import isolate_bad_rows, run_by_group
from borealis_py.engine.sql.duck_statement import Statement


class Bucketwise:
    """Runs a kernel's operators on one bucket after the other."""

    def __init__(self, on: DuckKernel) -> None:
        self._on = on
        self._windows = {i: _Alone(on, op) for i, op in enumerate(on._operators) if isinstance(op, WindowOperator)}

    def run(self, first: int, end: int, buckets: Mapping[int, Any]) -> tuple[dict[int, str], dict[int, int]]:
        """What `canonical_hash` says of each bucket's rows, and how much of each bucket was refused."""
        outputs: dict[int, str] = {}
        refused: dict[int, int] = {}
        for window in self._windows.values():
            window.partials = []
        for bucket in range(first, end):
            part = Slice(bucket, bucket + 1, self._on.app.bucket_us, buckets.get(bucket, ()))
            counts: list[int] = []
            for i, operator in enumerate(self._on._operators):
                before = len(part.rejects.get(bucket, ()))
                alone = self._windows.get(i)
                if alone is None:
                    assert not isinstance(operator, WindowOperator)
                    rows, _ = operator.run(part, ())
                    part.outputs.append(rows)
                    counts.append(len(part.rejects.get(bucket, ())) - before)
                else:
                    rows, bad = alone.run(bucket, alone.of.rows(part))
                    part.outputs.append(rows)
                    counts.append(bad)
            if any(counts):
                refused[bucket] = sum(counts)
            if part.outputs[-1] is not None:
                outputs[bucket] = canonical_hash(part.outputs[-1])
        return outputs, refused


class _Alone:
    """One window operator."""

    def __init__(self, on: DuckKernel, of: WindowOperator) -> None:
        self.of = of
        self.partials: list[tuple[int, pa.RecordBatch]] = []
        self._collect = None if of.collect is None else _without(on, _statement(of.collect), BUCKET, of.collect.input)
        names = [name for name in of.close.input.names if name != WINDOW]
        self._close = _without(
            on, _statement(of.close), WINDOW, pa.schema([of.close.input.field(name) for name in names])
        )

    def run(self, bucket: int, rows: pa.RecordBatch | None) -> tuple[pa.RecordBatch | None, int]:
        """The result of the window that closes with this bucket, and how much was refused."""
        of, refused = self.of, 0
        if rows is not None:
            partial, refused = self._collected(rows)
            if partial is not None and partial.num_rows:
                self.partials.append((bucket, partial))
        end = bucket + 1
        if of.times.next_end(bucket) != end:
            return None, refused
        begin = of.times.begin(end)
        content = [partial for b, partial in self.partials if begin <= b]
        if not content:
            return None, refused
        found = pa.concat_batches(content)
        if of.positions:
            columns = [*found.columns, pa.array(np.arange(found.num_rows))]
            found = pa.RecordBatch.from_arrays(columns, schema=self._close.input)
        result, bad = run_by_group(self._close, found, GroupNumbers(of.rank, found))
        refused += len(bad)
        if result is None or not result.num_rows:
            return None, refused
        low, high = (pa.array([us] * result.num_rows) for us in (begin * of.width_us, end * of.width_us))
        stime = pa.array([end * of.width_us - 1] * result.num_rows)
        return pa.RecordBatch.from_arrays([low, high, *result.columns, stime], schema=of.schema), refused

    def _collected(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch | None, int]:
        if self._collect is None:
            return rows.select(self.of.columns), 0
        found, bad = isolate_bad_rows(self._collect, rows)
        return joined([found]), len(bad)


def _statement(of: Statement | GroupedSums) -> Statement:
    """The statement that sums of our own must equal, bit for bit."""
    return of.statement if isinstance(of, GroupedSums) else of


def _without(on: DuckKernel, statement: Statement, column: str, schema: pa.Schema) -> Statement:
    """The statement without the column that slices are grouped by."""
    text = statement._sql.replace(f"feed{statement._number}", "{feed}")
    assert column in text
    for form in (f'"stime" // {on.app.bucket_us} AS {column}, ', f"{column} ASC NULLS LAST, ", f"{column}, "):
        text = text.replace(form, "")
    alone = f"GROUP BY {column}" in text
    text = text.replace(f" ORDER BY {column} ASC NULLS LAST", "")
    text = text.replace(f" GROUP BY {column}", " HAVING count(*) > 0" if alone else "")
    return on._duck.statement(lambda feed: text.replace("{feed}", feed), schema)
