"""The decoder of a described foreign topic."""

from __future__ import annotations

from collections.abc import Mapping

from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.formats.base import RecordFormat
from borealis_py.ingress.formats.delimited import CsvFormat
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.formats.plain_text import TextFormat
from borealis_py.ingress.heartbeat import RowCondition
from borealis_py.query.ingress_spec import IngressSpec


def format_for(spec: IngressSpec, columns: Mapping[str, str]) -> RecordFormat:
    """Reads the records of a topic. `columns`: of its rows, with their types."""
    match spec.format:
        case "json":
            return JsonFormat(columns)
        case "csv":
            return CsvFormat(columns, spec.fields or tuple(columns), spec.delimiter)
        case "text":
            return TextFormat(columns)


def decoder_for(
    source: str, spec: IngressSpec, columns: Mapping[str, str], row_max_bytes: int, memory_bytes: int = 0
) -> TopicDecoder:
    """Decodes the topic of a source.

    Args:
        columns: of the source, with their types.
        memory_bytes: limit of the engine that tells heartbeats from rows; 0: its default.

    Raises:
        QueryError: the heartbeat is no condition.
    """
    is_heartbeat = (
        None
        if spec.heartbeat is None
        else RowCondition(columns, spec.heartbeat, f"topic {source!r}", memory_bytes=memory_bytes)
    )
    return TopicDecoder(format_for(spec, columns), spec.stime, spec.stime_unit, row_max_bytes, is_heartbeat)
