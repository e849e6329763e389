"""What the schemas of a registry say of a sample: the columns that its fields can be, and its records as objects.

A schema of JSON may leave fields open: those of which it says nothing are found in the records. Blocking: it waits for
the registry.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from borealis_py.ingress.decoders import format_for
from borealis_py.ingress.formats import protobuf
from borealis_py.ingress.formats.avro_schema import AvroType, UnusableSchema, WriterSchema
from borealis_py.ingress.formats.registered import HEAD, id_of, is_framed
from borealis_py.log.base import Record
from borealis_py.log.schema_registry import NoSuchSchema, RegisteredSchema, SchemaRegistry
from borealis_py.observe import json_schema_fields
from borealis_py.observe.topic_formats import SampledFormat
from borealis_py.query.errors import QueryError
from borealis_py.query.ingress_spec import FormatName, IngressSpec
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START, check_columns
from borealis_py.types.spelling import PRECISION_MAX

WAIT_S = 6.0
"""How long all answers of a registry may take together: an id is unknown after 2 s."""
LOOK_S = 0.05
FORMATS: Mapping[str, FormatName] = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json-schema"}
"""By the registry's word."""


class SchemasUnknown(Exception):
    """The registry does not say what the sample is. The message says why."""


def by_registry(
    records: Sequence[Record],
    registry: SchemaRegistry,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> SampledFormat:
    """The format of a sample whose values begin with the ids of schemas.

    Raises:
        SchemasUnknown: the registry does not answer, knows none of the ids, or they are of several kinds.
        QueryError: a package that the format needs is not installed.
    """
    heads = Counter(head for record in records if is_framed(head := (record.value or b"")[:HEAD]))
    schemas = _asked([id_of(head) for head, _ in heads.most_common()], registry, monotonic, sleep)
    kinds = sorted({schema.kind for schema in schemas.values()})
    if len(kinds) != 1 or kinds[0] not in FORMATS:
        raise SchemasUnknown(f"its schemas are of {' and '.join(kinds)}, and no app reads that from one topic")
    values = {id_: [r.value or b"" for r in records if r.value and id_of(r.value[:HEAD]) == id_] for id_ in schemas}
    spec = IngressSpec(topic="sample", format=FORMATS[kinds[0]], lateness_us=0)
    seen: dict[str, set[str]] = {}
    for schema_id, schema in schemas.items():
        for name, found in _fields(schema, values[schema_id]).items():
            seen.setdefault(name, set()).update(found)
    if spec.format == "json-schema":
        seen = {name: found for name, found in seen.items() if found}
    types: dict[str, tuple[str | None, str]] = {name: _column(name, found) for name, found in seen.items()}
    columns = {name: kind for name, (kind, _) in types.items() if kind is not None}
    form = format_for("sample", spec, columns, _Known(schemas, registry))
    present = [i for i, record in enumerate(records) if record.value is not None]
    raw = [records[i].value or b"" for i in present]
    form.ready(raw)
    made = form.rows(raw)
    objects: list[Mapping[str, Any] | None] = [None] * len(records)
    rows = made.rows.to_pylist() if columns else [{}] * len(made.at)  # a batch without columns has lost its length
    for at, row in zip(made.at, rows, strict=True):
        objects[present[at]] = {name: _plain(value) for name, value in row.items()}
    if spec.format == "json-schema":
        both = zip(objects, records, strict=True)
        objects = [None if one is None else {**_left_open(r.value or b"", types), **one} for one, r in both]
    return SampledFormat(spec.format, objects, types=types)


class _Known:
    """A registry that has answered: what it did not tell in time, it does not know."""

    def __init__(self, schemas: Mapping[int, RegisteredSchema], registry: SchemaRegistry) -> None:
        self._schemas = schemas
        self.trouble = registry.trouble

    def ask(self, schema_id: int) -> RegisteredSchema | NoSuchSchema:
        return self._schemas.get(schema_id) or NoSuchSchema("it has not told it")

    def close(self) -> None:
        """Nothing is open."""


def _asked(
    ids: Sequence[int], registry: SchemaRegistry, monotonic: Callable[[], float], sleep: Callable[[float], None]
) -> dict[int, RegisteredSchema]:
    deadline = monotonic() + WAIT_S
    answers = {schema_id: registry.ask(schema_id) for schema_id in ids}
    while any(answer is None for answer in answers.values()) and monotonic() < deadline:
        sleep(LOOK_S)
        answers = {i: registry.ask(i) if answer is None else answer for i, answer in answers.items()}
    found = {i: answer for i, answer in answers.items() if isinstance(answer, RegisteredSchema)}
    if not found:
        told = [answer.why for answer in answers.values() if isinstance(answer, NoSuchSchema)]
        why = registry.trouble or (f"it does not know them: {told[0]}" if told else "it has not answered")
        raise SchemasUnknown(f"schema {', '.join(map(str, ids[:5]))}: {why}")
    return found


def _fields(schema: RegisteredSchema, values: Sequence[bytes]) -> Mapping[str, Iterable[str]]:
    """The column types that the fields of these values may have; nothing, if they cannot be read by this schema."""
    try:
        if schema.kind == "JSON":
            return json_schema_fields.fields_of(schema.text, schema.references)
        found = (
            WriterSchema(schema.text, [text for _, text in schema.references]).fields
            if schema.kind == "AVRO"
            else protobuf.fields_of(schema.text, schema.references, values, HEAD)
        )
        return {name: [_kind(branch) for branch in branches] for name, branches in found.items()}
    except (UnusableSchema, json_schema_fields.UnreadableSchema):
        return {}


def _left_open(value: bytes, types: Mapping[str, object]) -> Mapping[str, Any]:
    """The fields of an object of which its schema says nothing."""
    found = msgspec.json.decode(value[HEAD:])
    return {name: one for name, one in found.items() if name not in types}


def _column(name: str, kinds: set[str]) -> tuple[str | None, str]:
    """The type of a column that holds a field of all these schemas, or None and why there is none."""
    try:
        check_columns([name], "a schema", (STIME, WINDOW_START, WINDOW_END))
    except QueryError as exc:
        return None, str(exc).partition(": ")[2] or str(exc)
    if kinds == {"int64", "double"}:
        return "double", ""
    if len(kinds) == 1:
        return next(iter(kinds)), ""
    return None, f"its values are of several types: {', '.join(sorted(kinds))}" if kinds else "it is always null"


def _kind(branch: AvroType) -> str:
    if branch.kind in ("int", "long"):
        if branch.logical.startswith("timestamp-"):
            return "timestamp"
        return "date" if branch.logical == "date" else "int64"
    if branch.kind == "fixed" and branch.logical == "uuid":
        return "string"
    if branch.kind in ("bytes", "fixed"):
        decimal = branch.logical == "decimal" and 0 <= branch.scale <= PRECISION_MAX
        return f"decimal({PRECISION_MAX},{branch.scale})" if decimal else "binary"
    plain = {"string": "string", "enum": "string", "boolean": "bool", "float": "double", "double": "double"}
    return plain.get(branch.kind, "json")


def _plain(value: object) -> object:
    """A value as the survey takes it: a time in microseconds since 1970."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1_000_000)
    return value
