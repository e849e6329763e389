"""What a replica's process does without: threads and libraries that others would bring along when they are imported.

For processes of our own alone, and before anything else is loaded: who imports borealis_py keeps what it has.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec

ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # numpy's: nothing here multiplies matrices
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's allocator gives memory back as it goes
}


class _NoPandas:
    """A finder that finds no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


def load_engine() -> None:
    """Load what runs queries, and leave no thread and no pandas behind: 38 MB and 0.2 s of each process.

    pyarrow looks for pandas once, when it makes its first array; DuckDB opens a connection of its own to name types.
    """
    os.environ.update({name: value for name, value in ENVIRONMENT.items() if name not in os.environ})
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
    from borealis_py.engine.duck import close_default

    close_default()
