"""Rows of CSV: UTF-8, commas, a header line; values typed by the source's schema, empty values null.

Lines that contain one row each are parsed together, column by column. Everything else is parsed record by record, which
reports errors and otherwise gives the same rows.
"""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

from borealis_py.client.items import BadLine, InputRow, RowRun, gathered
from borealis_py.client.times import AS_WRITTEN, parse_stime, parse_stimes, plain, whole_numbers
from borealis_py.query.times import TimeForm
from borealis_py.types.explained import not_utf8
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import FLOAT, WHOLE, rules

_LAST = "x"
"""A sentinel line appended to a block: it is parsed as a record of its own only if the record before it has ended."""


_PUT_TOGETHER = ": files seem to have been put together. Leave this line out"


class Tape:
    """Decodes lines for csv.reader and remembers those of the current record: a quoted field may span several."""

    def __init__(self, blocks: Iterator[Sequence[bytes]]) -> None:
        self._blocks = blocks
        self._block: Sequence[bytes] = ()
        self._at = 0
        self._present: list[bytes] = []
        self.line = 0
        """Number of lines read."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self.there():
            raise StopIteration
        raw = self._block[self._at]
        self._at += 1
        self.line += 1
        if self.line == 1:
            raw = raw.removeprefix(BOM_UTF8)
        self._present.append(raw)
        return raw.decode()

    def there(self) -> Sequence[bytes]:
        """The lines available without waiting, at least one; empty at the end."""
        while self._at == len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return ()
            self._block, self._at = block, 0
        if self._at:
            self._block, self._at = self._block[self._at :], 0
        return self._block

    def drain(self) -> tuple[int, bytes]:
        """First line number and bytes of the lines since the last call."""
        present, self._present = self._present, []
        return self.line - len(present) + 1, b"".join(present).rstrip(b"\r\n")

    @property
    def marked(self) -> bool:
        """Whether the current record begins with a byte order mark that is not the input's own."""
        return bool(self._present) and self._present[0].startswith(BOM_UTF8)

    def pass_over(self) -> None:
        """Mark everything in `there` as read."""
        self.line += len(self._block) - self._at
        self._at = len(self._block)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of the input: a line with more or fewer values than `header` is no row. `places`: name, index and
    type of each of the schema's fields. `stime_at`: index of the column with the stime; -1: no such column. `form`: how
    the stime is read. `nulls`: values that are null, as an empty one is."""

    header: list[str]
    places: Sequence[tuple[str, int, str]]
    stime_at: int
    form: TimeForm = AS_WRITTEN
    nulls: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        header: Sequence[str],
        schema: Mapping[str, str],
        stime_column: str | None,
        form: TimeForm = AS_WRITTEN,
        nulls: Collection[str] = (),
    ) -> Columns:
        places = [(name, header.index(name), kind) for name, kind in schema.items()]
        at = -1 if stime_column is None else header.index(stime_column)
        return cls(list(header), places, at, form, frozenset(nulls))


def without(nulls: Collection[str], texts: Sequence[str]) -> Sequence[str]:
    """The texts, empty where they mean null."""
    return ["" if text in nulls else text for text in texts] if nulls else texts


def split_line(line: str, delimiter: str) -> list[list[str]]:
    """The values of each record of a text with quotation marks; there should be one. They may be of any size. Python's
    limit is one of the process: it is never lowered, since another thread may be reading. Raises csv.Error."""
    if len(line) > csv.field_size_limit():
        csv.field_size_limit(len(line))
    return list(csv.reader([line], delimiter=delimiter, strict=True))


def csv_parts(reader: Iterator[list[str]], tape: Tape, columns: Columns) -> Iterator[RowRun | BadLine]:
    """The rows after the header.

    Args:
        reader: `csv.reader` of the tape.
    """
    records = _Records(reader, tape, columns)
    while lines := tape.there():
        line = tape.line + 1
        run = _together(lines, columns, records.position, line)
        if run is None:
            yield from gathered(records.until(line + len(lines)))
        else:
            tape.pass_over()
            records.position += len(run)
            yield run


def _together(lines: Sequence[bytes], columns: Columns, position: int, line: int) -> RowRun | None:
    """Parse the lines as one run. None: some line is not, or may not be, a row by itself."""
    try:
        joined = b"".join(lines)
        if BOM_UTF8 in joined:
            return None
        texts = joined.decode().split("\n")
        if not texts[-1]:
            texts.pop()
        records = list(csv.reader([*texts, _LAST]))
        if len(records) != len(lines) + 1:
            return None
        records.pop()
        if set(map(len, records)) != {len(columns.header)} or columns.header in records:
            return None
        fields = list(zip(*records, strict=True))
        nulls = columns.nulls
        typed = [column_parser(kind)(without(nulls, fields[at])) for _, at, kind in columns.places]
        at_us = None
        if columns.stime_at >= 0:
            at_us = parse_stimes(without(nulls, fields[columns.stime_at]), columns.form)
    except (ValueError, KeyError, csv.Error):
        return None
    names = [name for name, _, _ in columns.places]
    rows = map(zip, repeat(names), zip(*typed, strict=True))
    return RowRun(position, line, list(map(dict, rows)), at_us, lines)


class _Records:
    """Reads record by record. `position`: that of the next record."""

    def __init__(self, reader: Iterator[list[str]], tape: Tape, columns: Columns) -> None:
        self.position = 0
        self._reader = reader
        self._tape = tape
        self._columns = columns
        self._parsers = [(name, at, value_parser(kind)) for name, at, kind in columns.places]

    def until(self, line: int) -> Iterator[InputRow | BadLine]:
        """The records that begin before this line."""
        while self._tape.line + 1 < line:
            item = self._next()
            if item is not None:
                self.position += 1
                yield item

    def _next(self) -> InputRow | BadLine | None:
        """None: a blank line."""
        try:
            fields = next(self._reader)
        except UnicodeDecodeError as exc:  # raised by the tape: the reader never saw this line
            return self._bad(not_utf8(exc.reason))
        except csv.Error as exc:
            return self._bad(str(exc))
        if not fields:
            self._tape.drain()
            return None
        try:
            self._check(fields)
            fields = list(without(self._columns.nulls, fields))
            values = {name: _typed(name, fields[at], parse) for name, at, parse in self._parsers}
            at_us = (
                None if self._columns.stime_at < 0 else parse_stime(fields[self._columns.stime_at], self._columns.form)
            )
        except ValueError as exc:
            return self._bad(str(exc))
        line, raw = self._tape.drain()
        return InputRow(self.position, line, values, at_us, raw)

    def _check(self, fields: list[str]) -> None:
        """Raises ValueError: these are no values of a row."""
        header = self._columns.header
        if self._tape.marked:
            raise ValueError(f"a byte order mark in the middle of the input{_PUT_TOGETHER}")
        if fields == header:
            raise ValueError(f"the header line again{_PUT_TOGETHER}")
        if len(fields) != len(header):
            raise ValueError(f"{len(fields)} fields, the header has {len(header)}")

    def _bad(self, why: str) -> BadLine:
        line, raw = self._tape.drain()
        return BadLine(self.position, line, f"malformed: {why}", raw)


def _typed(name: str, text: str, parse: Callable[[str], object]) -> object:
    if text == "":
        return None
    try:
        return parse(text)
    except ValueError as exc:
        raise ValueError(f"field `{name}`: {exc}") from None


def _int64(text: str) -> int:
    if not WHOLE.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _double(text: str) -> float:
    """A number as in CSV files, not as in Python source (1_000). Non-finite values are rejected later."""
    if not FLOAT.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _bool(text: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.strip().lower() not in known:
        raise ValueError(f"{text!r} is not true or false")
    return known[text.strip().lower()]


_PARSERS: Mapping[str, Callable[[str], object]] = {"string": str, "int64": _int64, "double": _double, "bool": _bool}


def value_parser(kind: str) -> Callable[[str], object]:
    """Parses the text of one value, which is not empty, of a column of this type. It raises ValueError."""
    rule = rules(parse_type(kind))
    return _PARSERS[kind] if rule is None else rule.from_csv


_BOOLS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "1": True,
    "false": False,
    "False": False,
    "FALSE": False,
    "0": False,
}


def _doubles(texts: Sequence[str]) -> list[float | None]:
    plain(texts)
    return [float(text) if text else None for text in texts] if "" in texts else list(map(float, texts))


def _strings(texts: Sequence[str]) -> Sequence[str | None]:
    return [text or None for text in texts] if "" in texts else texts


def _bools(texts: Sequence[str]) -> list[bool | None]:
    return [_BOOLS[text] if text else None for text in texts]


_COLUMNS: Mapping[str, Callable[[Sequence[str]], Sequence[object]]] = {
    "string": _strings,
    "int64": whole_numbers,
    "double": _doubles,
    "bool": _bools,
}
"""Faster parsers with the same results; they may raise ValueError or KeyError where the single ones would not, but
never accept more.
"""


def column_parser(kind: str) -> Callable[[Sequence[str]], Sequence[object]]:
    """Parses the texts of a column, null where they are empty. It raises ValueError or KeyError, also for some texts
    that `value_parser` takes."""
    return _COLUMNS.get(kind) or partial(_each, value_parser(kind))


def _each(parse: Callable[[str], object], texts: Sequence[str]) -> list[object]:
    return [parse(text) if text else None for text in texts]
