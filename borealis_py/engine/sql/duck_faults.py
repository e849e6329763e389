"""What an error of DuckDB says: of a value, of the process, or of the SQL."""

from __future__ import annotations

import re

import duckdb

from borealis_py.engine.sql import checks
from sunion.errors import EngineOutOfMemory

_OF_VALUES = (duckdb.DataError, duckdb.InvalidInputException, duckdb.NotImplementedException, UnicodeDecodeError)
"""Errors that only a value can cause: a failed CAST, overflow, a bad argument, an unknown time zone. The last one
occurs when the engine truncates a message within a character of a value.
"""
_OF_THE_PROCESS = (
    duckdb.InterruptException,
    duckdb.InternalException,
    duckdb.FatalException,
    duckdb.IOException,
    duckdb.ConnectionException,
)
"""Faults of the process: they say nothing about the row."""
_OUT_OF_MEMORY = (duckdb.OutOfMemoryException, MemoryError)
REFUSALS = (duckdb.Error, UnicodeDecodeError, MemoryError)
"""Everything the engine raises for SQL that it rejects; always reported to the user."""


_SOURCE = re.compile(r" when casting from source column .*")
"""The engine's name of a column, which may be one of ours; `causes` names the expression."""
UNREADABLE = "the engine refuses it with a message that is not valid UTF-8"
"""Instead of a message that quotes half a character: some versions of Python have it, some an empty one, and replicas
must say the same."""


class RowError(Exception):
    """A statement failed, perhaps because of a value in a row. The text is the reason, one line.

    `sure`: errors of this kind come from values alone. Any other may also be a fault of the process: it blames a row
    only if a fresh connection raises it again (`poison_rows`).
    """

    def __init__(self, reason: str, sure: bool) -> None:
        super().__init__(reason)
        self.sure = sure


def first_line(error: BaseException) -> str:
    """DuckDB's message without its excerpt of the SQL, which is generated and not the user's."""
    text = "" if isinstance(error, UnicodeDecodeError) else str(error)
    if not text and isinstance(error, (UnicodeDecodeError, duckdb.Error)):
        return UNREADABLE
    line = _SOURCE.sub("", checks.reason_of(text.split("\n", 1)[0].strip()))
    return line if len(line) <= 300 else line[:297] + "..."


def judged(error: Exception) -> Exception:
    """Classify an error of a run: caused by a value, perhaps by a value, or by the process."""
    if isinstance(error, _OUT_OF_MEMORY):
        return EngineOutOfMemory(
            f"{first_line(error)}. Raise `engine_memory` in borealis.yaml (or BOREALIS_ENGINE_MEMORY) and run "
            "`borealis up` again: it resumes from its last checkpoint. Windows of fewer keys or rows need less"
        )
    if isinstance(error, _OF_THE_PROCESS):
        return error
    return RowError(first_line(error), isinstance(error, _OF_VALUES))
