"""When a statement fails on a value: find what is to blame, reject it with a reason, run the rest.

A failure is found by halving, so that one bad row among n costs about 2 log n runs. What is to blame is a function of
the rows alone: replicas reject alike. Knows nothing of windows or buckets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from borealis_py.engine.duck import RowError, Statement, first_line

Run = Callable[[pa.RecordBatch], pa.RecordBatch]


class Blamed(NamedTuple):
    """`rows` without what was to blame (None: nothing is left); `bad` maps a unit's number to the reason."""

    rows: pa.RecordBatch | None
    bad: dict[int, str]


def run_by_row(run: Run, batch: pa.RecordBatch) -> Blamed:
    """Run; if that fails, without the rows that fail alone. Units are row numbers.

    If no row fails alone, or the others fail together even so (an aggregate that overflows), all are to blame.
    """
    try:
        return Blamed(run(batch), {})
    except RowError as exc:
        return _blame(run, batch, np.arange(batch.num_rows), batch.num_rows, first_line(exc))


def run_by_group(run: Run, batch: pa.RecordBatch, groups: Callable[[], np.ndarray]) -> Blamed:
    """The same by groups of rows; `groups()` gives each row's group number, 0, 1, ... without holes."""
    try:
        return Blamed(run(batch), {})
    except RowError as exc:
        group = groups()
        return _blame(run, batch, group, int(group.max()) + 1, first_line(exc))


def _blame(run: Run, batch: pa.RecordBatch, group: np.ndarray, count: int, reason: str) -> Blamed:
    bad: dict[int, str] = {}

    def search(low: int, high: int) -> None:
        try:
            run(_rows(batch, (group >= low) & (group < high)))
        except RowError as exc:
            if high - low == 1:
                bad[low] = first_line(exc)
            else:
                middle = (low + high) // 2
                search(low, middle)
                search(middle, high)

    if count == 1:
        return Blamed(None, {0: reason})
    search(0, count // 2)
    search(count // 2, count)
    good = ~np.isin(group, list(bad))
    if not good.any():
        return Blamed(None, bad)
    try:
        return Blamed(run(_rows(batch, good)), bad)
    except RowError as exc:
        return Blamed(None, {unit: bad.get(unit, first_line(exc)) for unit in range(count)})


def _rows(batch: pa.RecordBatch, mask: np.ndarray) -> pa.RecordBatch:
    return batch.take(pa.array(np.flatnonzero(mask)))


def group_numbers(statement: Statement, batch: pa.RecordBatch) -> np.ndarray:
    """Group of each row, from a statement that gives (position, group) in any order."""
    answer = statement.run(batch)
    numbers = np.empty(batch.num_rows, dtype=np.int64)
    numbers[answer.column(0).to_numpy()] = answer.column(1).to_numpy()
    return numbers
