"""One line of delimited text a value (CSV): UTF-8, no header; values typed by the schema, empty ones null."""

from __future__ import annotations

import csv
import math
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa

from borealis_py.client.csvlines import column_parser, split_line, value_parser, without
from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.ingress.formats.base import FormatRows, ImmediateFormat
from borealis_py.ingress.formats.fits import INT64_MAX, Fit, rows_of
from borealis_py.types.arrow import array, arrow_of
from borealis_py.types.explained import not_utf8
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import Misfit, rules, short

NULL_WORDS = ("na", "n/a", "nan", "null", "none", "nil", "-", "\\n", "?")
"""What others write for no value, in lower case."""
_END = (b"\r\n", b"\n")


class CsvFormat(ImmediateFormat):
    """A line a value; a line break at its end belongs to it, and so does a byte order mark before it.

    Args:
        fields: what the values of a line are, in order. Those that are no columns are ignored, and so are values after
            the last field; columns that the line is too short for are null.
        delimiter: one character.
        nulls: values that are null, as an empty one is.
    """

    def __init__(
        self, columns: Mapping[str, str], fields: Sequence[str], delimiter: str, nulls: Collection[str] = ()
    ) -> None:
        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        self._delimiter = delimiter
        self._fields = list(fields)
        self._nulls = frozenset(nulls)
        self._at = [list(fields).index(name) if name in fields else -1 for name in columns]
        self._width = max(self._at) + 1
        self._fits = {name: text_fit(kind) for name, kind in columns.items()}
        self._missing: tuple[str, ...] = ("",) * self._width

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        bad: dict[int, str] = {}
        joined = b"\n".join(values)
        if BOM_UTF8 in joined:
            values = [value.removeprefix(BOM_UTF8) for value in values]
            joined = b"\n".join(values)
        records = self._together(joined, len(values))
        at: Sequence[int] = range(len(values))
        if records is None:
            found = [self._split(value) for value in values]
            bad = {i: one for i, one in enumerate(found) if isinstance(one, str)}
            at = [i for i in at if i not in bad]
            records = [one for one in found if not isinstance(one, str)]
        if self._fields in records:
            header = [i for i, record in zip(at, records, strict=True) if record == self._fields]
            bad |= dict.fromkeys(header, "the names of the fields, no values: leave the header line out")
            records = [record for record in records if record != self._fields]
            at = [i for i in at if i not in bad]
        short = any(len(record) < self._width for record in records)
        filled = [[*r, *self._missing[len(r) :]] for r in records] if short else records
        columns: list[Sequence[object]] = [
            without(self._nulls, [record[i] for record in filled]) if i >= 0 else [""] * len(filled) for i in self._at
        ]
        return rows_of(self.schema, self._fits, columns, at, bad)

    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
        """See `RecordFormat.fields`."""
        texts = self._split(value.removeprefix(BOM_UTF8))
        return () if isinstance(texts, str) else self._fields[: len(texts)]

    def _together(self, joined: bytes, count: int) -> list[list[str]] | None:
        """The texts of each value; None: some are not as simple as most, or bad."""
        if b'"' in joined or b"\r" in joined or b"\0" in joined or joined.count(b"\n") != count - 1:
            return None
        try:
            lines = joined.decode().split("\n")
        except UnicodeDecodeError:
            return None
        return None if "" in lines else [line.split(self._delimiter) for line in lines]

    def _split(self, value: bytes) -> list[str] | str:
        """The texts of a value, or why it is no line."""
        for end in _END:
            if value.endswith(end):
                value = value.removesuffix(end)
                break
        try:
            line = value.decode()
        except UnicodeDecodeError as exc:
            return not_utf8(exc.reason)
        if not line:
            return "an empty line"
        if "\0" in line:
            return "not CSV: it has a NUL character"
        if '"' not in line:
            return "several lines" if "\n" in line or "\r" in line else line.split(self._delimiter)
        try:
            found = split_line(line, self._delimiter)
        except csv.Error as exc:
            return f"not CSV: {exc}"
        return found[0] if len(found) == 1 else "several lines"


def text_fit(kind: str) -> Fit:
    """How texts become a column of this type; an empty one is null."""
    arrow = arrow_of(kind)
    one, together = _one(kind), column_parser(kind)
    if rules(parse_type(kind)) is not None:
        return Fit(kind, one, lambda texts: array([one(text) for text in texts], arrow))

    def column(texts: Sequence[object]) -> pa.Array:
        found = together(texts)  # type: ignore[arg-type]
        if kind == "double" and not all(value is None or math.isfinite(value) for value in found):  # type: ignore[arg-type]
            raise Misfit("not finite")
        return array(found, arrow)

    return Fit(kind, one, column)


def _one(kind: str) -> Callable[[object], object]:
    parse, rule = value_parser(kind), rules(parse_type(kind))

    def one(text: object) -> object:
        assert isinstance(text, str)
        if text == "":
            return None
        try:
            value = parse(text)
        except ValueError as exc:
            if text.strip().lower() in NULL_WORDS:
                raise Misfit(f"{exc}: say CSV(nulls=[{text!r}]) if it means null, or make the column string") from None
            raise
        if kind == "int64" and not -INT64_MAX - 1 <= value <= INT64_MAX:  # type: ignore[operator]
            raise Misfit(f"{short(text)!r} is beyond an int64: make the column decimal(38,0)")
        if kind == "double" and not math.isfinite(value):  # type: ignore[arg-type]
            null = f": say CSV(nulls=[{text!r}]) if it means null" if text.strip().lower() in NULL_WORDS else ""
            raise Misfit(f"{short(text)!r} is not finite{null}")
        return value if rule is None or isinstance(value, bytes) else rule.read(value)

    return one
