"""What a replica's process does without: libraries and threads that others would bring along.

For processes of our own alone, and before anything else is loaded: who imports borealis_py keeps what it has.
"""

from __future__ import annotations

import os
import sys
from typing import Any

ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # numpy's: nothing here multiplies matrices
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's allocator gives memory back as it goes
}


class _Without:
    """A finder of modules that does not find some."""

    def __init__(self, finder: Any, names: frozenset[str]) -> None:
        self._finder, self._names = finder, names

    def find_spec(self, name: str, *more: Any) -> Any:
        return None if name in self._names else self._finder.find_spec(name, *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def without(*names: str) -> None:
    """To this process these modules are not installed, from now on: who looks for them goes on without."""
    sys.meta_path[:] = [_Without(finder, frozenset(names)) for finder in sys.meta_path]


def load_engine() -> None:
    """Load what runs queries, and leave no thread behind.

    pyarrow, DuckDB and PySpark load pandas wherever they find it, to know its values when they meet one: 30 MB of each
    process and 0.2 s of its start. DuckDB opens a connection of its own to name types.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    without("pandas")
    from borealis_py.engine.duck import close_default

    close_default()
