"""Avro records, read by their writer's schema: rows with all their digits, or a reason; no schema can do harm."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed: pip install 'borealis-py[avro]'")

from borealis_py.engine.codec import ArrowSourceCodec  # noqa: E402
from borealis_py.ingress.formats.avro import AvroFormat  # noqa: E402
from borealis_py.ingress.formats.avro_fits import avro_fit  # noqa: E402
from borealis_py.ingress.formats.avro_schema import AvroType, UnusableSchema  # noqa: E402
from borealis_py.ingress.formats.base import FormatRows  # noqa: E402
from borealis_py.ingress.formats.fits import GIVES_UP, Fit  # noqa: E402


def record(**fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields.items()]})


def without_meaning(schema: Any) -> Any:
    """A schema by which values are written as numbers and bytes."""
    if isinstance(schema, list):
        return [without_meaning(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_meaning(one) for key, one in schema.items() if key not in ("logicalType", "scale", "precision")
    }


def encoded(schema: str, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


def said(found: FormatRows) -> list[object]:
    """What became of each value, in order."""
    what: dict[int, object] = dict(zip(found.at, found.rows.to_pylist(), strict=True)) | dict(found.bad)
    return [what[i] for i in sorted(what)]


def one(kind: str, avro: Any, value: Any) -> object:
    """The value of a column of this type, or why there is none."""
    schema = record(a=avro)
    try:
        data = encoded(schema, {"a": value})
    except Exception:  # fastavro makes no value of a logical type of this one: write what lies under it
        data = encoded(json.dumps(without_meaning(json.loads(schema))), {"a": value})
    found = AvroFormat({"a": kind}, schema).rows([data])
    return found.rows.column("a").to_pylist()[0] if found.at else found.bad[0][1]


def logical(kind: str, meaning: str, /, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": meaning, **more}


MONEY = logical("bytes", "decimal", precision=12, scale=2)
WHOLE = logical("bytes", "decimal", precision=38, scale=0)
FIXED = logical("fixed", "decimal", name="F", size=8, precision=9, scale=2)
MILLIS = logical("long", "timestamp-millis")
UUID = "12345678-1234-5678-1234-567812345678"
NOON = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
PLACE_AT = {"type": "record", "name": "At", "fields": [{"name": "x", "type": "double"}]}
VARIABLE = {
    "type": "record", "name": "VariableScaleDecimal", "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}  # fmt: skip
SPAN = logical("fixed", "duration", name="D", size=12)
FIXED_UUID = logical("fixed", "uuid", name="U", size=16)
CONNECT_DAYS = {"type": "int", "connect.name": "io.debezium.time.Date"}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}


@pytest.mark.parametrize(
    ("kind", "avro", "value", "row"),
    [
        ("string", "string", "ä", "ä"),
        ("string", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ("string", logical("string", "uuid"), UUID, UUID),
        ("int64", "int", -5, -5),
        ("int64", "long", 2**63 - 1, 2**63 - 1),
        ("int64", MILLIS, NOON, 1_767_268_800_123),
        ("double", "float", 0.5, 0.5),
        ("double", "int", 3, 3.0),
        ("double", "long", 2**62 + 1, float(2**62)),
        ("bool", "boolean", True, True),
        ("binary", "bytes", b"\x00\xff", b"\x00\xff"),
        ("binary", {"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab"),
        ("timestamp", MILLIS, NOON, datetime(2026, 1, 1, 12, 0, 0, 123000)),
        ("timestamp", logical("long", "timestamp-micros"), NOON, datetime(2026, 1, 1, 12, 0, 0, 123456)),
        ("timestamp", logical("long", "timestamp-nanos"), -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("timestamp", "string", "2026-01-01T01:00:00+01:00", datetime(2026, 1, 1)),
        ("date", logical("int", "date"), date(2026, 1, 1), date(2026, 1, 1)),
        ("date", "string", "2026-01-01", date(2026, 1, 1)),
        ("decimal(12,2)", MONEY, Decimal("-1234567890.10"), Decimal("-1234567890.10")),
        ("decimal(38,4)", MONEY, Decimal("0.01"), Decimal("0.0100")),
        ("decimal(12,1)", MONEY, Decimal("0.10"), Decimal("0.1")),
        ("decimal(38,0)", WHOLE, Decimal(10**38 - 1), Decimal(10**38 - 1)),
        ("decimal(9,2)", FIXED, Decimal("-0.01"), Decimal("-0.01")),
        ("decimal(9,2)", "string", "1.5", Decimal("1.50")),
        ("decimal(9,2)", "long", 7, Decimal("7.00")),
        ("json", PLACE, {"city": "Rome"}, '{"city":"Rome"}'),
        ("json", {"type": "array", "items": ["null", "long"]}, [1, None], "[1,null]"),
        ("json", {"type": "map", "values": "string"}, {"a": "b"}, '{"a":"b"}'),
        ("json", "string", "x", '"x"'),
        ("string", FIXED_UUID, bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("string", ["null", FIXED_UUID, "string"], "x", "x"),
        ("date", CONNECT_DAYS, 20_000, date(2024, 10, 4)),
        ("decimal(9,2)", ["null", VARIABLE], {"scale": 1, "value": b"\x0f"}, Decimal("1.50")),
        ("int64", logical("long", "local-timestamp-millis"), 7, 7),
        ("int64", ["null", "long"], None, None),
        ("decimal(12,2)", ["null", MONEY], None, None),
        ("timestamp", ["null", MILLIS, "string"], NOON, datetime(2026, 1, 1, 12, 0, 0, 123000)),
        ("timestamp", ["null", MILLIS, "string"], "2026-01-01", datetime(2026, 1, 1)),
        ("string", ["null", "long", "string"], "x", "x"),
    ],
)  # fmt: skip
def test_a_value_becomes_that_of_its_column(kind: str, avro: Any, value: Any, row: object) -> None:
    assert one(kind, avro, value) == row


@pytest.mark.parametrize(
    ("kind", "avro", "value", "reason"),
    [
        ("string", "long", 1, "expected a string, got an integer"),
        ("string", "bytes", b"x", "expected a string, got bytes"),
        ("int64", "double", 1.0, "expected an integer, got a number"),
        ("int64", "boolean", True, "expected an integer, got a bool"),
        ("int64", ["null", "long", "boolean"], True, "expected an integer, got a bool"),
        ("double", "boolean", True, "expected a number, got a bool"),
        ("bool", "int", 1, "expected a bool, got an integer"),
        ("binary", "string", "x", "expected bytes, got a string"),
        ("timestamp", "long", 1, "1 is a number, whose unit the schema does not say: make the column int64"),
        ("timestamp", MILLIS, 2**62, "before the year 1 or after 9999"),
        ("timestamp", ["int", MILLIS], 5, "whose unit the schema does not say"),
        ("timestamp", "double", 1.0, "a number is no timestamp"),
        ("date", "int", 1, "which the schema does not call a date"),
        ("date", logical("int", "date"), 2**31 - 1, "before the year 1 or after 9999"),
        ("decimal(12,2)", "bytes", b"\x01", "bytes that the schema does not call a decimal"),
        ("decimal(12,2)", "double", 0.1, "a float holds no decimal fraction exactly"),
        ("decimal(12,1)", MONEY, Decimal("0.01"), "more than 1 digits after the point"),
        ("decimal(3,2)", MONEY, Decimal("10.00"), "more than 1 digits before the point"),
        ("json", "double", float("nan"), "nan is not finite, and JSON has no such number"),
        (
            "json",
            {"type": "array", "items": PLACE_AT},
            [{"x": 1.0}, {"x": float("inf")}],
            "at [1].x: inf is not finite",
        ),
        ("json", {"type": "map", "values": MILLIS}, {"k": 2**62}, "at k: 4611686018427387904 millis since 1970 are"),
        ("json", {"type": "array", "items": logical("int", "date")}, [2**31 - 1], "at [0]: 2147483647 days since 1970"),
        ("json", {"type": "array", "items": logical("int", "time-millis")}, [86_400_000], "no time of a day"),
        ("json", {"type": "array", "items": WHOLE}, [b"\1" * 65], "at [0]: a decimal of 65 bytes; it has 64 at most"),
        ("timestamp", logical("long", "local-timestamp-millis"), 7, "7 is a time without a zone (local-timestamp-mil"),
        ("timestamp", ["null", logical("long", "local-timestamp-micros")], 7, "to_microseconds(c)"),
        ("timestamp", ["string", logical("long", "local-timestamp-nanos")], 7, "to_microseconds(c // 1000)"),
        ("timestamp", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, 7, "to_microseconds(c)"),
        ("decimal(9,2)", VARIABLE, {"scale": 1_001, "value": b"\1"}, "a decimal with 1001 digits after the point"),
        ("double", "double", float("nan"), "nan is not finite"),
        ("double", ["null", "float"], float("inf"), "inf is not finite"),
        ("double", ["double", "string"], float("-inf"), "-inf is not finite"),
    ],
)
def test_anything_else_is_a_dead_letter_that_names_the_column(kind: str, avro: Any, value: Any, reason: str) -> None:
    found = one(kind, avro, value)
    assert isinstance(found, str)
    assert found.startswith("column 'a': ")
    assert reason in found


MIDNIGHT_S = 1_767_225_600
"""2026-01-01T00:00:00Z."""
INSIDE: list[tuple[Any, Any, Any]] = [
    ("bytes", b"\x00\xff", "AP8="),
    ({"type": "fixed", "name": "F2", "size": 2}, b"\x00\xff", "AP8="),
    (MONEY, (-105).to_bytes(1, signed=True), "-1.05"),
    (MONEY, b"\x00", "0.00"),
    (WHOLE, (10**38 - 1).to_bytes(16), "9" * 38),
    (FIXED, (105).to_bytes(8), "1.05"),
    (VARIABLE, {"scale": 3, "value": b"\x69"}, "0.105"),
    (FIXED_UUID, bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (logical("string", "uuid"), UUID, UUID),
    (SPAN, b"\1\0\0\0\2\0\0\0\3\0\0\0", {"months": 1, "days": 2, "millis": 3}),
    (logical("int", "date"), 20_454, "2026-01-01"),
    (CONNECT_DAYS, -1, "1969-12-31"),
    (logical("int", "time-millis"), 3_723_004, "01:02:03.004000"),
    (logical("long", "time-micros"), 86_399_999_999, "23:59:59.999999"),
    (MILLIS, MIDNIGHT_S * 1_000 + 5, "2026-01-01T00:00:00.005000Z"),
    (MILLIS, -1, "1969-12-31T23:59:59.999000Z"),
    (logical("long", "timestamp-micros"), MIDNIGHT_S * 1_000_000 + 5, "2026-01-01T00:00:00.000005Z"),
    (logical("long", "timestamp-nanos"), MIDNIGHT_S * 10**9 + 5, "2026-01-01T00:00:00.000000005Z"),
    (logical("long", "local-timestamp-millis"), MIDNIGHT_S * 1_000, "2026-01-01T00:00:00.000000"),
    (logical("long", "local-timestamp-micros"), MIDNIGHT_S * 1_000_000 + 5, "2026-01-01T00:00:00.000005"),
    (logical("long", "local-timestamp-nanos"), MIDNIGHT_S * 10**9 + 5, "2026-01-01T00:00:00.000000005"),
    ({"type": "long", "connect.name": "io.debezium.time.Timestamp"}, 5, "1970-01-01T00:00:00.005000"),
    ("long", 2**62, 2**62),
    (logical("long", "unheard-of"), 7, 7),
    ("double", 0.5, 0.5),
    ("boolean", True, True),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    ("string", "ä\u2028", "ä\u2028"),
]  # fmt: skip
"""A type, a value as it lies in a record, and the same in JSON."""


@pytest.mark.parametrize("around", ["alone", "record", "array", "map", "union", "twice"])
@pytest.mark.parametrize(("avro", "value", "said_in_json"), INSIDE)
def test_inside_json_a_value_is_written_with_all_that_its_schema_says(
    avro: Any, value: Any, said_in_json: Any, around: str
) -> None:
    nested = {"type": "record", "name": "N", "fields": [{"name": "v", "type": avro}]}
    again = avro["name"] if isinstance(avro, dict) and "name" in avro else avro
    twice = {"type": "record", "name": "N", "fields": [{"name": "v", "type": avro}, {"name": "w", "type": again}]}
    whole, given, expected = {
        "alone": (avro, value, said_in_json),
        "record": (nested, {"v": value}, {"v": said_in_json}),
        "array": ({"type": "array", "items": nested}, [{"v": value}] * 2, [{"v": said_in_json}] * 2),
        "map": ({"type": "map", "values": nested}, {"k": {"v": value}}, {"k": {"v": said_in_json}}),
        "union": (["null", avro], value, said_in_json),
        "twice": (twice, {"v": value, "w": value}, {"v": said_in_json, "w": said_in_json}),
    }[around]
    schema = record(a=whole)
    data = encoded(json.dumps(without_meaning(json.loads(schema))), {"a": given})
    (row,) = said(AvroFormat({"a": "json"}, schema).rows([data]))
    assert isinstance(row, dict)
    assert json.loads(row["a"]) == expected


def test_each_branch_of_a_union_is_read_by_what_it_means() -> None:
    branches = ["null", MONEY, FIXED, MILLIS, logical("int", "date"), "string"]
    schema = record(a={"type": "array", "items": branches})
    items = b"\2\2\x69", b"\4" + (105).to_bytes(8), b"\6\2", b"\x08\2", b"\x0a\2x", b"\0"
    data = b"\x0c" + b"".join(items) + b"\0"
    (row,) = said(AvroFormat({"a": "json"}, schema).rows([data]))
    assert isinstance(row, dict)
    assert json.loads(row["a"]) == ["1.05", "1.05", "1970-01-01T00:00:00.001000Z", "1970-01-02", "x", None]


def test_a_type_is_read_as_json_in_a_json_column_and_as_it_is_in_others() -> None:
    schema = record(j=FIXED, d="F", b={"type": "array", "items": "F"}, t=MILLIS, k=MILLIS)
    plain = json.dumps(without_meaning(json.loads(schema)))
    eight = (105).to_bytes(8)
    data = encoded(plain, {"j": eight, "d": eight, "b": [eight], "t": 1, "k": 1})
    columns = {"k": "json", "j": "json", "d": "decimal(9,2)", "b": "json", "t": "timestamp"}
    (row,) = said(AvroFormat(columns, schema).rows([data]))
    assert row == {
        "k": '"1970-01-01T00:00:00.001000Z"', "j": '"1.05"', "d": Decimal("1.05"), "b": '["1.05"]',
        "t": datetime(1970, 1, 1, 0, 0, 0, 1_000),
    }  # fmt: skip


def test_a_json_column_within_a_record_is_json_there_alone() -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": n, "type": t} for n, t in (("j", FIXED), ("d", "F"))]}
    schema = record(a=["null", inner], b="In", j=MILLIS)
    plain = json.dumps(without_meaning(json.loads(schema)))
    one, two = {"j": (105).to_bytes(8), "d": (106).to_bytes(8)}, {"j": (1).to_bytes(8), "d": (2).to_bytes(8)}
    data = [encoded(plain, {"a": a, "b": two, "j": 1}) for a in (one, None)]
    columns = {"aj": "json", "ad": "decimal(9,2)", "bj": "decimal(9,2)", "bd": "json", "j": "timestamp"}
    paths = {"aj": ("a", "j"), "ad": ("a", "d"), "bj": ("b", "j"), "bd": ("b", "d")}
    form = AvroFormat(columns, schema, paths=paths)
    assert said(form.rows(data)) == [
        {"aj": aj, "ad": ad, "bj": Decimal("0.01"), "bd": '"0.02"', "j": datetime(1970, 1, 1, 0, 0, 0, 1_000)}
        for aj, ad in (('"1.05"', Decimal("1.06")), (None, None))
    ]


@pytest.mark.parametrize("order", [1, -1])
def test_a_json_column_and_columns_within_it_have_forms_of_their_own(order: int) -> None:
    inner = {"type": "record", "name": "In", "fields": [
        {"name": "d", "type": MONEY}, {"name": "t", "type": MILLIS}, {"name": "u", "type": FIXED_UUID},
        {"name": "k", "type": {"type": "array", "items": MONEY}}]}  # fmt: skip
    schema = record(a=["null", inner], x="long")
    plain = json.dumps(without_meaning(json.loads(schema)))
    inside = {"d": b"\x69", "t": 1, "u": bytes(16), "k": [b"\x69"]}
    data = [encoded(plain, {"a": inside, "x": 7}), b"?", encoded(plain, {"a": None, "x": 8})]
    columns = {
        "a": "json",
        "d": "decimal(9,2)",
        "t": "timestamp",
        "n": "int64",
        "u": "string",
        "k": "json",
        "x": "int64",
    }
    columns = dict(list(columns.items())[::order])
    paths = {"n": ("a", "t"), **{name: ("a", name) for name in ("d", "u", "k")}, "t": ("a", "t")}
    first, bad, none = said(AvroFormat(columns, schema, paths=paths).rows(data))
    zero = "00000000-0000-0000-0000-000000000000"
    assert first == {
        "a": f'{{"d":"1.05","t":"1970-01-01T00:00:00.001000Z","u":"{zero}","k":["1.05"]}}',
        "d": Decimal("1.05"), "t": datetime(1970, 1, 1, 0, 0, 0, 1_000), "n": 1, "u": zero, "k": '["1.05"]', "x": 7,
    }  # fmt: skip
    assert isinstance(bad, str)
    assert none == {**dict.fromkeys(columns), "x": 8}


def test_a_change_of_debezium_in_avro_has_its_row_as_json() -> None:
    types = {"id": "long", "euros": ["null", MONEY], "day": CONNECT_DAYS}
    value = {"type": "record", "name": "Value", "fields": [{"name": n, "type": t} for n, t in types.items()]}
    schema = record(before=["null", value], after=["null", "Value"], op="string")
    row = {"id": 1, "euros": (105).to_bytes(1), "day": 20_454}
    plain = json.dumps(without_meaning(json.loads(schema)))
    data = encoded(plain, {"before": None, "after": row, "op": "c"})
    (found,) = said(AvroFormat({"before": "json", "after": "json", "op": "string"}, schema).rows([data]))
    assert found == {"before": None, "after": '{"id":1,"euros":"1.05","day":"2026-01-01"}', "op": "c"}


@given(st.integers(-(10**40), 10**40), st.integers(0, 12))
def test_a_decimal_inside_json_has_its_digits(number: int, scale: int) -> None:
    avro = logical("bytes", "decimal", precision=40, scale=scale)
    schema = record(a={"type": "array", "items": avro})
    plain = json.dumps(without_meaning(json.loads(schema)))
    data = encoded(plain, {"a": [number.to_bytes(17, signed=True)]})
    (row,) = said(AvroFormat({"a": "json"}, schema).rows([data]))
    assert isinstance(row, dict)
    digits = f"{abs(number):0{scale + 1}}"
    point = f".{digits[len(digits) - scale :]}" if scale else ""
    assert json.loads(row["a"]) == [f"{'-' if number < 0 else ''}{digits[: len(digits) - scale]}{point}"]


@pytest.mark.parametrize(
    ("kind", "scale", "number"),
    [
        ("decimal(38,10)", 0, 35 * 10**27),
        ("decimal(38,2)", 0, 35 * 10**36),
        ("decimal(38,18)", 8, 35 * 10**27 + 123),
        ("decimal(12,2)", 0, 10**10),
        ("decimal(38,10)", 2, -(10**30)),
    ],
)
def test_a_decimal_too_large_for_its_column_is_no_other_number(kind: str, scale: int, number: int) -> None:
    avro = logical("bytes", "decimal", precision=38, scale=scale)
    reason = one(kind, avro, Decimal(number).scaleb(-scale, Context(prec=40)))
    assert isinstance(reason, str)
    assert "digits before the point" in reason


def test_fields_that_no_column_names_are_ignored_and_columns_that_no_field_has_are_null() -> None:
    schema = record(a="long", more={"type": "array", "items": "string"})
    form = AvroFormat({"z": "timestamp", "a": "int64", "j": "json"}, schema)
    assert said(form.rows([encoded(schema, {"a": 1, "more": ["x"]})])) == [{"z": None, "a": 1, "j": None}]
    assert said(AvroFormat({"z": "string"}, schema).rows([encoded(schema, {"a": 1, "more": []})])) == [{"z": None}]


def test_a_value_that_is_no_record_by_the_schema_costs_itself_alone() -> None:
    schema = record(a="string")
    good = encoded(schema, {"a": "x"})
    found = AvroFormat({"a": "string"}, schema).rows([good, b"", b"\x06a", b"\x02\xff", good + b"z", good])
    assert list(found.at) == [0, 5]
    assert [reason for _, reason in found.bad] == [
        "not Avro by its schema: the record ends too early",
        "not Avro by its schema: the record ends too early",
        "not Avro by its schema: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "not Avro by its schema: 1 bytes are left after the record",
    ]


def test_a_schema_may_refer_to_others_by_name() -> None:
    place = json.dumps({**PLACE, "namespace": "geo"})
    schema = record(at="geo.Place", n="long")
    whole = record(at=json.loads(place), n="long")
    found = AvroFormat({"n": "int64", "at": "json"}, schema, [place]).rows(
        [encoded(whole, {"at": {"city": "Rome"}, "n": 1})]
    )
    assert said(found) == [{"n": 1, "at": '{"city":"Rome"}'}]


def test_a_value_that_no_decimal_can_be_made_of_is_a_dead_letter() -> None:
    fit, bad = avro_fit("decimal(12,2)", (AvroType("bytes", "decimal", 5_000_000),)), dict[int, str]()
    assert fit.each([b"\x05"], bad, "a").to_pylist() == [None]
    assert bad[0].startswith("column 'a': ")


def chain(levels: int, fields: int = 1) -> list[Any]:
    """Records of which each has the one before it, so many times."""
    first = {"type": "record", "name": "T0", "fields": []}
    more = [
        {"type": "record", "name": f"T{i}", "fields": [{"name": f"f{j}", "type": f"T{i - 1}"} for j in range(fields)]}
        for i in range(1, levels)
    ]
    return [first, *more]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "it is no Avro schema"),
        ('"string"', "it is no schema of a record"),
        ('{"type":"record"}', "it is no Avro schema"),
        (record(a="Unknown"), "it is no Avro schema"),
        (record(a=["null", "R"]), r"it refers to itself \(R\)"),
        (record(a={"type": "array", "items": {"type": "map", "values": "R"}}), r"it refers to itself \(R\)"),
        (record(a={"type": "array", "items": "null"}), "an array whose items take no bytes"),
        (record(a={"type": "array", "items": chain(1)[0]}), "an array whose items take no bytes"),
        (record(a={"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), "whose items take no bytes"),
        (record(**{f"t{i}": one for i, one in enumerate(chain(200))}), "nested more than 99 levels deep"),
        (record(**{f"t{i}": one for i, one in enumerate(chain(40, 2))}), "more than 10000 types"),
        (record(a=logical("bytes", "decimal", precision=10**7, scale=5_000_000)), "with 5000000 digits after"),
        (record(a=["null", logical("bytes", "decimal", precision=10**7, scale=1_001)]), "a decimal with 1001 digits"),
        ("[" * 200 + "]" * 200, "nested more than 99 levels deep"),
    ],
)  # fmt: skip
def test_a_schema_that_could_do_harm_is_refused(schema: str, reason: str) -> None:
    with pytest.raises(UnusableSchema, match=reason):
        AvroFormat({"a": "string"}, schema)


def test_a_chain_of_schemas_is_refused_however_long_it_is() -> None:
    inner = record(**{f"t{i}": one for i, one in enumerate(chain(700))}).replace('"R"', '"Inner"')
    with pytest.raises(UnusableSchema, match="nested more than 99 levels deep"):
        AvroFormat({"a": "string"}, record(a="T699"), [inner])


def item(*types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "I", "fields": [{"name": f"i{i}", "type": one} for i, one in enumerate(types)]}


def wrapped(times: int, name: str = "W") -> Any:
    """A record of one field, a record of one field, and so on; in the last one is an int."""
    found: Any = "int"
    for i in range(times):
        found = {"type": "record", "name": f"{name}x{i}", "fields": [{"name": "w", "type": found}]}
    return found


def array(items: Any) -> Any:
    return {"type": "array", "items": items}


def mapped(values: Any) -> Any:
    return {"type": "map", "values": values}


@pytest.mark.parametrize(
    "hollow",
    [
        array(item("int", *["null"] * 17)),
        array(item("int", {**item(*["null"] * 16), "name": "J"})),
        array(item(["null", {**item(*["null"] * 17), "name": "J"}])),
        array(item("int", {"type": "fixed", "name": "F", "size": 0}, *["F"] * 16)),
        array(wrapped(18)),
        mapped(item("int", *["null"] * 35)),
        mapped(array(wrapped(18))),
    ],
)
def test_a_schema_by_which_a_small_record_is_a_large_object_is_refused(hollow: Any) -> None:
    with pytest.raises(UnusableSchema, match="more than 18 values for each byte"):
        AvroFormat({"a": "json"}, record(a=["null", hollow]))


@pytest.mark.parametrize(
    "usual",
    [array(item("int", *["null"] * 16)), array(wrapped(17)), mapped("null"), mapped(item("int", *["null"] * 34))],
)
def test_a_schema_by_which_it_is_none_is_usable(usual: Any) -> None:
    AvroFormat({"a": "json"}, record(a=["null", usual]))


def test_fields_that_take_no_bytes_are_no_harm_where_they_are_few_or_paid_for() -> None:
    usual = item(*[["null", "long"]] * 40, *["null"] * 16, *(wrapped(3, f"V{i}") for i in range(40)))
    schema = record(a={"type": "array", "items": usual}, **{f"n{i}": "null" for i in range(40)})
    empty = {f"i{i}": None for i in range(56)} | {f"i{i}": {"w": {"w": {"w": 1}}} for i in range(56, 96)}
    form = AvroFormat({"a": "json"}, schema)
    (row,) = said(form.rows([encoded(schema, {"a": [empty], **{f"n{i}": None for i in range(40)}})]))
    assert isinstance(row, dict)
    assert json.loads(row["a"]) == [empty]


def test_a_field_that_may_be_nothing_at_all_makes_dead_letters() -> None:
    ((at, why),) = AvroFormat({"a": "string"}, record(a=[])).rows([b"\0"]).bad
    assert (at, why.partition(":")[0]) == (0, "not Avro by its schema")


SCHEMA = record(
    n=["null", "long"], s="string", x="double", m=MONEY, t=logical("long", "timestamp-micros"), u=["long", "string"]
)
COLUMNS = {"n": "int64", "s": "string", "x": "double", "m": "decimal(6,2)", "t": "timestamp", "u": "int64"}
VALUES = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": st.text(max_size=4),
        "x": st.floats(),
        "m": st.integers(-(10**8), 10**8).map(lambda n: Decimal(n) / 100),
        "t": st.integers(-(2**63), 2**63 - 1),
        "u": st.integers(0, 9) | st.text(max_size=2),
    }
).map(lambda value: encoded(SCHEMA, value))


@given(st.lists(VALUES | st.binary(max_size=30), max_size=6))
def test_values_are_decoded_together_as_they_are_one_by_one_and_a_source_takes_the_rows(values: list[bytes]) -> None:
    form = AvroFormat(COLUMNS, SCHEMA)
    found = form.rows(values)
    assert sorted([*found.at, *(at for at, _ in found.bad)]) == list(range(len(values)))
    assert said(found) == [said(form.rows([value]))[0] for value in values]
    codec = ArrowSourceCodec("s", COLUMNS)
    if found.rows.num_rows:
        rows, bad = codec.decode(codec.encode(found.rows), "arrow", [0] * found.rows.num_rows)
        assert bad == []
        assert rows.drop_columns(["stime"]).equals(found.rows)


def alone(fit: Fit, value: object) -> object:
    bad: dict[int, str] = {}
    column = fit.each([value], bad, "a")
    return bad[0] if bad else column.to_pylist()[0]


@given(
    st.sampled_from([
        ("decimal(6,2)", AvroType("bytes", "decimal", 2)), ("decimal(38,3)", AvroType("bytes", "decimal", 2)),
        ("decimal(38,18)", AvroType("bytes", "decimal", 2)), ("decimal(12,2)", AvroType("bytes", "decimal", 4)),
        ("decimal(38,0)", AvroType("bytes", "decimal", 0)), ("timestamp", AvroType("long", "timestamp-millis")),
        ("timestamp", AvroType("long", "timestamp-nanos")), ("date", AvroType("int", "date")),
        ("int64", AvroType("long")), ("double", AvroType("long")),
    ]),
    st.lists(
        st.sampled_from([2**63, 999, 10**38, 10**40]).flatmap(lambda n: st.integers(-n, n - 1)) | st.none(), max_size=4
    ),
)  # fmt: skip
def test_a_column_made_at_once_has_the_values_that_each_has_alone(
    field: tuple[str, AvroType], numbers: list[int | None]
) -> None:
    kind, avro = field
    fit = avro_fit(kind, (avro,))
    values: list[object] = [
        n.to_bytes(20, signed=True) if avro.logical == "decimal" and n is not None else n for n in numbers
    ]
    expected = [None if value is None else alone(fit, value) for value in values]
    try:
        found = fit.together(values).to_pylist()
    except GIVES_UP:
        return
    assert found == expected
