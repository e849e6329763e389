"""The decoder of a described foreign topic."""

from __future__ import annotations

from collections.abc import Mapping

from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.formats.avro import AvroFormat
from borealis_py.ingress.formats.avro_schema import ALONE, UnusableSchema, as_record
from borealis_py.ingress.formats.base import Paths, RecordFormat
from borealis_py.ingress.formats.debezium import DebeziumFormat
from borealis_py.ingress.formats.delimited import CsvFormat
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.formats.json_schema import JsonSchemaFormat
from borealis_py.ingress.formats.plain_text import TextFormat
from borealis_py.ingress.formats.protobuf import ProtobufFormat
from borealis_py.ingress.formats.record_keys import IntKeys, JsonKeys, KeyFormat, RecordKeys, TextKeys
from borealis_py.ingress.formats.registered import HEAD, RegisteredFormat
from borealis_py.ingress.heartbeat import RowCondition
from borealis_py.ingress.only_values import OnlyValues
from borealis_py.ingress.sql_times import SqlTimes
from borealis_py.log.schema_registry import RegisteredSchema, SchemaRegistry
from borealis_py.query.errors import QueryError
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.query.names import STIME

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
    if spec.key:
        _keys(source, spec, columns, _NO_REGISTRY)


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
    if spec.stime_path:
        columns = {**columns, STIME: "json"}
        spec = spec.model_copy(update={"stime": None, "paths": {**spec.paths, STIME: spec.stime_path}})
    match spec.format:
        case "json":
            return JsonFormat(columns, spec.paths)
        case "csv":
            return CsvFormat(columns, spec.fields or tuple(columns), spec.delimiter, spec.nulls)
        case "avro":
            return _avro(source, spec, columns, registry)
        case "protobuf":
            return _protobuf(source, "format='protobuf'", columns, registry, spec.paths)
        case "json-schema":
            return JsonSchemaFormat(columns, spec.paths)
        case "debezium":
            return DebeziumFormat(columns, spec.op, spec.decimals, spec.paths)
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
    sql_times = (
        None
        if spec.stime_sql is None
        else SqlTimes(columns, spec.stime_sql, f"topic {source!r}", memory_bytes=memory_bytes)
    )
    form = format_for(source, spec, columns, registry)
    read = {**columns, STIME: "json"} if spec.stime_path else columns
    keys = RecordKeys(read, spec.key, _keys(source, spec, columns, registry)) if spec.key else None
    only = OnlyValues.of(spec)
    return TopicDecoder(
        form,
        spec.stime,
        spec.stime_unit,
        row_max_bytes,
        is_heartbeat,
        keys,
        spec.stime_format,
        only,
        spec.paths,
        sql_times,
    )


def _keys(source: str, spec: IngressSpec, columns: Mapping[str, str], registry: SchemaRegistry | None) -> KeyFormat:
    """Reads the keys of the topic of a source."""
    mine = {name: columns[name] for name in spec.key}
    fields = {name: spec.paths[name][-1:] for name in spec.key if name in spec.paths}
    match spec.key_format:
        case "text":
            return TextKeys(mine)
        case "int":
            return IntKeys(mine)
        case "avro":
            return _avro_keys(source, mine, registry, fields)
        case "protobuf":
            return _protobuf(source, "key_format='protobuf'", mine, registry, fields)
        case other:
            return JsonKeys(mine, fields, or_text=other is None, framed=other == "json-schema")


def _avro_keys(
    source: str, columns: Mapping[str, str], registry: SchemaRegistry | None, fields: Paths
) -> RegisteredFormat:
    def by(schema: RegisteredSchema) -> RecordFormat:
        references = [text for _, text in schema.references]
        value = as_record(schema.text) if len(columns) == 1 else None
        if value is None:
            return AvroFormat(columns, schema.text, references, HEAD, fields)
        return AvroFormat(columns, value, references, HEAD, dict.fromkeys(columns, (ALONE,)))

    _check_avro(source, "key_format='avro'")
    assert registry is not None
    return RegisteredFormat(columns, registry, "AVRO", by)


def _avro(source: str, spec: IngressSpec, columns: Mapping[str, str], registry: SchemaRegistry | None) -> RecordFormat:
    _check_avro(source, "format='avro'")
    if spec.writer_schema is not None:
        try:
            return AvroFormat(columns, spec.writer_schema, paths=spec.paths)
        except UnusableSchema as exc:
            raise QueryError(f"topic {source!r}: records cannot be read by Avro(writer_schema=...): {exc}") from None
    assert registry is not None

    def by(schema: RegisteredSchema) -> RecordFormat:
        return AvroFormat(columns, schema.text, [text for _, text in schema.references], HEAD, spec.paths)

    return RegisteredFormat(columns, registry, "AVRO", by)


def _check_avro(source: str, what: str) -> None:
    """Raises QueryError: what reads Avro is not installed."""
    try:
        AvroFormat({}, _ANY_RECORD)
    except ImportError as exc:
        raise _missing(source, what, "fastavro", "avro") from exc


def _protobuf(
    source: str, what: str, columns: Mapping[str, str], registry: SchemaRegistry | None, paths: Paths
) -> RecordFormat:
    try:
        ProtobufFormat(columns, "")
    except ImportError as exc:
        raise _missing(source, what, "protobuf", "protobuf") from exc
    assert registry is not None

    def by(schema: RegisteredSchema) -> RecordFormat:
        return ProtobufFormat(columns, schema.text, schema.references, HEAD, paths)

    return RegisteredFormat(columns, registry, "PROTOBUF", by)


def _missing(source: str, what: str, package: str, extra: str) -> QueryError:
    return QueryError(
        f"topic {source!r}: {what} needs {package}, which is not installed here: "
        f"pip install 'borealis-py[{extra}]', on every machine that runs an ingress"
    )
