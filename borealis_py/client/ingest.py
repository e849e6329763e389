"""Reads rows from files and pipes: CSV with a header line, or one JSON object per line. Bad lines are reported, not
fatal.

CSV values are typed by the source's schema; empty values are null. This module knows nothing of logs; `pump` publishes
the rows.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import msgspec

from borealis_py.client.csvlines import Columns, Tape, csv_parts
from borealis_py.client.items import BadLine, InputRow, Items, RowRun, gathered
from borealis_py.client.rows import ROW_BYTES_MAX
from borealis_py.client.times import AS_WRITTEN, parse_stime, parse_stimes
from borealis_py.query.errors import WrongWord
from borealis_py.query.times import TimeForm
from borealis_py.types.plain_json import object_decoder

__all__ = ["BadLine", "IngestError", "InputRow", "Items", "open_rows", "parse_stime", "read_csv", "read_jsonl"]

FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
BLOCK_BYTES = 16_384
"""Bytes read from a file at a time. With four times as much, CSV takes twice as long, because the garbage collector
visits all live objects.
"""
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError)


class IngestError(Exception):
    """The input as a whole cannot be read; the message says what to change."""


class WrongOption(IngestError, WrongWord):
    """An option does not fit the input: its format, or the column with the times."""


@contextmanager
def open_rows(
    path: str,
    schema: Mapping[str, str],
    stime_column: str | None = None,
    format: str | None = None,
    form: TimeForm = AS_WRITTEN,
    nulls: Collection[str] = (),
) -> Iterator[Items]:
    """The rows of a file, or of stdin ("-"). `.gz` files are decompressed.

    Args:
        schema: field -> column type.
        stime_column: column with each row's time.
        format: "csv" or "jsonl"; None: by the file's name.
        form: how the times are read.
        nulls: values that are null in CSV, as an empty one is.

    Raises:
        IngestError: no such file, unknown format, a missing column, or `nulls` for JSON lines, which have null.
    """
    chosen = format or _format_of(path)
    if chosen not in ("csv", "jsonl"):
        raise WrongOption(f"{path}: unknown format {chosen!r}; say csv or jsonl")
    if nulls and chosen != "csv":
        raise WrongOption(f"{path}: null markers such as {next(iter(nulls))!r} are for CSV; JSON lines have null")
    try:
        stream: BinaryIO = sys.stdin.buffer if path == "-" else _open(path)
    except OSError as exc:
        raise IngestError(f"{path}: cannot be read: {exc.strerror or exc}") from exc
    try:
        try:
            if chosen == "csv":
                rows = read_csv(stream, schema, stime_column, form, nulls)
            else:
                rows = read_jsonl(stream, stime_column, schema, form)
        except IngestError as exc:
            raise IngestError(f"{'standard input' if path == '-' else path}: {exc}") from exc
        yield rows
    finally:
        if path != "-":
            stream.close()


def read_csv(
    lines: Iterable[bytes],
    schema: Mapping[str, str],
    stime_column: str | None = None,
    form: TimeForm = AS_WRITTEN,
    nulls: Collection[str] = (),
) -> Items:
    """Rows of CSV (UTF-8, comma, header line). Reads the header at once. `nulls`: values that are null.

    Raises:
        IngestError: no header, or a column of the schema or the stime column is not in it, or is in it twice.
    """
    tape = Tape(_blocks(lines))
    csv.field_size_limit(max(csv.field_size_limit(), ROW_BYTES_MAX))
    reader = csv.reader(tape)
    try:
        header = next(reader, None)
    except (csv.Error, UnicodeDecodeError) as exc:
        raise IngestError(f"the first line is not a CSV header: {exc}") from exc
    if not header:
        what = "the input is empty" if header is None else "the first line is blank"
        raise IngestError(f"{what}; CSV starts with a header line that names the columns")
    for column in [*schema, *([stime_column] if stime_column else [])]:
        _require(column, header)
    tape.drain()
    return Items(csv_parts(reader, tape, Columns.of(header, schema, stime_column, form, nulls)))


def read_jsonl(
    lines: Iterable[bytes],
    stime_column: str | None = None,
    schema: Mapping[str, str] = MappingProxyType({}),
    form: TimeForm = AS_WRITTEN,
) -> Items:
    """Rows of JSON lines: one object per line; blank lines are skipped. Decimals of the schema may be numbers."""
    decode = object_decoder(schema, () if stime_column is None else (stime_column,))
    return Items(_jsonl_parts(_without_mark(_blocks(lines)), decode, stime_column, form))


def _jsonl_parts(
    blocks: Iterable[Sequence[bytes]],
    decode: Callable[[bytes], dict[str, object]],
    stime_column: str | None,
    form: TimeForm,
) -> Iterator[RowRun | BadLine]:
    position = 0
    for lines in blocks:
        try:
            values = list(map(decode, lines))
            at_us = None if stime_column is None else parse_stimes([row.get(stime_column) for row in values], form)
        except _BAD_JSON:  # or a blank line
            yield from gathered(_jsonl_lines(lines, position, stime_column, decode, form))
        else:
            yield RowRun(position, position + 1, values, at_us, lines)
        position += len(lines)


def _jsonl_lines(
    lines: Iterable[bytes],
    first: int,
    stime_column: str | None,
    decode: Callable[[bytes], dict[str, object]],
    form: TimeForm = AS_WRITTEN,
) -> Iterator[InputRow | BadLine]:
    for position, raw in enumerate(lines, first):
        line, text = position + 1, raw.rstrip(b"\r\n")
        if not text.strip():
            continue
        try:
            values = decode(text)
            at_us = None if stime_column is None else parse_stime(values.get(stime_column), form)
        except _BAD_JSON as exc:
            yield BadLine(position, line, f"malformed: {exc}", text)
        else:
            yield InputRow(position, line, values, at_us, text)


def _blocks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Lines with their line ends, in blocks of what is available without waiting; of an input other than a file, single
    lines.
    """
    read1 = getattr(lines, "read1", None)
    if read1 is None:
        for line in lines:
            yield [line]
        return
    begun: list[bytes] = []
    while data := _read(read1):
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            yield io.BytesIO(b"".join((*begun, whole, newline))).readlines()
            begun = [rest] if rest else []
        else:
            begun.append(rest)
    if begun:
        yield [b"".join(begun)]


