"""The API for defining apps, streams and queries, and their description as a value (`AppSpec`). Pure: no engine, no
Kafka.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from borealis_py.query.app import App
    from borealis_py.query.errors import QueryError
    from borealis_py.query.formats import CSV, JSON, Avro, Debezium, JSONSchema, Protobuf, Text
    from borealis_py.query.spec import AppSpec, QuerySpec
    from borealis_py.query.stream import Framed, Stream, Windowed
    from borealis_py.query.units import format_duration, parse_duration

__all__ = [
    "CSV",
    "JSON",
    "App",
    "AppSpec",
    "Avro",
    "Debezium",
    "Framed",
    "JSONSchema",
    "Protobuf",
    "QueryError",
    "QuerySpec",
    "Stream",
    "Text",
    "Windowed",
    "format_duration",
    "parse_duration",
]

# Imported when asked for: who reads an app's description builds none.
_HOME = {
    "CSV": "formats",
    "JSON": "formats",
    "App": "app",
    "AppSpec": "spec",
    "Avro": "formats",
    "Debezium": "formats",
    "Framed": "stream",
    "JSONSchema": "formats",
    "Protobuf": "formats",
    "QueryError": "errors",
    "QuerySpec": "spec",
    "Stream": "stream",
    "Text": "formats",
    "Windowed": "stream",
    "format_duration": "units",
    "parse_duration": "units",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"borealis_py.query.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
