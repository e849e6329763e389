"""The rows of a test, each with its time: what a publisher is to send. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from reprlib import repr as short

from borealis_py.client.times import AS_WRITTEN, parse_stime
from borealis_py.query.errors import did_you_mean
from borealis_py.query.times import TimeForm
from borealis_py.testing.times import Time, to_stime

TimedRow = Mapping[str, object] | tuple[Time, Mapping[str, object]]
"""A row as a dict of columns, or a pair of its time and such a dict."""


@dataclass(frozen=True, slots=True)
class GivenRow:
    """One row. `values`: its columns, as given. `stime`: microseconds since 1970; None: none that can be read, and the
    row becomes a dead letter for this `reason`."""

    values: Mapping[str, object]
    stime: int | None
    reason: str = ""


def given(
    rows: Iterable[object],
    source: str,
    column: str | None,
    first_us: int,
    step_us: int = 0,
    form: TimeForm = AS_WRITTEN,
) -> list[GivenRow]:
    """Rows with their times.

    Args:
        source: for messages.
        column: holds the times of all rows that are no pairs; None: no column does. form: how they are read.
        first_us, step_us: row n has the time `first_us + n * step_us` unless it says otherwise; microseconds.

    Raises:
        TypeError: something that is no row.
        ValueError: a pair whose time cannot be read, or a column that no row has.
    """
    some = list(rows)
    if column is not None:
        _check_column(some, source, column)
    return [_one(row, source, column, first_us + n * step_us, n, form) for n, row in enumerate(some)]


def _check_column(rows: Iterable[object], source: str, column: str) -> None:
    """A column that is in no row is misspelt."""
    plain = [row for row in rows if isinstance(row, Mapping)]
    if plain and not any(column in row for row in plain):
        known = list(dict.fromkeys(str(name) for row in plain for name in row))
        hint = did_you_mean(column, known) or ";"
        raise ValueError(f"stime={column!r}: no row of {source!r} has this column{hint} columns: {', '.join(known)}")


def _one(row: object, source: str, column: str | None, otherwise_us: int, number: int, form: TimeForm) -> GivenRow:
    if isinstance(row, tuple) and len(row) == 2 and isinstance(row[1], Mapping):
        try:
            return GivenRow(row[1], to_stime(row[0]))
        except ValueError as exc:
            raise ValueError(f"row {number} of {source!r}: {exc}") from None
    if not isinstance(row, Mapping):
        raise TypeError(
            f"row {number} of {source!r} is {short(row)}; give a dict of columns, or a pair of a time and such a dict"
        )
    return GivenRow(row, otherwise_us) if column is None else _timed_by(row, column, form)


def _timed_by(row: Mapping[str, object], column: str, form: TimeForm) -> GivenRow:
    """As `borealis publish --stime COLUMN` does: a row without a time that can be read is a dead letter."""
    time = row.get(column)
    try:
        stime = parse_stime(time, form)
    except ValueError as exc:
        return GivenRow(row, None, f"malformed: {exc}")
    return GivenRow(row, stime, "stime missing" if stime is None else "")
