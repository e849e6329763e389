"""Keeps libraries and threads out of a replica's process that others would load.

Only for our own processes, and before anything else is loaded: importing borealis_py must not change other programs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # numpy's: nothing here multiplies matrices
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's allocator returns memory as it goes
}


class _Without:
    """A module finder that hides some modules."""

    def __init__(self, finder: Any, names: frozenset[str]) -> None:
        self._finder = finder
        self._names = names

    def find_spec(self, name: str, *more: Any) -> Any:
        return None if name in self._names else self._finder.find_spec(name, *more)

    def reveal(self) -> None:
        """Hide nothing any more: a user's function is loaded, which may need what we do without."""
        self._names = frozenset()
        if isinstance(self._finder, _Without):
            self._finder.reveal()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def without(*names: str) -> None:
    """Make these modules appear as not installed to this process; libraries with optional imports do without them."""
    sys.meta_path[:] = [_Without(finder, frozenset(names)) for finder in sys.meta_path]


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """`without` for a while. Modules that are loaded already stay."""
    before = sys.meta_path[:]
    without(*names)
    try:
        yield
    finally:
        sys.meta_path[:] = before


def load_engine() -> None:
    """Load the libraries that run queries, leaving no thread behind.

    pyarrow, DuckDB and PySpark load pandas if they find it, to recognise its values: 30 MB in each process and 0.2 s of
    its start. DuckDB also opens a connection of its own to name types.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    without("pandas")
    from borealis_py.engine.sql.duck_connection import close_default

    close_default()
