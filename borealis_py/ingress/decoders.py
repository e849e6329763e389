"""The decoder of a described foreign topic."""

from __future__ import annotations

from collections.abc import Mapping

from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.formats.avro import AvroFormat
from borealis_py.ingress.formats.avro_schema import UnusableSchema
from borealis_py.ingress.formats.base import RecordFormat
from borealis_py.ingress.formats.debezium import DebeziumFormat
from borealis_py.ingress.formats.delimited import CsvFormat
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.formats.json_schema import JsonSchemaFormat
from borealis_py.ingress.formats.key_rows import KeyRows
from borealis_py.ingress.formats.plain_text import TextFormat
from borealis_py.ingress.formats.protobuf import ProtobufFormat
from borealis_py.ingress.formats.registered import HEAD, RegisteredFormat
from borealis_py.ingress.heartbeat import RowCondition
from borealis_py.log.schema_registry import RegisteredSchema, SchemaRegistry
from borealis_py.query.errors import QueryError
from borealis_py.query.ingress_spec import IngressSpec

_ANY_RECORD = '{"type":"record","name":"Any","fields":[]}'


class _NoRegistry:
    """A registry that is not asked: for checks before anything is read."""

    trouble = ""

    def ask(self, schema_id: int) -> None:
        raise AssertionError(f"asked for schema {schema_id}")

    def close(self) -> None:
        pass


_NO_REGISTRY = _NoRegistry()


def check_format(source: str, spec: IngressSpec, columns: Mapping[str, str]) -> None:
    """Raises QueryError: a package that the topic's format needs is not installed, or its schema cannot be used."""
    format_for(source, spec, columns, _NO_REGISTRY)


def format_for(
    source: str, spec: IngressSpec, columns: Mapping[str, str], registry: SchemaRegistry | None
) -> RecordFormat:
    """Reads the records of the topic of a source.

    Args:
        columns: of its rows, with their types.
        registry: where schemas are; None: nowhere, and the topic needs none (`IngressSpec.needs_registry`).

    Raises:
        QueryError: a package that the format needs is not installed, or its schema cannot be used.
    """
    match spec.format:
        case "json":
            return JsonFormat(columns)
        case "csv":
            return CsvFormat(columns, spec.fields or tuple(columns), spec.delimiter)
        case "avro":
            return _avro(source, spec, columns, registry)
        case "protobuf":
            return _protobuf(source, spec, columns, registry)
        case "json-schema":
            return JsonSchemaFormat(columns)
        case "debezium":
            return DebeziumFormat(columns, spec.op)
        case "text":
            return TextFormat(columns)


def decoder_for(
    source: str,
    spec: IngressSpec,
    columns: Mapping[str, str],
    row_max_bytes: int,
    memory_bytes: int = 0,
    registry: SchemaRegistry | None = None,
) -> TopicDecoder:
    """Decodes the topic of a source.

    Args:
        columns: of the source, with their types.
        memory_bytes: limit of the engine that tells heartbeats from rows; 0: its default.
        registry: see `format_for`.

    Raises:
        QueryError: see `format_for`, or the heartbeat is no condition.
    """
    is_heartbeat = (
        None
        if spec.heartbeat is None
        else RowCondition(columns, spec.heartbeat, f"topic {source!r}", memory_bytes=memory_bytes)
    )
    form, keys = format_for(source, spec, columns, registry), KeyRows(columns, spec.key) if spec.key else None
    return TopicDecoder(form, spec.stime, spec.stime_unit, row_max_bytes, is_heartbeat, keys)


def _avro(source: str, spec: IngressSpec, columns: Mapping[str, str], registry: SchemaRegistry | None) -> RecordFormat:
    try:
        if spec.writer_schema is not None:
            return AvroFormat(columns, spec.writer_schema)
        AvroFormat(columns, _ANY_RECORD)
    except UnusableSchema as exc:
        raise QueryError(f"topic {source!r}: records cannot be read by writer_schema=: {exc}") from None
    except ImportError as exc:
        raise _missing(source, spec, "fastavro", "avro") from exc
    assert registry is not None

    def by(schema: RegisteredSchema) -> RecordFormat:
        return AvroFormat(columns, schema.text, [text for _, text in schema.references], HEAD)

    return RegisteredFormat(columns, registry, "AVRO", by)


def _protobuf(
    source: str, spec: IngressSpec, columns: Mapping[str, str], registry: SchemaRegistry | None
) -> RecordFormat:
    try:
        ProtobufFormat(columns, "")
    except ImportError as exc:
        raise _missing(source, spec, "protobuf", "protobuf") from exc
    assert registry is not None

    def by(schema: RegisteredSchema) -> RecordFormat:
        return ProtobufFormat(columns, schema.text, schema.references, HEAD)

    return RegisteredFormat(columns, registry, "PROTOBUF", by)


def _missing(source: str, spec: IngressSpec, package: str, extra: str) -> QueryError:
    return QueryError(
        f"topic {source!r}: format={spec.format!r} needs {package}, which is not installed here: "
        f"pip install 'borealis-py[{extra}]', on every machine that runs an ingress"
    )
