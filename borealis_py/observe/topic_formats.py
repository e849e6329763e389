"""Recognises the format of a sample of a foreign topic, and reads its records as objects. Pure."""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from borealis_py.client.csvlines import split_line
from borealis_py.ingress.formats.connect_schema import DAYS, DECIMAL, ConnectType, row_types, schema_of
from borealis_py.log.base import Record
from borealis_py.types.spelling import PRECISION_MAX
from borealis_py.types.values import NUMBER, WHOLE

CONFLUENT_MAGIC = 0
"""First byte of a value whose schema is in a registry; its schema's id follows in four bytes."""
REGISTERED = "avro or protobuf"
"""What else is behind the id of a schema: only the registry can tell."""
IDS_SHOWN = 5
JSON_SCHEMA = "json-schema"
HEAD = 5
"""Bytes before such a record."""
DELIMITERS = ",;\t|"
MOSTLY = 0.95
"""This part of the lines must have the same number of values."""
_WHOLE_DIGITS_MAX = 18
"""Longer whole numbers may not fit an int64."""
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class SampledFormat:
    """The format of a sample. `name`: as `App.topic` takes it, or what it looks like if none reads it. `objects`: of
    each record, its fields; None: it has none. `options`: of the format, by name. `types`: where schemas say it, the
    column type of each field, or None and why it can be no column; what they do not name, objects show."""

    name: str
    objects: Sequence[Mapping[str, Any] | None]
    options: Mapping[str, Any] = field(default_factory=dict)
    types: Mapping[str, tuple[str | None, str]] | None = None


def recognised(records: Sequence[Record]) -> SampledFormat:
    """The format of a sample."""
    objects = [_object(record.value) for record in records]
    if any(one is not None for one in objects):
        changes = [None if one is None else _change(one) for one in objects]
        some = sum(one is not None for one in changes)
        if some >= MOSTLY * sum(one is not None for one in objects):
            return SampledFormat("debezium", changes, types=_change_types(records) or None)
        return SampledFormat("json", objects)
    values = [record.value for record in records if record.value]
    nothing = [None] * len(records)
    if not values:
        return SampledFormat("nothing: no records" if not records else "nothing: no values", nothing)
    if all(value[0] == CONFLUENT_MAGIC and len(value) > 5 for value in values):
        rest = [None if not record.value else _object(record.value[HEAD:]) for record in records]
        if any(one is not None for one in rest):
            return SampledFormat(JSON_SCHEMA, rest)
        ids = sorted({int.from_bytes(value[1:HEAD]) for value in values})
        shown = ", ".join(map(str, ids[:IDS_SHOWN])) + (", ..." if len(ids) > IDS_SHOWN else "")
        return SampledFormat(f"{REGISTERED}, by schema {shown} of a registry", nothing)
    texts = [_text(record.value) for record in records]
    if None in [text for text, record in zip(texts, records, strict=True) if record.value]:
        return SampledFormat("binary", nothing)
    return _delimited(texts) or SampledFormat("text", [None if text is None else {"line": text} for text in texts])


def in_registry(form: SampledFormat) -> bool:
    """Whether a registry has the schemas of this sample, so that it can say more of it."""
    return form.name == JSON_SCHEMA or form.name.startswith(REGISTERED)


def _object(value: bytes | None) -> Mapping[str, Any] | None:
    try:
        found = msgspec.json.decode((value or b"").removeprefix(BOM_UTF8))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _change(event: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The values after a change of a database's row, or before a delete, as Debezium tells it; None: it is none."""
    found = event.get("payload", event)
    if not isinstance(found, dict) or not found.keys() >= {"op", "before", "after", "source"}:
        return None
    state = found["before"] if found["op"] == "d" else found["after"]
    return state if isinstance(state, dict) else None


def _change_types(records: Sequence[Record]) -> dict[str, tuple[str | None, str]]:
    """Of changes that bring their schema, the types of fields whose JSON does not show it: the newest schema counts."""
    found: dict[str, tuple[str | None, str]] = {}
    schemas = dict.fromkeys(schema for record in records if (schema := schema_of(record.value or b"")) is not None)
    for schema in schemas:
        for name, told in row_types(schema, "after").items():
            kind = _type_of(told)
            if kind is not None:
                found[name] = (kind, "")
    return found


def _type_of(told: ConnectType) -> str | None:
    if told.name == DECIMAL and told.scale is not None and 0 <= told.scale <= PRECISION_MAX:
        precision = PRECISION_MAX if told.precision is None else told.precision
        return f"decimal({min(PRECISION_MAX, max(1, precision, told.scale))},{told.scale})"
    if told.name in DAYS:
        return "date"
    return "binary" if told.kind == "bytes" and not told.name else None


def _text(value: bytes | None) -> str | None:
    try:
        text = (value or b"").removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError:
        return None
    return text if value and text.replace("\t", "").replace("\n", "").replace("\r", "").isprintable() else None


def _delimited(texts: Sequence[str | None]) -> SampledFormat | None:
    """CSV, if nearly all lines have the same number of values; None: they have not."""
    lines = [text.rstrip("\r\n") for text in texts if text is not None]
    if len(lines) < 2 or any("\n" in line for line in lines):
        return None
    for delimiter in DELIMITERS:
        width, count = Counter(len(_values(line, delimiter)) for line in lines).most_common(1)[0]
        if width > 1 and count >= MOSTLY * len(lines):
            break
    else:
        return None
    names = [f"c{i}" for i in range(1, width + 1)]
    rows = [None if text is None else _values(text.rstrip("\r\n"), delimiter) for text in texts]
    usable = [row for row in rows if row is not None and len(row) == width]
    readers = [_reader([row[i] for row in usable]) for i in range(width)]
    objects = [
        dict(zip(names, (read(one) for read, one in zip(readers, row, strict=True)), strict=True))
        if row is not None and len(row) == width
        else None
        for row in rows
    ]
    return SampledFormat("csv", objects, {"fields": names, "delimiter": delimiter})


def _values(line: str, delimiter: str) -> list[str]:
    """Of a line; none: it is no CSV."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return split_line(line, delimiter)[0]
    except csv.Error:
        return []


def _reader(texts: Sequence[str]) -> Any:
    """Reads a value as the type that all values of its column have; an empty one is null."""
    some = [text for text in texts if text]
    if all(WHOLE.fullmatch(text) and len(text.lstrip("+-")) <= _WHOLE_DIGITS_MAX for text in some):
        return lambda text: int(text) if text else None
    if all(map(NUMBER.fullmatch, some)):
        return lambda text: float(text) if text else None
    if all(text.lower() in _TRUTH for text in some):
        return lambda text: _TRUTH[text.lower()] if text else None
    return lambda text: text or None
