"""Tables for `lookup`, and what a user writes about one in a file. Pure: `engine.keyed.table_file` reads the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from borealis_py.query.bykey import table_key
from borealis_py.query.errors import QueryError
from borealis_py.query.formats import checked_nulls
from borealis_py.query.names import check_schema, check_stream_name
from borealis_py.query.plan import TableFile
from borealis_py.query.schemas import columns_of

_FORMATS: Mapping[str, Literal["csv", "json", "parquet"]] = {
    ".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".parquet": "parquet",
}  # fmt: skip


class Changes(Protocol):
    """A stream that is read as a table."""

    columns: tuple[str, ...]


class Table:
    """A stream or a file read as a table: one row for each key. It is no stream itself: `Stream.lookup` reads it.

    `columns`: all that a row has. `key`: those that name a row.
    """

    def __init__(
        self, rows: Changes | TableFile, columns: tuple[str, ...], key: tuple[str, ...], deleted: str | None = None
    ) -> None:
        self.columns = columns
        self.key = key
        self._rows = rows
        self._deleted = deleted


def file_table(
    name: str,
    key: str | Sequence[str],
    schema: Mapping[str, str] | type,
    file: object,
    others: Sequence[object],
    nulls: Sequence[str] | None = None,
) -> Table:
    """The table that `App.table(file=...)` means.

    Args:
        others: the arguments that say how it changes, which a file does not.

    Raises:
        QueryError: one of these is given, or an argument makes no sense.
    """
    where = f"table {check_stream_name(name, 'table')!r}"
    if any(other is not None for other in others):
        raise QueryError(
            f"{where}: deleted=, topic=, key_format=, stime= and partitions= are about changes, and a file has none: "
            "leave them out"
        )
    columns = check_schema(columns_of(schema, where), where)
    text = str(file)
    kind = next((kind for end, kind in _FORMATS.items() if text.lower().endswith(end)), None)
    if kind is None:
        raise QueryError(f"{where}: file={text!r}; give the path of a file that ends in {', '.join(_FORMATS)}")
    if nulls is not None and kind != "csv":
        raise QueryError(f"{where}: nulls= are values of CSV, and {text!r} is none: leave it out")
    missing = () if nulls is None else checked_nulls(nulls, where)
    read = TableFile(path=text, format=kind, columns=tuple(columns.items()), table=name, nulls=missing)
    return Table(read, tuple(columns), table_key(key, tuple(columns)))


def or_nothing_left(columns: Sequence[str], key: Sequence[str], deleted: str | None) -> str | None:
    """The condition of a table whose rows are deleted by this one, and by having a key alone."""
    nothing = " AND ".join(f'"{name}" IS NULL' for name in columns if name not in key)
    if not nothing or not (deleted is None or isinstance(deleted, str)):
        return deleted
    return nothing if deleted is None else f"({deleted}) OR ({nothing})"
