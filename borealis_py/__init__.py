"""Continuous queries that keep answering while inputs are missing, and end exactly right.

`App` to write queries, with `CSV`, `Avro` and others for the formats of topics; `read` and `subscribe` for their
results; `publisher` to feed them. README.md has the first steps.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from borealis_py.api import publisher as publisher
    from borealis_py.api import read as read
    from borealis_py.api import subscribe as subscribe
    from borealis_py.query import CSV as CSV
    from borealis_py.query import JSON as JSON
    from borealis_py.query import App as App
    from borealis_py.query import Avro as Avro
    from borealis_py.query import Debezium as Debezium
    from borealis_py.query import JSONSchema as JSONSchema
    from borealis_py.query import Protobuf as Protobuf
    from borealis_py.query import QueryError as QueryError
    from borealis_py.query import Text as Text

__version__ = "0.1.0"
__all__ = [
    "CSV",
    "JSON",
    "App",
    "Avro",
    "Debezium",
    "JSONSchema",
    "Protobuf",
    "QueryError",
    "Text",
    "publisher",
    "read",
    "subscribe",
]

# Imported when asked for: a Spark worker or a checker needs none of them.
_HOME = {
    "CSV": "borealis_py.query",
    "JSON": "borealis_py.query",
    "App": "borealis_py.query",
    "Avro": "borealis_py.query",
    "Debezium": "borealis_py.query",
    "JSONSchema": "borealis_py.query",
    "Protobuf": "borealis_py.query",
    "QueryError": "borealis_py.query",
    "Text": "borealis_py.query",
    "publisher": "borealis_py.api",
    "read": "borealis_py.api",
    "subscribe": "borealis_py.api",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
