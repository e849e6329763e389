"""The items of an input: rows, singly or in runs, and lines that are not rows. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row of an input.

    Attributes:
        position: of the row in its input, from 0; it becomes the sequence number.
        line: for messages, from 1.
        values: field -> value; extra fields are allowed.
        at_us: the stime column, µs since 1970; None: there is no such column, or it is null in this row.
        raw: the line.
    """

    position: int
    line: int
    values: Mapping[str, object]
    at_us: int | None
    raw: bytes


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a row. It has a position too, so that later rows keep theirs when it is repaired. `position`
    and `line` as in `InputRow`; `reason`: why it is none, for people; `raw`: its bytes."""

    position: int
    line: int
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class RowRun:
    """Consecutive rows of an input, one per line; `position` and `line` are the first row's.

    Attributes:
        values, at_us, raws: one element per row, as in `InputRow`; `at_us` None: there is no such column.
    """

    position: int
    line: int
    values: Sequence[Mapping[str, object]]
    at_us: Sequence[int | None] | None
    raws: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.values)

    def row(self, n: int) -> InputRow:
        at_us = None if self.at_us is None else self.at_us[n]
        return InputRow(self.position + n, self.line + n, self.values[n], at_us, self.raws[n].rstrip(b"\r\n"))

    def part(self, first: int, end: int) -> RowRun:
        """Rows first .. end - 1."""
        at_us = None if self.at_us is None else self.at_us[first:end]
        return RowRun(self.position + first, self.line + first, self.values[first:end], at_us, self.raws[first:end])

    @classmethod
    def of(cls, rows: Sequence[InputRow]) -> RowRun:
        """A run of these consecutive rows."""
        first, values, raws = rows[0], [row.values for row in rows], [row.raw for row in rows]
        return cls(first.position, first.line, values, [row.at_us for row in rows], raws)


class Items:
    """An input. Reads no further than necessary: the next row of a pipe may be far off."""

    def __init__(self, parts: Iterable[RowRun | InputRow | BadLine]) -> None:
        self._parts = iter(parts)
        self._ahead: deque[RowRun | InputRow | BadLine] = deque()
        self._begun = 0
        """How many rows of the buffered run have been returned."""

    def __iter__(self) -> Iterator[InputRow | BadLine]:
        return self

    def __next__(self) -> InputRow | BadLine:
        item = self._next()
        if item is None:
            raise StopIteration
        if not isinstance(item, RowRun):
            return item
        at = self._give(item, 1)
        return item.row(at)

    def next_run(self, rows_max: int) -> RowRun | InputRow | BadLine | None:
        """The next item; of consecutive rows, at most `rows_max`. None: the end."""
        item = self._next()
        if not isinstance(item, RowRun):
            return item
        at = self._give(item, rows_max)
        return item if not at and rows_max >= len(item) else item.part(at, at + rows_max)

    def _next(self) -> RowRun | InputRow | BadLine | None:
        return self._ahead.popleft() if self._ahead else next(self._parts, None)

    def _give(self, run: RowRun, rows: int) -> int:
        """Mark the next `rows` rows of the run as returned. Returns the index of the first."""
        at, self._begun = self._begun, self._begun + rows
        if self._begun < len(run):
            self._ahead.appendleft(run)
        else:
            self._begun = 0
        return at

    def first_us(self, rows_max: int) -> int | None:
        """The first time found in the next `rows_max` rows, which are not consumed. Call it before anything else."""
        seen = 0
        while seen < rows_max and (item := next(self._parts, None)) is not None:
            self._ahead.append(item)
            seen += len(item) if isinstance(item, RowRun) else 1
            first = next((at_us for at_us in _times(item) if at_us is not None), None)
            if first is not None:
                return first
        return None


def gathered(items: Iterable[InputRow | BadLine]) -> Iterator[RowRun | BadLine]:
    """The same items, with consecutive rows of one line each combined into runs."""
    rows: list[InputRow] = []
    for item in items:
        follows = rows and (item.position, item.line) == (rows[-1].position + 1, rows[-1].line + 1)
        if rows and not (follows and isinstance(item, InputRow)):
            yield RowRun.of(rows)
            rows = []
        if isinstance(item, InputRow):
            rows.append(item)
        else:
            yield item
    if rows:
        yield RowRun.of(rows)


def _times(item: RowRun | InputRow | BadLine) -> Iterable[int | None]:
    if isinstance(item, BadLine):
        return ()
    return (item.at_us or ()) if isinstance(item, RowRun) else (item.at_us,)
