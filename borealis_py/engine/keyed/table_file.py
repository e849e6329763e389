"""Files with the rows of a table: what they contain, by which they are known, and their rows as columns.

A file is part of the query: the description has its SHA-256, and a machine with another content does not run it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from borealis_py.query.errors import QueryError, TableFileDiffers
from borealis_py.query.plan import TableFile
from borealis_py.types.arrow import array
from borealis_py.types.casts import cast
from borealis_py.types.plain_json import PlainDecoder
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import Misfit, Rules, rules, sent


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
    columns = dict(file.columns)
    try:
        rows = pa.RecordBatch.from_arrays(list(_READERS[file.format](content, columns, schema)), schema=schema)
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


def _csv(content: bytes, columns: Mapping[str, str], schema: pa.Schema) -> Sequence[pa.Array]:
    from pyarrow import csv

    options = csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()),
        include_columns=list(columns),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    table = csv.read_csv(io.BytesIO(content), convert_options=options).combine_chunks()
    return [_parsed(name, _whole(table, name), schema.field(name).type, kind) for name, kind in columns.items()]


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


def _json(content: bytes, columns: Mapping[str, str], schema: pa.Schema) -> Sequence[pa.Array]:
    lines = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    rows = PlainDecoder(columns).rows([line for _, line in lines])
    for (number, _), row in zip(lines, rows, strict=True):
        if isinstance(row, str):
            raise Misfit(f"line {number}: {row}")
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    return [array(column, field.type) for column, field in zip(values, schema, strict=True)]


def _parquet(content: bytes, columns: Mapping[str, str], schema: pa.Schema) -> Sequence[pa.Array]:
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(content), page_checksum_verification=True).combine_chunks()
    return [cast(name, _whole(table, name), schema.field(name).type) for name in columns]


def _whole(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    if name not in table.schema.names:
        raise Misfit(f"it has no column {name!r}; columns: {', '.join(table.schema.names)}")
    chunks = table.column(name)
    return chunks.combine_chunks() if chunks.num_chunks != 1 else chunks.chunk(0)


_READERS = {"csv": _csv, "json": _json, "parquet": _parquet}
