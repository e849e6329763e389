"""What `inspect` makes of records whose schemas are in a registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from decimal import Decimal

import pytest

pytest.importorskip("fastavro", reason="fastavro is not installed: pip install 'borealis-py[avro]'")
pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install 'borealis-py[protobuf]'")

from google.protobuf import descriptor_pb2, timestamp_pb2

from borealis_py.log.base import Feed, Record
from borealis_py.log.schema_registry import RegisteredSchema
from borealis_py.observe.registered_sample import WAIT_S, SchemasUnknown, by_registry
from borealis_py.observe.topic_survey import TopicSurvey, survey
from tests.support.schema_registry import ToldRegistry, avro_record, avro_schema, framed

AT_MS = 1_700_000_000_000
FIELD = descriptor_pb2.FieldDescriptorProto


class Clock:
    """Passes while somebody sleeps."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def surveyed(values: Sequence[bytes | None], registry: ToldRegistry) -> TopicSurvey:
    records = [Record(Feed("prod.orders"), i, AT_MS + 100 * i, None, value) for i, value in enumerate(values)]
    clock = Clock()
    return survey("prod.orders", 2, records, by_registry(records, registry, clock.monotonic, clock.sleep))


def test_avros_fields_are_those_of_the_schemas_and_the_call_can_be_pasted() -> None:
    first = avro_schema(
        shop="string", euros=["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
        at={"type": "long", "logicalType": "timestamp-millis"}, n="int", many={"type": "array", "items": "int"},
        odd=["string", "int"], nothing="null",
    )  # fmt: skip
    second = avro_schema(shop="string", n="double", day={"type": "int", "logicalType": "date"}, at={
        "type": "long", "logicalType": "timestamp-micros"})  # fmt: skip
    registry = ToldRegistry({7: RegisteredSchema("AVRO", first), 9: RegisteredSchema("AVRO", second)}, complete=True)
    row = {"shop": "a", "euros": Decimal("1.50"), "at": AT_MS - 2_000, "n": 3, "many": [1], "odd": "x", "nothing": None}
    values = [
        framed(7, avro_record(first, {**row, "euros": None})),
        framed(7, avro_record(first, row)),
        framed(9, avro_record(second, {"shop": "b", "n": 1.5, "day": 5, "at": (AT_MS - 2_000) * 1_000})),
        framed(8, b"unknown"),
        framed(7, b"\xff"),
        None,
    ]
    seen = surveyed(values, registry)
    assert (seen.format, seen.records, seen.unusable, seen.stime) == ("avro", 6, 3, "at")
    assert {one.name: one.type for one in seen.fields} == {
        "shop": "string", "euros": "decimal(38,2)", "at": "timestamp", "n": "double", "many": "json", "odd": None,
        "nothing": None, "day": "date",
    }  # fmt: skip
    assert [(one.null, one.why) for one in seen.fields if one.name in ("euros", "odd", "nothing")] == [
        (2, ""), (0, "its values are of several types: int64, string"), (0, "it is always null"),
    ]  # fmt: skip
    assert seen.lateness is not None
    assert 2_000_000 <= seen.lateness.p50_us <= 2_300_000
    assert '"euros": "decimal(38,2)"' in seen.call()
    assert 'format="avro", stime="at"' in seen.call()


def test_protobufs_fields_are_those_of_the_messages_that_were_sent() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    for name, fields in (
        ("Unused", [("never", FIELD.TYPE_INT32, None)]),
        ("Order", [("n", FIELD.TYPE_INT32, None), ("shop", FIELD.TYPE_STRING, None),
                   ("at", FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp")]),
    ):  # fmt: skip
        message = file.message_type.add(name=name)
        for i, (field, kind, of) in enumerate(fields, 1):
            message.field.add(name=field, number=i, type=kind, label=FIELD.LABEL_OPTIONAL, type_name=of)
    text = base64.b64encode(file.SerializeToString()).decode()
    at = timestamp_pb2.Timestamp(seconds=AT_MS // 1_000).SerializeToString()
    order = b"\x08\x05" + b"\x12\x01a" + b"\x1a" + bytes([len(at)]) + at
    seen = surveyed([framed(3, b"\x02\x02" + order)], ToldRegistry({3: RegisteredSchema("PROTOBUF", text)}))
    assert (seen.format, seen.unusable, seen.stime) == ("protobuf", 0, "at")
    assert {one.name: one.type for one in seen.fields} == {"n": "int64", "shop": "string", "at": "timestamp"}


def test_json_fields_are_those_of_the_schemas_and_what_they_leave_open_is_what_the_records_show() -> None:
    def told(**properties: object) -> RegisteredSchema:
        return RegisteredSchema("JSON", json.dumps({"type": "object", "properties": properties}))

    number, moment = {"type": "number"}, {"type": "string", "format": "date-time"}
    registry = ToldRegistry(
        {7: told(n={"type": "integer"}, at=moment, tags={"type": "array"}, odd={"type": ["string", "integer"]}, any={}),
         9: told(n=number, at=moment)},
        complete=True,
    )  # fmt: skip
    first = {"n": 1, "at": "2023-11-14T22:13:18.5+00:00", "tags": [1], "odd": 1, "any": True, "more": "x"}
    values = [framed(7, json.dumps(first).encode()), framed(9, b'{"n":1.5,"at":"2023-11-14T22:13:19Z","N":2}'),
              framed(7, b'{"n":"x"}'), framed(8, b'{"n":3,"at":"2023-11-14T22:13:19Z"}'), b"{}", None]  # fmt: skip
    seen = surveyed(values, registry)
    assert (seen.format, seen.records, seen.unusable, seen.stime) == ("json-schema", 6, 3, "at")
    assert [(one.name, one.type, one.present, one.null) for one in seen.fields] == [
        ("n", "double", 3, 0), ("at", "timestamp", 3, 0), ("tags", "json", 3, 2), ("odd", None, 3, 0),
        ("any", "bool", 1, 0), ("more", "string", 1, 0), ("N", "int64", 1, 0),
    ]  # fmt: skip
    assert seen.fields[3].why == "its values are of several types: int64, string"
    assert seen.call().splitlines()[1:] == [
        '                   schema={"n": "double", "at": "timestamp", "tags": "json", "any": "bool", "more": "string", '
        '"N_2": ("int64", "N")},',
        '                   format="json-schema", stime="at", stime_unit="us", lateness="5s", partitions=2)',
    ]


@pytest.mark.parametrize("text", ["{}", "true", "[", '{"properties": {"stime": {"type": "integer"}}}'])
def test_of_a_json_schema_that_names_no_column_all_is_what_the_records_show(text: str) -> None:
    seen = surveyed([framed(7, b'{"n":1}'), framed(7, b'{"n":2}')], ToldRegistry({7: RegisteredSchema("JSON", text)}))
    assert (seen.format, seen.unusable) == ("json-schema", 0)
    assert [(one.type, one.present) for one in seen.fields if one.name == "n"] == [("int64", 2)]


def test_a_registry_that_says_nothing_is_waited_for_and_named() -> None:
    registry, values = ToldRegistry(), [framed(7, b"\x02")]
    registry.trouble = "the registry at http://here does not answer"
    with pytest.raises(SchemasUnknown, match="schema 7: the registry at http://here does not answer"):
        surveyed(values, registry)
    assert len(registry.asked) > WAIT_S
    with pytest.raises(SchemasUnknown, match="it does not know them: Schema not found"):
        surveyed(values, ToldRegistry(complete=True))
    both = {7: RegisteredSchema("AVRO", avro_schema(n="int")), 8: RegisteredSchema("PROTOBUF", "")}
    with pytest.raises(SchemasUnknown, match="its schemas are of AVRO and PROTOBUF"):
        surveyed([*values, framed(8, b"\x00")], ToldRegistry(both))
