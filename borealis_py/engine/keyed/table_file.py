"""Files with the rows of a table: what they contain, by which they are known, and their rows as columns.

A file is part of the query: the description has its SHA-256, and a machine with another content does not run it.
"""

from __future__ import annotations

import csv as python_csv
import functools
import hashlib
import io
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.query.errors import QueryError, TableFileDiffers
from borealis_py.query.plan import TableFile
from borealis_py.types.arrow import array
from borealis_py.types.casts import cast
from borealis_py.types.plain_json import PlainDecoder
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import Misfit, Rules, rules, sent

BLOCK_BYTES_MIN, BLOCK_BYTES_MAX = 1 << 20, 2**31 - 1
"""Of what Arrow's reader of CSV looks at together: its default, and the most that it takes."""
_MARKED = "begins with a byte order mark: files seem to have been put together. Take the mark out"
_REPEATED = "is the header line again: files seem to have been put together. Take this line out"


def known(file: TableFile) -> TableFile:
    """The file as it is on this machine: its absolute path and its SHA-256. Raises QueryError where there is none."""
    path = Path(file.path).resolve()
    there = file.model_copy(update={"path": str(path)})
    return there.model_copy(update={"sha256": hashlib.sha256(_content(there)).hexdigest()})


def rows_of(file: TableFile, schema: pa.Schema) -> pa.RecordBatch:
    """The file's rows, in their order. `schema`: of its columns.

    Raises:
        TableFileDiffers: it is not there, or not the one that the app was described with.
        QueryError: it cannot be read, or is corrupt; the message names the table, the file, and what is wrong.
    """
    content = _content(file)
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise TableFileDiffers(
            f"{file.place}: its SHA-256 is {found}, the app was described with {file.sha256 or 'none'}. All machines "
            "need the same file at this path: copy it there, or begin anew with the new one: `borealis up --reset`"
        )
    try:
        rows = pa.RecordBatch.from_arrays(list(_READERS[file.format](content, file, schema)), schema=schema)
        rows.validate(full=True)  # nothing else looks at each text and decimal that a corrupt file holds
    except (pa.ArrowException, Misfit, KeyError, OSError, ValueError) as exc:  # of a corrupt file also the last two
        why = next(iter(str(exc).splitlines()), type(exc).__name__)
        raise QueryError(f"{file.place}, read as {file.format}: {why}") from exc
    return rows


def _content(file: TableFile) -> bytes:
    try:
        return Path(file.path).read_bytes()
    except OSError as exc:
        raise TableFileDiffers(
            f"{file.place}: {exc.strerror}; a table's file must be on every machine, at the same path"
        ) from exc


def _csv(content: bytes, file: TableFile, schema: pa.Schema) -> Sequence[pa.Array]:
    from pyarrow import csv

    columns = dict(file.columns)
    _check_header(content, columns)
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()),
        include_columns=list(columns),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # One block: a value may be as large as the file, and have line breaks in it.
    whole = csv.ReadOptions(block_size=min(BLOCK_BYTES_MAX, max(BLOCK_BYTES_MIN, len(content) + 1)))
    lines = csv.ParseOptions(newlines_in_values=True)
    table = csv.read_csv(
        io.BytesIO(content), read_options=whole, parse_options=lines, convert_options=options
    ).combine_chunks()
    texts = {name: _whole(table, name) for name in columns}
    _check_rows(texts)
    return [
        _parsed(name, _without(file.nulls, texts[name]), schema.field(name).type, kind)
        for name, kind in columns.items()
    ]


def _check_header(content: bytes, columns: Mapping[str, str]) -> None:
    """Raises Misfit: it names a column twice, or a later line begins with a byte order mark."""
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", errors="replace", newline="")
    try:
        header = next(python_csv.reader(text), [])
    except python_csv.Error:
        header = []  # the reader of the whole says what is wrong
    twice = next((name for name in columns if header.count(name) > 1), None)
    if twice is not None:
        raise Misfit(f"the header has {header.count(twice)} columns {twice!r}: which one is meant? Rename the others")
    parts = content.split(b"\n" + BOM_UTF8)
    quotes, line = 0, 1
    for part in parts[:-1]:
        quotes, line = quotes + part.count(b'"'), line + part.count(b"\n") + 1
        if quotes % 2 == 0:  # or it is in a value
            raise Misfit(f"line {line} {_MARKED}")


def _check_rows(texts: Mapping[str, pa.Array]) -> None:
    """Raises Misfit: a row is the header again."""
    again = functools.reduce(pc.and_, (pc.fill_null(pc.equal(column, name), False) for name, column in texts.items()))
    found = pc.index(again, True).as_py()
    if found >= 0:
        raise Misfit(f"row {found + 1} {_REPEATED}")


def _without(nulls: Collection[str], texts: pa.Array) -> pa.Array:
    if not nulls:
        return texts
    is_null = pc.is_in(texts, value_set=pa.array(list(nulls), pa.string()))
    return pc.if_else(is_null, pa.scalar(None, pa.string()), texts)


def _parsed(name: str, texts: pa.Array, arrow: pa.DataType, kind: str) -> pa.Array:
    """A column of texts as its type."""
    rule = rules(parse_type(kind))
    if rule is None:
        try:
            return texts.cast(arrow)
        except pa.ArrowInvalid:  # of one row: which one, and why?
            return array(_each(name, texts, lambda text: pa.scalar(text).cast(arrow).as_py()), arrow)
    return array(_each(name, texts, lambda text: _value(rule, text)), arrow)


def _value(rule: Rules, text: str) -> object:
    form = sent(rule, rule.from_csv(text))
    return None if form is None else rule.read(form)


def _each(name: str, texts: pa.Array, parse: Callable[[str], object]) -> list[object]:
    found: list[object] = []
    for number, text in enumerate(texts.to_pylist(), 1):
        try:
            found.append(None if text is None else parse(text))
        except (pa.ArrowInvalid, Misfit) as exc:
            raise Misfit(f"row {number}, column {name!r}: {exc}") from exc
    return found


def _json(content: bytes, file: TableFile, schema: pa.Schema) -> Sequence[pa.Array]:
    content = content.removeprefix(BOM_UTF8)
    lines = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    rows = PlainDecoder(dict(file.columns)).rows([line for _, line in lines])
    for (number, line), row in zip(lines, rows, strict=True):
        if isinstance(row, str):
            raise Misfit(f"line {number} {_MARKED}" if line.startswith(BOM_UTF8) else f"line {number}: {row}")
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    return [array(column, field.type) for column, field in zip(values, schema, strict=True)]


def _parquet(content: bytes, file: TableFile, schema: pa.Schema) -> Sequence[pa.Array]:
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(content), page_checksum_verification=True).combine_chunks()
    return [cast(name, _whole(table, name), schema.field(name).type) for name, _ in file.columns]


def _whole(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    if name not in table.schema.names:
        raise Misfit(f"it has no column {name!r}; columns: {', '.join(table.schema.names)}")
    chunks = table.column(name)
    return chunks.combine_chunks() if chunks.num_chunks != 1 else chunks.chunk(0)


_READERS = {"csv": _csv, "json": _json, "parquet": _parquet}
