"""When a statement fails on a value: find the rows to blame, reject them with a reason, run the rest.

Rows are found by bisection, so that one bad row among n costs about 2 log n runs. Blame is a function of the rows
alone: replicas reject alike. So an error that might be a fault of the process blames only rows that fail again, alone,
on a fresh connection. Knows nothing of windows or buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from borealis_py.engine.sql.duck_faults import RowError
from borealis_py.engine.sql.duck_statement import Statement


class Runs(Protocol):
    """Something that may fail on a value: a statement."""

    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raises RowError."""

    def run_afresh(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same on a fresh connection. Raises RowError."""


def run_by_part(
    runs: Runs,
    batch: pa.RecordBatch,
    starts: Sequence[int] | np.ndarray,
    one: Callable[[pa.RecordBatch], pa.RecordBatch | None],
) -> list[pa.RecordBatch | None]:
    """Run parts of a batch together; bisect those that fail together; run a single failing part by `one`.

    Args:
        starts: the row at which each part begins, followed by the number of rows.

    Returns:
        Results, in the order of the parts.
    """
    found: list[pa.RecordBatch | None] = []

    def fails(low: int, high: int) -> bool:
        rows = batch.slice(starts[low], starts[high] - starts[low])
        if high - low == 1:
            found.append(one(rows))
            return False
        try:
            found.append(runs.run(rows))
        except RowError:
            return True
        return False

    _search(0, len(starts) - 1, fails)
    return found


def _search(low: int, high: int, fails: Callable[[int, int], bool]) -> None:
    """Call `fails` for [low, high), and for the halves of every range that fails, down to single units, in order.

    Iterative: a recursive closure would keep its batches alive until the garbage collector runs.
    """
    waiting = [(low, high)]
    while waiting:
        low, high = waiting.pop()
        if fails(low, high) and high - low > 1:
            middle = (low + high) // 2
            waiting += [(middle, high), (low, middle)]


class Isolated(NamedTuple):
    """`rows` without the units to blame (None: nothing is left); `bad` maps a unit's number to the reason."""

    rows: pa.RecordBatch | None
    bad: dict[int, str]


def isolate_bad_rows(runs: Runs, batch: pa.RecordBatch) -> Isolated:
    """Run a batch; if it fails, run it without the rows that fail alone. Units are row numbers.

    If no row fails alone, or if the others still fail together (an aggregate that overflows), all are to blame.
    """
    try:
        return Isolated(runs.run(batch), {})
    except RowError as exc:
        return _blame(runs, batch, np.arange(batch.num_rows), batch.num_rows, exc)


def run_by_group(runs: Runs, batch: pa.RecordBatch, groups: Callable[[], np.ndarray]) -> Isolated:
    """The same by groups of rows; `groups()` gives each row's group number: 0, 1, ... without gaps."""
    try:
        return Isolated(runs.run(batch), {})
    except RowError as exc:
        group = groups()
        return _blame(runs, batch, group, int(group.max()) + 1, exc)


def _blame(runs: Runs, batch: pa.RecordBatch, group: np.ndarray, count: int, error: RowError) -> Isolated:
    bad: dict[int, str] = {}

    def fails(low: int, high: int) -> bool:
        part = _rows(batch, (group >= low) & (group < high))
        try:
            runs.run(part)
        except RowError as exc:
            if high - low == 1 and (again := _confirmed(runs, part, exc)) is not None:
                bad[low] = _explained(runs, part, again)
            return True
        return False

    if count == 1:
        return _all_or_none(runs, batch, 1, error, bad)
    _search(0, count // 2, fails)
    _search(count // 2, count, fails)
    good = ~np.isin(group, list(bad))
    if not good.any():
        return Isolated(None, bad)
    rest = _rows(batch, good)
    try:
        return Isolated(runs.run(rest), bad)
    except RowError as exc:
        return _all_or_none(runs, rest, count, exc, bad)


def _all_or_none(runs: Runs, rows: pa.RecordBatch, count: int, error: RowError, bad: dict[int, str]) -> Isolated:
    """These rows failed together: all units are to blame, unless the process was at fault."""
    again = str(error)
    if not error.sure:
        try:
            return Isolated(runs.run_afresh(rows), bad)
        except RowError as exc:
            again = str(exc)
    reason = _explained(runs, rows, again)
    return Isolated(None, {unit: bad.get(unit, reason) for unit in range(count)})


def _explained(runs: Runs, rows: pa.RecordBatch, reason: str) -> str:
    """The reason with the expression to blame; a function of ours names itself."""
    return runs.explained(rows, reason) if isinstance(runs, Statement) else reason


def _confirmed(runs: Runs, rows: pa.RecordBatch, error: RowError) -> str | None:
    """The reason if these rows are to blame for an error; else None."""
    if error.sure:
        return str(error)
    try:
        runs.run_afresh(rows)
    except RowError as exc:
        return str(exc)
    return None


def _rows(batch: pa.RecordBatch, mask: np.ndarray) -> pa.RecordBatch:
    return batch.take(pa.array(np.flatnonzero(mask)))


def group_numbers(statement: Statement, batch: pa.RecordBatch) -> np.ndarray:
    """Group of each row, from a statement that returns (position, group) in any order."""
    answer = statement.run(batch)
    numbers = np.empty(batch.num_rows, dtype=np.int64)
    numbers[answer.column(0).to_numpy()] = answer.column(1).to_numpy()
    return numbers
