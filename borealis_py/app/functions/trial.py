"""Calls a function on rows and says, row by row, what came of it, so that two calls can be compared bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from borealis_py.engine.applied.apply import RowFunction
from borealis_py.engine.applied.window_apply import GroupFunction
from borealis_py.engine.operators.base import dead_letter_values
from borealis_py.engine.operators.poison_rows import isolate_bad_rows
from borealis_py.engine.sql.duck_faults import RowError

REFUSED = "refused: "
"""What is said of a row or group begins with this if it becomes a dead letter."""


def told(function: RowFunction | GroupFunction, rows: pa.RecordBatch) -> list[str]:
    """What becomes of rows: of each row, its result or the reason why it has none; of a group, its results in order, or
    the reason.
    """
    if isinstance(function, GroupFunction):
        try:
            return _said(function.run(rows))
        except RowError:
            try:
                return _said(function.run(rows))
            except RowError as exc:
                return [f"{REFUSED}{exc}"]
    found, bad = isolate_bad_rows(function, rows)
    good = iter([] if found is None else _said(found))
    return [f"{REFUSED}{bad[row]}" if row in bad else next(good) for row in range(rows.num_rows)]


def told_in_parts(function: RowFunction, rows: pa.RecordBatch, ends: Sequence[int]) -> list[str]:
    """What becomes of rows of which the function gets a part at a time. `ends`: of each part."""
    starts = [0, *ends[:-1]]
    parts = [rows.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
    return [line for part in parts for line in told(function, part)]


def _said(rows: pa.RecordBatch) -> list[str]:
    """Each row in its normal form in JSON; of doubles, whose form hides NaN and infinities, also their own."""
    doubles = [field.name for field in rows.schema if pa.types.is_floating(field.type)]
    values = [rows.column(name).to_pylist() for name in doubles]
    lines = []
    for row in range(rows.num_rows):
        line = msgspec.json.encode(dead_letter_values(rows, row)).decode()
        odd = [f"{name}={value[row]!r}" for name, value in zip(doubles, values, strict=True) if _hidden(value[row])]
        lines.append(" ".join([line, *odd]))
    return lines


def _hidden(value: float | None) -> bool:
    return value is not None and (value != value or value in (float("inf"), float("-inf")))