def _read(read1: Callable[[int], bytes]) -> bytes:
    """Raises IngestError: it is cut off, or no gzip, or the disk fails."""
    try:
        return read1(BLOCK_BYTES)
    except (OSError, EOFError, zlib.error) as exc:
        raise IngestError(f"the rest of the input cannot be read: {exc}") from exc


def _without_mark(blocks: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """The same without a byte order mark, with which programs on Windows begin a file of UTF-8."""
    for i, block in enumerate(blocks):
        if i == 0:
            block[0] = block[0].removeprefix(BOM_UTF8)
        yield block


def _require(column: str, header: Sequence[str]) -> None:
    if column not in header:
        close = difflib.get_close_matches(column, header, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        if len(header) == 1 and (other := next((one for one in _OTHER_DELIMITERS if one in header[0]), None)):
            hint = f" It is separated by {_OTHER_DELIMITERS[other]}: write commas"
        raise WrongOption(f"the CSV header has no column {column!r}; it has {', '.join(header)}.{hint}")
    if header.count(column) > 1:
        raise IngestError(f"the CSV header has {header.count(column)} columns {column!r}: which one is meant?")


def _format_of(path: str) -> str:
    if path == "-":
        return "jsonl"
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    if suffix not in FORMATS:
        raise WrongOption(f"{path}: cannot tell the format from the name; say --format csv or --format jsonl")
    return FORMATS[suffix]


def _open(path: str) -> BinaryIO:
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")  # type: ignore[return-value]
