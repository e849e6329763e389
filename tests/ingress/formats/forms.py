"""What each column type takes of each format, and what it refuses: docs/reference/forms.md is made of it.

`python -m tests.ingress.formats.forms` writes the page; a test compares them, so each line of it is what the code does.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from borealis_py.ingress.formats.avro import AvroFormat
from borealis_py.ingress.formats.base import RecordFormat
from borealis_py.ingress.formats.debezium import DebeziumFormat
from borealis_py.ingress.formats.delimited import CsvFormat
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.formats.protobuf import ProtobufFormat
from borealis_py.types.arrow import said

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "forms.md"
HEAD = """# Forms of values

What a column of each type takes of records of other programs, and what it refuses: such a record is a
[dead letter](../how-to/bad-input.md) with this reason. Each line is tried by a test, and this page is made of what came
out. A value in a result has [one form](types.md), whatever it was read from. Null is a value of every type.
"""
TEXT, TIME = '"x"', '"2026-11-21T15:25:26+01:00"'
IN_JSON: dict[str, list[str]] = {
    "string": ['"tea"', "7", "true", "[1]"],
    "int64": ["7", "7.5", '"7"', "9223372036854775808", "true", TEXT],
    "double": ["7", "0.5", '"0.5"', "1e999", TEXT],
    "bool": ["true", "1", '"true"'],
    "decimal(12,2)": ["1.5", '"1.50"', "7", "1.005", "12345678901", TEXT, "true"],
    "timestamp": [TIME, '"2026-11-21 15:25"', "1795274726", '"21.11.2026"', "1.5"],
    "date": ['"2026-11-21"', '"21.11.2026"', TIME, "20778"],
    "binary": ['"AP8="', '"%"', "7"],
    "json": ['{"a": 1.10}', "[1, 2]", TEXT, "1e400"],
}
IN_CSV: dict[str, list[str]] = {
    "string": ["tea", "7"],
    "int64": ["7", "7.5", "1_000", "9223372036854775808", "NA"],
    "double": ["0.5", "1e3", "nan", "NA"],
    "bool": ["true", "0", "yes"],
    "decimal(12,2)": ["1.5", "1.005", "12345678901", "1,5", "NA"],
    "timestamp": ["2026-11-21T15:25:26+01:00", "2026-11-21", "1795274726", "NA"],
    "date": ["2026-11-21", "21.11.2026", "NA"],
    "binary": ["AP8=", "%"],
    "json": ['{"a":1}', "{", "NA"],
}
BYTES = {"type": "bytes"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
IN_AVRO: dict[str, list[tuple[str, Any, Any]]] = {
    "string": [("string", "string", "tea"), ("enum", {"type": "enum", "name": "E", "symbols": ["A"]}, "A"),
               ("uuid, fixed", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, bytes(16)),
               ("long", "long", 7), ("bytes", "bytes", b"\1")],
    "int64": [("long", "long", 7), ("timestamp-millis", {"type": "long", "logicalType": "timestamp-millis"}, 5),
              ("double", "double", 7.5), ("string", "string", "7")],
    "double": [("double", "double", 0.5), ("long", "long", 7), ("double", "double", float("nan"))],
    "bool": [("boolean", "boolean", True), ("int", "int", 1)],
    "decimal(12,2)": [("decimal of bytes", MONEY, b"\x69"), ("string", "string", "1.5"), ("long", "long", 7),
                      ("decimal of scale 3", {**MONEY, "scale": 3}, b"\x69"), ("bytes", "bytes", b"\1"),
                      ("double", "double", 0.5)],
    "timestamp": [("timestamp-micros", {"type": "long", "logicalType": "timestamp-micros"}, 5),
                  ("string", "string", "2026-11-21T15:25:26Z"), ("long", "long", 5),
                  ("local-timestamp-millis", {"type": "long", "logicalType": "local-timestamp-millis"}, 5)],
    "date": [("date", {"type": "int", "logicalType": "date"}, 20_778), ("string", "string", "2026-11-21"),
             ("int", "int", 20_778)],
    "binary": [("bytes", "bytes", b"\0\xff"), ("string", "string", "AP8=")],
    "json": [("array of decimals", {"type": "array", "items": MONEY}, [b"\x69"]),
             ("map of bytes", {"type": "map", "values": "bytes"}, {"k": b"\0\xff"}),
             ("array of doubles", {"type": "array", "items": "double"}, [float("nan")])],
}  # fmt: skip
IN_PROTOBUF: dict[str, list[tuple[str, Any]]] = {
    "string": [("string", "tea"), ("int64", 7), ("bytes", b"\1")],
    "int64": [("int64", 7), ("uint64", 2**64 - 1), ("double", 7.5), ("string", "7")],
    "double": [("double", 0.5), ("float", 0.5), ("int32", 7), ("double", float("nan"))],
    "bool": [("bool", True), ("int32", 1)],
    "decimal(12,2)": [("string", "1.5"), ("string", "1.005"), ("int64", 7), ("double", 0.5), ("bytes", b"\1")],
    "timestamp": [("google.protobuf.Timestamp", 5), ("string", "2026-11-21T15:25:26Z"), ("int64", 5)],
    "date": [("string", "2026-11-21"), ("int32", 20_778)],
    "binary": [("bytes", b"\0\xff"), ("string", "AP8=")],
    "json": [("repeated int64", [1, 2]), ("google.protobuf.Timestamp", 5), ("string", "x"),
             ("repeated double", [float("nan")])],
}  # fmt: skip
DECIMAL = {"field": "c", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
IN_DEBEZIUM: dict[str, list[tuple[str, dict[str, Any] | None, Any]]] = {
    "decimal(12,2)": [("Decimal", DECIMAL, "1234"), ("string", {"field": "c", "type": "string"}, "1234"),
                      ("none", None, "1.50"), ("none", None, 1.5), ("none", None, "1234"), ("none", None, "AJY="),
                      ("bytes", {"field": "c", "type": "bytes"}, "AJY=")],
    "timestamp": [("ZonedTimestamp", {"field": "c", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
                   "2026-11-21T15:25:26Z"),
                  ("Timestamp", {"field": "c", "type": "int64", "name": "io.debezium.time.Timestamp"}, 5),
                  ("none", None, 5)],
    "date": [("Date", {"field": "c", "type": "int32", "name": "io.debezium.time.Date"}, 20_778),
             ("none", None, 20_778)],
    "binary": [("bytes", {"field": "c", "type": "bytes"}, "AP8="),
               ("string", {"field": "c", "type": "string"}, "00ff")],
    "json": [("array of Decimal", {"field": "c", "type": "array", "items": DECIMAL}, ["AJY="])],
}  # fmt: skip


def _written(schema: Any, value: Any) -> bytes:
    """A value by the type that lies under its meaning."""
    import fastavro

    def plain(one: Any) -> Any:
        if not isinstance(one, dict):
            return one
        return {k: plain(v) for k, v in one.items() if k not in ("logicalType", "scale", "precision")}

    out = io.BytesIO()
    record = {"type": "record", "name": "R", "fields": [{"name": "c", "type": plain(schema)}]}
    fastavro.schemaless_writer(out, fastavro.parse_schema(record), {"c": value})
    return out.getvalue()


def outcome(form: RecordFormat, value: bytes) -> tuple[bool, str]:
    """Whether a record is a row, and its column in JSON; or why it is none."""
    found = form.rows([value])
    if found.bad:
        return False, found.bad[0][1]
    (one,) = said(found.rows.column("c"))
    return True, msgspec.json.encode(one).decode()


Case = tuple[str, str, RecordFormat, bytes]
"""A column type, the value as the page shows it, the format, the record."""


def cases() -> Iterator[tuple[str, str, list[Case]]]:
    """Of each table its title, what its second column is, and its lines."""
    yield (
        "JSON, JSON Schema, and tables in `.jsonl`",
        "value",
        [(k, f"`{v}`", JsonFormat({"c": k}), f'{{"c":{v}}}'.encode()) for k, vs in IN_JSON.items() for v in vs],
    )
    yield (
        "CSV",
        "value",
        [
            (k, f"`{v}`", CsvFormat({"c": k}, ("c",), ","), b'"' + v.replace('"', '""').encode() + b'"')
            for k, vs in IN_CSV.items()
            for v in vs
        ],
    )
    yield (
        "Avro",
        "type of the field: value",
        [
            (
                k,
                f"{what}: `{v!r}`",
                AvroFormat({"c": k}, json.dumps({"type": "record", "name": "R", "fields": [{"name": "c", "type": t}]})),
                _written(t, v),
            )
            for k, vs in IN_AVRO.items()
            for what, t, v in vs
        ],
    )
    yield (
        "Protobuf",
        "type of the field: value",
        [(k, f"{t}: `{v!r}`", *_message(k, t, v)) for k, vs in IN_PROTOBUF.items() for t, v in vs],
    )
    yield (
        "Debezium in JSON",
        "by the schema in the record: value",
        [(k, f"{w}: `{json.dumps(v)}`", DebeziumFormat({"c": k}, None), _change(t, v)) for k, w, t, v in _changes()],
    )


def _message(kind: str, written: str, value: Any) -> tuple[RecordFormat, bytes]:
    """What reads a message with one field, and a record of it: the index of the first message of a file, and the
    message."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

    repeated, name = written.startswith("repeated "), written.removeprefix("repeated ")
    file = descriptor_pb2.FileDescriptorProto(name="forms.proto", package="forms", syntax="proto3")
    field = file.message_type.add(name="R").field.add(name="c", number=1)
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    pool = descriptor_pool.DescriptorPool()
    if "." in name:
        file.dependency.append("google/protobuf/timestamp.proto")
        pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
        field.type, field.type_name = field.TYPE_MESSAGE, f".{name}"
    else:
        field.type = field.Type.Value(f"TYPE_{name.upper()}")
    pool.AddSerializedFile(file.SerializeToString())
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("forms.R"))()
    if repeated:
        made.c.extend(value)
    elif "." in name:
        made.c.FromSeconds(value)
    else:
        made.c = value
    form = ProtobufFormat({"c": kind}, base64.b64encode(file.SerializeToString()).decode())
    return form, b"\0" + made.SerializeToString()


def _changes() -> Iterator[tuple[str, str, dict[str, Any] | None, Any]]:
    for kind, some in IN_DEBEZIUM.items():
        for what, told, value in some:
            yield kind, what, told, value


def _change(told: dict[str, Any] | None, value: Any) -> bytes:
    change = {"op": "c", "before": None, "after": {"c": value}}
    if told is None:
        return json.dumps(change).encode()
    state = {"field": "after", "type": "struct", "fields": [told]}
    return json.dumps({"schema": {"type": "struct", "fields": [state]}, "payload": change}).encode()


def page() -> str:
    """The page."""
    parts = [HEAD]
    for title, what, lines in cases():
        rows = []
        for kind, shown, form, record in lines:
            good, found = outcome(form, record)
            row = [kind, shown, f"`{found}`" if good else "", "" if good else found]
            rows.append(f"| {' | '.join(map(_cell, row))} |\n")
        head = f"## {title}\n\n| column | {what} | is read as | or refused |\n|---|---|---|---|\n"
        parts.append(head + "".join(rows))
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(page())
