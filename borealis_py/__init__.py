"""borealis-py: continuous queries on Kafka and Spark that keep answering while inputs are missing, and end exactly right.

The names below are what a user imports; each is loaded when first asked for, so that importing a part stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from borealis_py.query import App as App
    from borealis_py.query import QueryError as QueryError

_PUBLIC = {"App": "borealis_py.query", "QueryError": "borealis_py.query"}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'borealis_py' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
