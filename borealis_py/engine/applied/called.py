"""A user's function as something that runs on a batch of rows: a table for it, its result checked, its errors rows'.

The table depends on nothing but the rows: fresh columns, one chunk each, types that no value changes. Whatever a
function does wrong may lie in the row or in the process, so each error is unsure: it blames rows that fail again.
"""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from borealis_py.engine.applied.watchdog import WATCHDOG
from borealis_py.engine.sql.duck_faults import RowError
from borealis_py.engine.sql.duck_statement import checked
from borealis_py.query.plan import Function, StyleName
from borealis_py.types.arrow import spelled, stored
from borealis_py.types.casts import cast
from borealis_py.types.values import Misfit
from sunion.errors import EngineOutOfMemory

REASON_MAX = 300
"""The longest reason of a dead letter, in characters."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
"""Of an object, in the text of an error: it differs between processes, and dead letters must not."""
_ROW = re.compile(r"^row \d+, ")


class CalledFunction:
    """A function with the columns that it returns, as (name, Arrow type).

    Args:
        call: None: it is not loaded here, and nothing but its columns is asked for.
        row_max_bytes: the largest row of its result.
    """

    def __init__(
        self,
        function: Function,
        call: Callable[[Any], Any] | None,
        columns: Sequence[tuple[str, pa.DataType]],
        style: StyleName,
        row_max_bytes: int,
    ) -> None:
        self.name = function.name
        self.schema = pa.schema([pa.field(name, kind) for name, kind in columns])
        self._call = call
        self._style = style
        self._row_max_bytes = row_max_bytes
        self._file: str = getattr(getattr(call, "__code__", None), "co_filename", "")

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """What the function returns for these rows: the columns `schema`, of any number of rows.

        Raises:
            RowError: it raised, or returned something else.
            EngineOutOfMemory: there is no memory for it.
        """
        if self._call is None:
            raise RuntimeError(f"{self.name} is not loaded in this process, which only needs to know its columns")
        try:
            given = self._given(rows)
            with WATCHDOG.watching(self.name, rows.num_rows):
                returned = self._call(given)
            return checked(self._taken(returned), self.schema, self._row_max_bytes)
        except RowError as exc:
            raise RowError(f"{self.name}: {exc}", False) from exc
        except MemoryError as exc:
            raise EngineOutOfMemory(
                f"{self.name} needs more memory than there is, for {rows.num_rows} rows of one bucket or group"
            ) from exc
        except BaseException as exc:  # a function that exits, or is cancelled, must not end its replica
            if isinstance(exc, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # a user's, of a command
            raise RowError(f"{self.name}: {_reason(exc, self._file)}", False) from exc

    def _given(self, rows: pa.RecordBatch) -> Any:
        fresh = rows.take(pa.array(np.arange(rows.num_rows)))
        table = pa.table([stored(column) for column in fresh.columns], names=fresh.schema.names)
        if self._style == "arrow":
            return table
        return table.to_pandas(types_mapper=_dtypes())

    def _taken(self, returned: Any) -> pa.RecordBatch:
        columns = self._columns_of_frame(returned) if self._style == "pandas" else self._columns_of_table(returned)
        try:
            made = [cast(f.name, column, f.type) for f, column in zip(self.schema, columns, strict=True)]
        except Misfit as exc:
            raise RowError(f"it returned {_ROW.sub('', str(exc))}", False) from exc
        return pa.RecordBatch.from_arrays(made, schema=self.schema)

    def _columns_of_table(self, returned: Any) -> list[pa.Array]:
        if not isinstance(returned, pa.Table | pa.RecordBatch):
            raise RowError(f"it returned {_kind(returned)} instead of a pyarrow.Table", False)
        self._check_names(returned.schema.names)
        found = [returned.column(name) for name in self.schema.names]
        return [_whole(column) for column in found]

    def _columns_of_frame(self, returned: Any) -> list[pa.Array]:
        from pandas import DataFrame

        if not isinstance(returned, DataFrame):
            raise RowError(f"it returned {_kind(returned)} instead of a pandas.DataFrame", False)
        self._check_names(list(returned.columns))
        return [_whole(pa.Array.from_pandas(returned[name])) for name in self.schema.names]

    def _check_names(self, names: Sequence[object]) -> None:
        for field in self.schema:
            if names.count(field.name) != 1:
                how = "without" if field.name not in names else "with several of"
                raise RowError(
                    f"it returned a table {how} column {field.name!r} (a {spelled(field.type)}); columns: "
                    f"{', '.join(map(str, names)) or 'none'}",
                    False,
                )


@cache
def _dtypes() -> Callable[[pa.DataType], Any]:
    """pandas' dtype of a column: one that no value changes, and in which null is not NaN."""
    import pandas as pd  # here: most apps have no such function

    known = {
        pa.int64(): pd.Int64Dtype(), pa.float64(): pd.Float64Dtype(), pa.bool_(): pd.BooleanDtype(),
        pa.string(): pd.StringDtype("pyarrow"),
    }  # fmt: skip
    return lambda arrow: known.get(arrow) or pd.ArrowDtype(arrow)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, with valid content. Raises ArrowInvalid."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    column.validate(full=True)
    return column


def _kind(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__qualname__}"


def _reason(exc: BaseException, file: str) -> str:
    """An exception as one line, with the last line of the function's own file on the way to it."""
    own = [frame for frame in traceback.extract_tb(exc.__traceback__) if frame.filename == file]
    where = f" (line {own[-1].lineno})" if own else ""
    text = _ADDRESS.sub("0x...", " ".join(str(exc).split()))
    line = f"{type(exc).__name__}: {text}" if text else type(exc).__name__
    room = REASON_MAX - len(where)
    return (line if len(line) <= room else f"{line[: room - 3]}...") + where
