"""The API for defining apps, streams and queries, and their description as a value (`AppSpec`). Pure: no engine, no
Kafka.
"""

from borealis_py.query.app import App
from borealis_py.query.errors import QueryError
from borealis_py.query.spec import AppSpec, QuerySpec
from borealis_py.query.stream import Framed, Stream, Windowed
from borealis_py.query.units import format_duration, parse_duration

__all__ = [
    "App",
    "AppSpec",
    "Framed",
    "QueryError",
    "QuerySpec",
    "Stream",
    "Windowed",
    "format_duration",
    "parse_duration",
]
