"""Compares two sequences of corrected rows: which rows are missing, extra or different. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from borealis_py.log.base import Record
from borealis_py.log.corrected import row_id
from sunion.model import TupleId

SHOWN_BYTES_MAX = 300


@dataclass(frozen=True, slots=True)
class CorrectedRow:
    """A row of a corrected stream, `value` as JSON. `id`, `stime` None: its headers are not readable. `offset` -1: it
    was recomputed."""

    id: TupleId | None
    stime: int | None
    value: bytes
    offset: int = -1

    def __str__(self) -> str:
        at = "" if self.offset < 0 else f" at offset {self.offset}"
        return f"{self.value[:SHOWN_BYTES_MAX].decode(errors='replace')} (stime {self.stime}{at})"


@dataclass(frozen=True, slots=True)
class Difference:
    """`kind`: "missing", "extra", "different", "repeated" (also: out of order) or "foreign" (no readable id). `id`: of
    the row or dead letter, as text. `expected`, `found`: what was recomputed and what the topic holds, as text; None:
    nothing."""

    kind: str
    id: str
    expected: str | None
    found: str | None

    def __str__(self) -> str:
        said = {
            "missing": f"missing: {self.expected}",
            "extra": f"extra: {self.found}",
            "different": f"is {self.found}, must be {self.expected}",
            "repeated": f"repeated or out of order: {self.found}",
            "foreign": f"has no readable id: {self.found}",
        }
        return f"{'dead letter' if '@' in self.id else 'row'} {self.id} {said[self.kind]}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`rows`: how many ids both sequences have. `differences`: how many there are; `first` of them, by id; None: there
    is none."""

    rows: int
    differences: int
    first: Difference | None


def parse_row(record: Record) -> CorrectedRow:
    """Parse a record of a corrected stream. Never fails: foreign records get no id."""
    try:
        tuple_id, stime = row_id(record), int(dict(record.headers)["stime"])
    except (KeyError, ValueError):
        return CorrectedRow(None, None, record.value or b"", record.offset)
    return CorrectedRow(tuple_id, stime, record.value or b"", record.offset)


def compare(expected: Iterable[CorrectedRow], found: Iterable[CorrectedRow], upto: int) -> Comparison:
    """Compare bytes, stimes, ids and order.

    Args:
        expected: ids ascending, all below bucket `upto`.
        found: in log order; rows of bucket `upto` and later are ignored, but must be in order, too.
    """
    rows = differences = 0
    first: Difference | None = None
    for kind, want, got in _side_by_side(expected, found, upto):
        if want is not None and got is not None:
            rows += 1
            if (want.stime, want.value) == (got.stime, got.value):
                continue
        differences += 1
        first = first or _difference(kind, want, got)
    return Comparison(rows, differences, first)


def _difference(kind: str, want: CorrectedRow | None, got: CorrectedRow | None) -> Difference:
    row = want or got
    name = "?" if row is None or row.id is None else str(row.id)
    return Difference(kind, name, None if want is None else str(want), None if got is None else str(got))


_Pair = tuple[str, CorrectedRow | None, CorrectedRow | None]


def _side_by_side(expected: Iterable[CorrectedRow], found: Iterable[CorrectedRow], upto: int) -> Iterator[_Pair]:
    """Pairs by id. A pair of equal ids has the kind "different"; the caller compares it."""
    wants = iter(expected)
    want = next(wants, None)
    last: TupleId | None = None
    for got in found:
        if got.id is None:
            yield "foreign", None, got
            continue
        if last is not None and got.id <= last:
            yield "repeated", None, got
            continue
        last = got.id
        if got.id.bucket >= upto:
            continue
        while want is not None and want.id is not None and want.id < got.id:
            yield "missing", want, None
            want = next(wants, None)
        if want is not None and want.id == got.id:
            yield "different", want, got
            want = next(wants, None)
        else:
            yield "extra", None, got
    while want is not None:
        yield "missing", want, None
        want = next(wants, None)
