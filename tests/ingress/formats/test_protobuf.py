"""Protobuf messages behind the index of their type: rows with all their digits, or a reason."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install 'borealis-py[protobuf]'")

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from borealis_py.ingress.absent_columns import SAID_AFTER, AbsentColumns
from borealis_py.ingress.formats.avro_schema import UnusableSchema
from borealis_py.ingress.formats.base import FormatRows
from borealis_py.ingress.formats.protobuf import ProtobufFormat

FIELD = descriptor_pb2.FieldDescriptorProto
FIELDS = {
    "id": (FIELD.TYPE_INT64, ""), "s": (FIELD.TYPE_STRING, ""), "x": (FIELD.TYPE_DOUBLE, ""),
    "b": (FIELD.TYPE_BOOL, ""), "y": (FIELD.TYPE_BYTES, ""), "u": (FIELD.TYPE_UINT64, ""),
    "z": (FIELD.TYPE_SINT32, ""), "e": (FIELD.TYPE_ENUM, ".shop.Kind"),
    "t": (FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp"), "w": (FIELD.TYPE_MESSAGE, ".google.protobuf.Int64Value"),
    "p": (FIELD.TYPE_MESSAGE, ".shop.Place"),
}  # fmt: skip


def file() -> Any:
    """Two messages: Place {city}, Order with a field of each type and the inner message Item {n}."""
    made = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    made.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    kind = made.enum_type.add(name="Kind")
    for i, name in enumerate(("NONE", "SALE")):
        kind.value.add(name=name, number=i)
    place = made.message_type.add(name="Place")
    place.field.add(name="city", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    order = made.message_type.add(name="Order")
    for i, (name, (type_, of)) in enumerate(FIELDS.items(), 1):
        order.field.add(name=name, number=i, type=type_, label=FIELD.LABEL_OPTIONAL, type_name=of or None)
    order.field.add(name="many", number=50, type=FIELD.TYPE_INT32, label=FIELD.LABEL_REPEATED)
    order.oneof_decl.add(name="_maybe")
    order.field.add(
        name="maybe", number=51, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL, oneof_index=0, proto3_optional=True
    )
    item = order.nested_type.add(name="Item")
    item.field.add(name="n", number=1, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    return made


FILE = file()
TEXT = base64.b64encode(FILE.SerializeToString()).decode()
POOL = descriptor_pool.DescriptorPool()
for one in (timestamp_pb2, wrappers_pb2):
    POOL.AddSerializedFile(one.DESCRIPTOR.serialized_pb)
POOL.AddSerializedFile(FILE.SerializeToString())
Order = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Order"))
Place = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Place"))
Item = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Order.Item"))
ORDER, PLACE, ITEM = b"\x02\x02", b"\0", b"\x04\x02\0"
"""Where each is in the file, as serializers say it: [1], [0] in short, and [1, 0]."""


def order(**fields: Any) -> bytes:
    return ORDER + Order(**fields).SerializeToString()


def said(found: FormatRows) -> list[Any]:
    what: dict[int, Any] = dict(zip(found.at, found.rows.to_pylist(), strict=True)) | dict(found.bad)
    return [what[i] for i in sorted(what)]


def value(column: str, kind: str, **fields: Any) -> Any:
    """The value of a column of an order with these fields, or why there is none."""
    found = ProtobufFormat({column: kind}, TEXT).rows([order(**fields)])
    return found.rows.column(column).to_pylist()[0] if found.at else found.bad[0][1]


def test_a_column_may_be_a_field_of_a_message_within() -> None:
    paths = {"town": ("p", "city"), "no": ("p", "nothing"), "of_many": ("many", "x")}
    form = ProtobufFormat(dict.fromkeys(paths, "string"), TEXT, paths=paths)
    found = form.rows([order(p={"city": "Rome"}), order(id=1), order(p={})])
    assert found.bad == []
    assert found.rows.column("town").to_pylist() == ["Rome", None, ""]
    assert found.rows.column("no").null_count == found.rows.column("of_many").null_count == 3


def test_a_field_within_messages_is_there_if_its_type_has_it_and_absent_otherwise() -> None:
    paths = {"town": ("p", "city"), "twon": ("p", "ctiy"), "of_many": ("many", "x"), "plain": ("id", "x")}
    form = ProtobufFormat(dict.fromkeys(paths, "string"), TEXT, paths=paths)
    seen, values = AbsentColumns(paths, paths), [order(id=1)] * SAID_AFTER
    seen.saw(form, form.rows(values).rows, values)
    assert [(one.name, one.field, one.near) for one in seen.found()] == [
        ("of_many", "$.many.x", ""), ("plain", "$.id.x", ""), ("twon", "$.p.ctiy", "")
    ]  # fmt: skip
    alone = AbsentColumns(["twon"], paths)
    alone.saw(form, form.rows(values).rows, values)
    assert [one.near for one in alone.found()] == ["$.p.city"]
    assert form.fields(b"", ("p",)) == form.fields(order(), ("p", "city")) == ()


NEW_YEAR = {"t": {"seconds": 1_767_225_600, "nanos": 123_456_789}}


@pytest.mark.parametrize(
    ("column", "kind", "fields", "expected"),
    [
        ("id", "int64", {"id": -(2**63)}, -(2**63)),
        ("id", "int64", {}, 0),
        ("id", "double", {"id": 3}, 3.0),
        ("id", "decimal(9,2)", {"id": 3}, Decimal("3.00")),
        ("s", "string", {"s": "ä"}, "ä"),
        ("s", "decimal(9,2)", {"s": "1.5"}, Decimal("1.50")),
        ("s", "timestamp", {"s": "2026-01-01T01:00:00+01:00"}, datetime(2026, 1, 1)),
        ("x", "double", {"x": 0.5}, 0.5),
        ("b", "bool", {"b": True}, True),
        ("y", "binary", {"y": b"\xff"}, b"\xff"),
        ("u", "int64", {"u": 2**63 - 1}, 2**63 - 1),
        ("z", "int64", {"z": -1}, -1),
        ("e", "string", {"e": 1}, "SALE"),
        ("t", "timestamp", NEW_YEAR, datetime(2026, 1, 1, 0, 0, 0, 123456)),
        ("t", "timestamp", {}, None),
        ("w", "int64", {"w": {"value": 7}}, 7),
        ("w", "int64", {}, None),
        ("maybe", "int64", {}, None),
        ("maybe", "int64", {"maybe": 0}, 0),
        ("p", "json", {"p": {"city": "Rome"}}, '{"city":"Rome"}'),
        ("p", "json", {}, None),
        ("p", "json", {"p": {}}, "{}"),
        ("many", "json", {}, None),
        ("many", "json", {"many": [1], "t": {"seconds": 2**60}}, "[1]"),
        ("p", "json", {"p": {"city": "Rome"}, "t": {"seconds": 2**60}}, '{"city":"Rome"}'),
        ("many", "json", {"many": [1, 2]}, "[1,2]"),
        ("no_such_field", "string", {"id": 1}, None),
        ("u", "int64", {"u": 2**63}, "column 'u': 9223372036854775808 is beyond an int64"),
        ("e", "string", {"e": 9}, "column 'e': expected a string, got an integer"),
        ("y", "string", {"y": b"x"}, "column 'y': expected a string, got bytes"),
        ("x", "decimal(9,2)", {"x": 0.5}, "column 'x': a value of type float is no decimal"),
        ("t", "timestamp", {"t": {"seconds": 2**60}}, "column 't': 1152921504606846976000000 is before the year 1"),
        ("x", "double", {"x": float("nan")}, "column 'x': nan is not finite"),
        ("x", "double", {"x": float("-inf")}, "column 'x': -inf is not finite"),
        ("t", "json", {"t": {"seconds": 2**60}}, "it cannot be written as JSON"),
        ("many", "int64", {"many": [1]}, "column 'many': expected an integer, got an array"),
    ],
)  # fmt: skip
def test_a_field_becomes_the_value_of_its_column(column: str, kind: str, fields: dict[str, Any], expected: Any) -> None:
    found = value(column, kind, **fields)
    assert found == expected or (isinstance(expected, str) and str(found).startswith(expected))


def test_each_message_is_read_by_its_own_type_and_rows_keep_their_order() -> None:
    form = ProtobufFormat({"id": "int64", "city": "string", "n": "int64"}, TEXT)
    values = [
        order(id=1),
        PLACE + Place(city="Rome").SerializeToString(),
        ITEM + Item(n=3).SerializeToString(),
        order(id=4),
    ]
    assert [tuple(row.values()) for row in said(form.rows(values))] == [
        (1, None, None), (None, "Rome", None), (None, None, 3), (4, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not Protobuf: it does not say which message it is"),
        (b"\x80", "not Protobuf: it does not say which message it is"),
        (b"\x01", "not Protobuf: it does not say which message it is"),
        (b"\x02\x01", "not Protobuf: it does not say which message it is"),
        (b"\x02", "not Protobuf: it does not say which message it is"),
        (b"\xff\xff\xff\xff\x0f", "not Protobuf: it does not say which message it is"),
        (b"\x02\x0a", "not Protobuf by its schema: it has no message [5]"),
        (b"\x04\x02\x02", "not Protobuf by its schema: it has no message [1, 1]"),
        (ORDER + b"\x08", "not Protobuf by its schema: Error parsing message"),
        (ORDER + b"\x12\x01\xff", "not Protobuf by its schema: Error parsing message"),
    ],
)
def test_what_is_no_message_costs_itself_alone(raw: bytes, reason: str) -> None:
    found = ProtobufFormat({"id": "int64"}, TEXT).rows([order(id=1), raw, order(id=2)])
    assert (list(found.at), found.rows.column("id").to_pylist()) == ([0, 2], [1, 2])
    ((at, why),) = found.bad
    assert at == 1
    assert why.startswith(reason)


def test_a_file_may_import_others() -> None:
    main = descriptor_pb2.FileDescriptorProto(name="default", package="other", syntax="proto3")
    main.dependency.append("path/of/shop.proto")
    message = main.message_type.add(name="Sale")
    message.field.add(name="at", number=1, type=FIELD.TYPE_MESSAGE, label=FIELD.LABEL_OPTIONAL, type_name=".shop.Place")
    text = base64.b64encode(main.SerializeToString()).decode()
    inner = Place(city="Rome").SerializeToString()
    found = ProtobufFormat({"at": "json"}, text, [("path/of/shop.proto", TEXT)]).rows(
        [b"\0\x0a" + bytes([len(inner)]) + inner]
    )
    assert said(found) == [{"at": '{"city":"Rome"}'}]


def importing(path: str, type_name: str) -> str:
    """The schema of a message with one field, `a`, of a type of the file at this path."""
    made = descriptor_pb2.FileDescriptorProto(name="default", package="other", syntax="proto3", dependency=[path])
    message = made.message_type.add(name="Sale")
    message.field.add(name="a", number=1, type=FIELD.TYPE_MESSAGE, label=FIELD.LABEL_OPTIONAL, type_name=type_name)
    return base64.b64encode(made.SerializeToString()).decode()


@pytest.mark.parametrize(
    ("path", "type_name"),
    [
        *((f"google/protobuf/{file}.proto", f".google.protobuf.{name}") for file, name in (
            ("any", "Any"), ("api", "Api"), ("duration", "Duration"), ("field_mask", "FieldMask"), ("type", "Type"),
            ("source_context", "SourceContext"),
        )),
        ("google/type/money.proto", ".google.type.Money"),
        ("google/type/datetime.proto", ".google.type.DateTime"),
        ("confluent/types/decimal.proto", ".confluent.type.Decimal"),
    ],
)  # fmt: skip
def test_files_that_producers_do_not_register_may_be_imported(path: str, type_name: str) -> None:
    if "protobuf" not in path:
        pytest.importorskip("google.type" if "google" in path else "confluent_kafka.schema_registry.confluent")
    assert said(ProtobufFormat({"a": "json"}, importing(path, type_name)).rows([b"\0"])) == [{"a": None}]


@pytest.mark.parametrize("path", ["google/type/no_such.proto", "google/type/../money.proto", "confluent/os.proto"])
def test_a_missing_import_is_named(path: str) -> None:
    with pytest.raises(UnusableSchema, match=path):
        ProtobufFormat({"a": "json"}, importing(path, ".x.Y"))


@pytest.mark.parametrize(
    ("type_name", "inner", "expected"),
    [
        ("shop.Place", Place(city="Rome").SerializeToString(), {"city": "Rome"}),
        ("google.protobuf.Duration", b"\x08\x03", {"value": "3s"}),
    ],
)
def test_what_an_any_may_hold_does_not_depend_on_what_the_process_has_loaded(
    type_name: str, inner: bytes, expected: dict[str, str]
) -> None:
    any_ = any_pb2.Any(type_url=f"type.googleapis.com/{type_name}", value=inner).SerializeToString()
    text = importing("google/protobuf/any.proto", ".google.protobuf.Any")
    made = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    made.dependency.append("shop.proto")
    form = ProtobufFormat({"a": "json"}, base64.b64encode(made.SerializeToString()).decode(), [("shop.proto", TEXT)])
    (row,) = said(form.rows([b"\0\x0a" + bytes([len(any_)]) + any_]))
    assert json.loads(row["a"]) == {"@type": f"type.googleapis.com/{type_name}", **expected}


def test_maps_and_structs_have_one_order_in_every_process() -> None:
    made = descriptor_pb2.FileDescriptorProto(name="maps.proto", package="maps", syntax="proto3")
    made.dependency.append("google/protobuf/struct.proto")
    message = made.message_type.add(name="Maps")
    entry = message.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    message.field.add(name="counts", number=1, type=FIELD.TYPE_MESSAGE, label=FIELD.LABEL_REPEATED,
                      type_name=".maps.Maps.CountsEntry")  # fmt: skip
    message.field.add(name="any", number=2, type=FIELD.TYPE_MESSAGE, label=FIELD.LABEL_OPTIONAL,
                      type_name=".google.protobuf.Struct")  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(made.SerializeToString())
    sent = message_factory.GetMessageClass(pool.FindMessageTypeByName("maps.Maps"))()
    for key in "hbjcaidgfe":
        sent.counts[key] = 1
    sent.any["inner"] = dict.fromkeys("hbjcaidgfe", True)
    text = base64.b64encode(made.SerializeToString()).decode()
    (row,) = said(ProtobufFormat({"counts": "json", "any": "json"}, text).rows([b"\0" + sent.SerializeToString()]))
    assert list(json.loads(row["counts"])) == list("abcdefghij")
    assert list(json.loads(row["any"])["inner"]) == list("abcdefghij")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax = "proto3";', "the registry gives no descriptor of it"),
        (base64.b64encode(b"\xff").decode(), "it is no descriptor"),
        (base64.b64encode(descriptor_pb2.FileDescriptorProto(dependency=["x.proto"]).SerializeToString()).decode(),
         "it is no descriptor"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_used_says_why(text: str, reason: str) -> None:
    with pytest.raises(UnusableSchema, match=reason):
        ProtobufFormat({"id": "int64"}, text)


ORDERS: Callable[..., Any] = st.builds(
    order,
    id=st.integers(-(2**63), 2**63 - 1),
    s=st.text(max_size=3),
    u=st.integers(0, 2**64 - 1),
    t=st.builds(timestamp_pb2.Timestamp, seconds=st.integers(-(2**63), 2**63 - 1)).map(
        lambda t: {"seconds": t.seconds}
    ),
)


@given(st.lists(ORDERS | st.binary(max_size=8), max_size=5))
def test_values_are_decoded_together_as_they_are_one_by_one(values: list[bytes]) -> None:
    form = ProtobufFormat({"id": "int64", "s": "string", "u": "int64", "t": "timestamp"}, TEXT)
    found = form.rows(values)
    assert sorted([*found.at, *(at for at, _ in found.bad)]) == list(range(len(values)))
    assert said(found) == [said(form.rows([value]))[0] for value in values]
