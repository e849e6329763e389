"""Rows out of files and pipes: CSV with a header line, or one JSON object a line. A bad line is told, never fatal.

Values of CSV are typed by the source's schema, an empty one is null. It knows nothing of logs; `pump` publishes what
comes out here.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import msgspec

from borealis_py.client.rows import ROW_BYTES_MAX

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}


class IngestError(Exception):
    """The input as a whole cannot be read; the message says what to change."""


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row of an input.

    Attributes:
        position: of the row in its input, from 0: its sequence number.
        line: for people, from 1.
        values: field -> value; extra fields may be there.
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
    """A line that is no row. It has a position too, so that those after it keep theirs when it is repaired."""

    position: int
    line: int
    reason: str
    raw: bytes


@contextmanager
def open_rows(
    path: str, schema: Mapping[str, str], stime_column: str | None = None, format: str | None = None
) -> Iterator[Iterator[InputRow | BadLine]]:
    """The rows of a file, or of stdin ("-"). `.gz` files are unpacked.

    Args:
        schema: field -> "string" | "int64" | "double" | "bool".
        stime_column: holds each row's time, as integer µs or as ISO 8601 date-time (without a zone: UTC).
        format: "csv" or "jsonl"; None: by the file's name.

    Raises:
        IngestError: no such file, unknown format, or a column is not there.
    """
    chosen = format or _format_of(path)
    if chosen not in ("csv", "jsonl"):
        raise IngestError(f"{path}: unknown format {chosen!r}; say csv or jsonl")
    try:
        stream: BinaryIO = sys.stdin.buffer if path == "-" else _open(path)
    except OSError as exc:
        raise IngestError(f"{path}: cannot be read: {exc.strerror or exc}") from exc
    try:
        yield read_csv(stream, schema, stime_column) if chosen == "csv" else read_jsonl(stream, stime_column)
    finally:
        if path != "-":
            stream.close()


def read_csv(
    lines: Iterable[bytes], schema: Mapping[str, str], stime_column: str | None = None
) -> Iterator[InputRow | BadLine]:
    """Rows of CSV (UTF-8, comma, header line). Reads the header at once.

    Raises:
        IngestError: no header, or a column of the schema or the stime column is not in it.
    """
    tape = _Tape(lines)
    csv.field_size_limit(max(csv.field_size_limit(), ROW_BYTES_MAX))
    reader = csv.reader(tape)
    try:
        header = next(reader, None)
    except (csv.Error, UnicodeDecodeError) as exc:
        raise IngestError(f"the first line is no CSV header: {exc}") from exc
    if not header:
        raise IngestError("the input is empty; CSV starts with a header line that names the columns")
    for column in [*schema, *([stime_column] if stime_column else [])]:
        _require(column, header)
    tape.take()
    return _csv_rows(reader, tape, header, schema, stime_column)


def read_jsonl(lines: Iterable[bytes], stime_column: str | None = None) -> Iterator[InputRow | BadLine]:
    """Rows of JSON lines: one object a line; blank lines are passed over."""
    decode = msgspec.json.Decoder(dict[str, object]).decode
    for position, raw in enumerate(lines):
        line, text = position + 1, raw.rstrip(b"\r\n")
        if not text.strip():
            continue
        try:
            values = decode(text)
            at_us = None if stime_column is None else parse_stime(values.get(stime_column))
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as exc:
            yield BadLine(position, line, f"malformed: {exc}", text)
        else:
            yield InputRow(position, line, values, at_us, text)


def parse_stime(value: object) -> int | None:
    """A time as µs since 1970: an integer (or its digits) as it is, or ISO 8601; None or "" gives None.

    Raises:
        ValueError: it is neither.
    """
    if value is None or value == "":
        return None
    if type(value) is int:
        return value
    if isinstance(value, str):
        text = value.strip()
        if _WHOLE.fullmatch(text):
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return (aware - _EPOCH) // timedelta(microseconds=1)
    raise ValueError(f"stime {value!r} is neither integer microseconds nor an ISO 8601 date-time")


class _Tape:
    """Decodes lines for csv.reader and remembers those of the present record: a quoted field may hold several."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self._present: list[bytes] = []
        self.line = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        raw = next(self._lines)
        self.line += 1
        if self.line == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        self._present.append(raw)
        return raw.decode()

    def take(self) -> tuple[int, bytes]:
        """First line number and bytes of the lines since the last call."""
        present, self._present = self._present, []
        return self.line - len(present) + 1, b"".join(present).rstrip(b"\r\n")


def _csv_rows(
    reader: Iterator[list[str]],
    tape: _Tape,
    header: list[str],
    schema: Mapping[str, str],
    stime_column: str | None,
) -> Iterator[InputRow | BadLine]:
    parsers = [(name, header.index(name), _PARSERS[kind]) for name, kind in schema.items()]
    stime_at = None if stime_column is None else header.index(stime_column)
    position = -1
    while True:
        try:
            fields = next(reader)
            if not fields:
                tape.take()
                continue  # a blank line
            position += 1
            if len(fields) != len(header):
                raise ValueError(f"{len(fields)} fields, the header has {len(header)}")
            values = {name: _typed(name, fields[at], parse) for name, at, parse in parsers}
            at_us = None if stime_at is None else parse_stime(fields[stime_at])
        except StopIteration:
            return
        except UnicodeDecodeError as exc:
            position += 1  # raised by the tape: the reader never saw this line
            line, raw = tape.take()
            yield BadLine(position, line, f"malformed: not UTF-8: {exc.reason}", raw)
        except csv.Error as exc:
            position += 1
            line, raw = tape.take()
            yield BadLine(position, line, f"malformed: {exc}", raw)
        except ValueError as exc:
            line, raw = tape.take()
            yield BadLine(position, line, f"malformed: {exc}", raw)
        else:
            line, raw = tape.take()
            yield InputRow(position, line, values, at_us, raw)


def _typed(name: str, text: str, parse: Callable[[str], object]) -> object:
    if text == "":
        return None
    try:
        return parse(text)
    except ValueError as exc:
        raise ValueError(f"field `{name}`: {exc}") from None


def _int64(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _double(text: str) -> float:
    """As CSV files write numbers: not as Python's source does (1_000). What is not finite is told as such later."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _bool(text: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.strip().lower() not in known:
        raise ValueError(f"{text!r} is not true or false")
    return known[text.strip().lower()]


_PARSERS: Mapping[str, Callable[[str], object]] = {"string": str, "int64": _int64, "double": _double, "bool": _bool}


def _require(column: str, header: Collection[str]) -> None:
    if column not in header:
        close = difflib.get_close_matches(column, header, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise IngestError(f"the CSV header has no column {column!r}; it has {', '.join(header)}.{hint}")


def _format_of(path: str) -> str:
    if path == "-":
        return "jsonl"
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    if suffix not in FORMATS:
        raise IngestError(f"{path}: cannot tell the format from the name; say csv or jsonl")
    return FORMATS[suffix]


def _open(path: str) -> BinaryIO:
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")  # type: ignore[return-value]
