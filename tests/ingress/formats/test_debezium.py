"""Debezium's change events: what was written is a row, a delete one only where its operation has a column."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.formats.base import FormatRows
from borealis_py.ingress.formats.connect_schema import LOCAL_TIMES, local_time
from borealis_py.ingress.formats.debezium import DebeziumFormat
from borealis_py.log.base import Feed, Record
from borealis_py.testing import run

COLUMNS = {"id": "int64", "euros": "decimal(9,2)"}


def event(op: str | None = "c", after: Any = None, before: Any = None, schema: bool = False) -> bytes:
    change = {"before": before, "after": after, "source": {"table": "orders"}, "ts_ms": 1, "op": op}
    return json.dumps({"schema": {"type": "struct"}, "payload": change} if schema else change).encode()


def said(found: FormatRows) -> list[Any]:
    what: dict[int, Any] = dict(zip(found.at, found.rows.to_pylist(), strict=True)) | dict(found.bad)
    return [what[i] for i in sorted(what)]


@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_what_was_written_is_the_row(op: str, schema: bool) -> None:
    value = event(op, after={"id": 7, "euros": "1.50", "note": "x"}, before={"id": 7, "euros": "9.00"}, schema=schema)
    assert said(DebeziumFormat(COLUMNS, None).rows([value])) == [{"id": 7, "euros": Decimal("1.50")}]


def test_with_a_column_for_the_operation_a_delete_is_the_row_before_it() -> None:
    form = DebeziumFormat({"what": "string", **COLUMNS}, "what")
    values = [event("c", after={"id": 1}), event("d", before={"id": 1}), event("u", after={"id": 2, "what": "x"})]
    assert [(row["what"], row["id"]) for row in said(form.rows(values))] == [("c", 1), ("d", 1), ("u", 2)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (event("d", before={"id": 1}), "a delete: name a column with Debezium(op=...) to have deletes as rows"),
        (event("c"), "a change with op 'c' without `after`"),
        (event("t"), "not a change event: its op is 't'"),
        (event(""), "not a change event: it has no op"),
        (event(None, after={"id": 1}), "not a change event: Expected `str`, got `null`"),
        (b'{"id":1}', "not a change event: it has no op"),
        (b"[]", "not a change event: Expected `object`"),
        (b"", "not a change event: Input data was truncated"),
        (b'{"payload":7}', "not a change event: Expected `object`"),
        (event("c", after={"id": "1"}), "column 'id': Expected `int | null`"),
        (event("c", after={"euros": "AJY="}), "column 'euros': 'AJY=' is base64, and no schema"),
        (event("c", after=[1]), "Expected `object`, got `array`"),
        (b'{"op":"c","after":{"id":1},"x":' + b"[" * 9_000 + b"]" * 9_000 + b"}", "not a change event"),
    ],
)
def test_anything_else_is_a_dead_letter_that_says_why(value: bytes, reason: str) -> None:
    good = event(after={"id": 1})
    found = DebeziumFormat(COLUMNS, None).rows([good, value, good])
    assert list(found.at) == [0, 2]
    ((at, why),) = found.bad
    assert at == 1
    assert why.startswith(reason)


def test_a_delete_without_the_row_before_it_is_a_dead_letter() -> None:
    found = DebeziumFormat({"what": "string", **COLUMNS}, "what").rows([event("d")])
    assert found.bad == [(0, "a change with op 'd' without `before`")]


def test_a_tombstone_says_nothing_new_and_is_passed_over() -> None:
    values = [event(after={"id": 1}), None, event("u", after={"id": 2})]
    records = [Record(Feed("t"), i, 1_700_000_000_000, None, value) for i, value in enumerate(values)]
    found = TopicDecoder(DebeziumFormat(COLUMNS, None), None, "us", 1_000).decode(records)
    assert (found.at.tolist(), found.bad) == ([0, 2], ())


STATES = st.sampled_from([None, {"id": 1}, {"id": "x"}])
EVENTS = st.builds(event, st.sampled_from("curdt"), STATES, STATES, st.booleans())


@given(st.lists(st.binary(max_size=6) | EVENTS, max_size=6))
def test_events_are_decoded_together_as_they_are_one_by_one(values: list[bytes]) -> None:
    form = DebeziumFormat({"what": "string", **COLUMNS}, "what")
    found = form.rows(values)
    assert sorted([*found.at, *(at for at, _ in found.bad)]) == list(range(len(values)))
    assert said(found) == [said(form.rows([value]))[0] for value in values]


def connect(fields: list[dict[str, Any]], row: dict[str, Any], op: str = "c") -> bytes:
    """A change as Kafka Connect's JsonConverter writes it, with its schema."""
    state = {"type": "struct", "optional": True, "fields": fields}
    schema = {"type": "struct", "fields": [{**state, "field": "before"}, {**state, "field": "after"}]}
    change = {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row}
    return json.dumps({"schema": schema, "payload": change}).encode()


def field(kind: str, name: str = "", **more: Any) -> dict[str, Any]:
    return {"field": "a", "type": kind, "optional": True, **({"name": name} if name else {}), **more}


def decimal_field(scale: int, **more: Any) -> dict[str, Any]:
    return field("bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": str(scale), **more})


def base64_of(number: int) -> str:
    size = (number.bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(size, signed=True)).decode()


VARIABLE = field("struct", "io.debezium.data.VariableScaleDecimal", fields=[
    {"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}])  # fmt: skip
MONEY_IN = {"type": "struct", "fields": [{**decimal_field(2), "field": "price"}, {"field": "sku", "type": "string"}]}
DAYS = field("int32", "io.debezium.time.Date")


@pytest.mark.parametrize(
    ("kind", "told", "value", "row"),
    [
        ("decimal(12,2)", decimal_field(2), "1234", Decimal("-26588.24")),
        ("decimal(12,2)", decimal_field(2), "9999", Decimal("-5326.11")),
        ("decimal(12,2)", decimal_field(2), "1E05", Decimal("-28638.15")),
        ("decimal(12,2)", decimal_field(2), "+123", Decimal("-3036.89")),
        ("decimal(12,2)", decimal_field(2), "AJY=", Decimal("1.50")),
        ("decimal(12,2)", decimal_field(0), "ZA==", Decimal("100.00")),
        ("decimal(12,2)", decimal_field(-2), "ZA==", Decimal("10000.00")),
        ("decimal(12,2)", decimal_field(2), None, None),
        ("decimal(12,2)", decimal_field(2), 1.25, Decimal("1.25")),  # decimal.format=NUMERIC
        ("decimal(12,2)", VARIABLE, {"scale": 2, "value": "1234"}, Decimal("-26588.24")),
        ("decimal(12,2)", field("string"), "1234", Decimal("1234.00")),
        ("decimal(12,2)", field("double"), 12.5, Decimal("12.50")),
        ("decimal(12,2)", field("int32"), 1234, Decimal("1234.00")),
        ("string", decimal_field(2), "1234", "-26588.24"),
        ("string", field("string"), "1234", "1234"),
        ("binary", field("bytes"), "1234", b"\xd7m\xf8"),
        ("binary", field("string"), "AP8=", b"\x00\xff"),
        ("date", DAYS, 20_000, date(2024, 10, 4)),
        ("date", field("int32", "org.apache.kafka.connect.data.Date"), -1, date(1969, 12, 31)),
        ("date", field("string"), "2026-01-01", date(2026, 1, 1)),
        ("int64", field("int64", "io.debezium.time.MicroTimestamp"), 5, 5),
        ("timestamp", field("string", "io.debezium.time.ZonedTimestamp"), "2026-01-01T00:00:00Z", datetime(2026, 1, 1)),
        ("json", field("array", items=decimal_field(2)), ["1234", None], '["-26588.24",null]'),
        ("json", field("map", values=decimal_field(2)), {"x": "AJY="}, '{"x":"1.50"}'),
        ("json", field("array", items=MONEY_IN), [{"price": "AJY=", "sku": "1234"}], '[{"price":"1.50","sku":"1234"}]'),
        ("json", field("array", items=VARIABLE), [{"scale": 1, "value": "AJY="}], '["15.0"]'),
        ("json", field("array", items=field("bytes")), ["1234"], '["1234"]'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("op", ["c", "d"])
@pytest.mark.parametrize("decimals", [None, "text", "base64"])
def test_the_schema_in_a_record_says_what_a_value_is(
    kind: str, told: dict[str, Any], value: Any, row: object, op: str, decimals: str | None
) -> None:
    form = DebeziumFormat({"a": kind, "op": "string"}, "op", decimals)
    assert said(form.rows([connect([told], {"a": value}, op)])) == [{"a": row, "op": op}]
    within = struct("s", struct("t u", told, {"field": "x", "type": "string"}))
    nested = {"s": {"t u": {"a": value, "x": "y"}}}
    whole: dict[str, Sequence[str]] = {"c": ("s", "t u", "a"), "j": ("s",)}
    for columns, paths, expected in (
        ({"c": kind}, {"c": ("a",)}, {"c": row}),
        ({"c": kind}, {"c": ("s", "t u", "a")}, {"c": row}),
        ({"c": kind, "j": "json"}, whole, {"c": row}),
        ({"j": "json", "c": kind}, whole, {"c": row}),
        ({"a": "int64", "c": kind}, {"c": ("s", "t u", "a"), "a": ("s", "missing")}, {"c": row, "a": None}),
    ):
        form = DebeziumFormat({**columns, "op": "string"}, "op", decimals, paths)
        told_of, state = ([told], {"a": value}) if paths["c"] == ("a",) else ([within], nested)
        (found,) = said(form.rows([connect(told_of, state, op)]))
        assert {**found, "j": None} == {**expected, "op": op, "j": None}


def struct(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"field": name, "type": "struct", "optional": True, "fields": list(fields)}


def test_a_json_column_and_columns_within_it_have_forms_of_their_own() -> None:
    inner = struct("s", decimal_field(2), {**DAYS, "field": "day"}, {**field("bytes"), "field": "b"})
    columns = {"a": "decimal(9,2)", "s": "json", "day": "date", "raw": "binary", "days": "int64"}
    paths = {"a": ("s", "a"), "day": ("s", "day"), "raw": ("s", "b")}
    form = DebeziumFormat(columns, None, paths=paths)
    values = [
        connect([inner], {"s": {"a": "AJY=", "day": 20_000, "b": "AP8="}}),
        connect([inner], {"s": None}),
        event(after={"s": {"a": 1.5, "day": "2024-10-04", "b": "AP8="}}),
        connect([inner], {"s": 7}),
    ]
    first, none, plain, wrong = said(form.rows(values))
    day = date(2024, 10, 4)
    assert first == {
        "a": Decimal("1.50"), "s": '{"a":"1.50","day":20000,"b":"AP8="}', "day": day, "raw": b"\0\xff", "days": None
    }  # fmt: skip
    assert set(none.values()) == {None}
    assert plain == {**first, "s": '{"a":1.5,"day":"2024-10-04","b":"AP8="}'}
    assert wrong.startswith("column 's': Expected `object | null`, got `int` (7); let the producer write an object")
    assert [found for value in values for found in said(form.rows([value]))] == [first, none, plain, wrong]


def test_without_a_schema_a_field_within_others_is_what_the_user_says() -> None:
    value = event(after={"s": {"a": "1234"}})
    kinds, paths = {"euros": "decimal(9,2)"}, {"euros": ("s", "a")}
    found = [said(DebeziumFormat(kinds, None, how, paths).rows([value]))[0] for how in (None, "text", "base64")]
    assert found[0].startswith("column 'euros': '1234' may be a number or base64")
    assert found[1:] == [{"euros": Decimal("1234.00")}, {"euros": Decimal("-26588.24")}]


@pytest.mark.parametrize(
    ("row", "twice"),
    [
        ('{"a":"AJY=","a":"AJY="}', "a"), ('{"s":{"a":"AJY=","a":"ZA=="}}', "a"), ('{"s":{"a":"AJY="},"s":{}}', "s"),
        ('{"v":{"scale":1,"scale":2,"value":"AJY="}}', "scale"), ('{"j":[{"price":"AJY=","price":"ZA=="}]}', "price"),
    ],
)  # fmt: skip
def test_a_field_that_is_there_twice_is_refused_where_the_schema_reads_it(row: str, twice: str) -> None:
    fields = [
        decimal_field(2), struct("s", decimal_field(2)), {**VARIABLE, "field": "v"},
        {"field": "j", "type": "array", "items": MONEY_IN},
    ]  # fmt: skip
    value = connect(fields, {}).replace(b'"after": {}', f'"after": {row}'.encode())
    columns = {"a": "decimal(9,2)", "v": "decimal(9,2)", "j": "json", "n": "decimal(9,2)"}
    (why,) = said(DebeziumFormat(columns, None, paths={"n": ("s", "a")}).rows([value]))
    assert f"field {twice!r} is there twice" in why


@pytest.mark.parametrize(
    ("kind", "told", "value", "reason"),
    [
        ("decimal(12,2)", field("bytes"), "1234", '"1234" is bytes, which the schema does not call a decimal'),
        ("decimal(12,2)", decimal_field(2), "x", "'x' is not base64, as the schema says"),
        ("decimal(12,2)", decimal_field(2), "", "a decimal of 0 bytes"),
        ("decimal(12,2)", decimal_field(2), base64_of(1 << 600), "a decimal of 76 bytes"),
        ("decimal(12,2)", decimal_field(3), "AQ==", "it has more than 2 digits after the point"),
        ("decimal(12,2)", decimal_field(3), base64_of(1234), "it has more than 2 digits after the point"),
        ("decimal(12,2)", decimal_field(99_999), "AQ==", "whose digits after the point the schema does not say"),
        ("decimal(12,2)", VARIABLE, {"value": "AQ=="}, "is no decimal with its scale and its bytes"),
        ("decimal(12,2)", VARIABLE, {"scale": 1_001, "value": "AQ=="}, "is no decimal with its scale and its bytes"),
        ("binary", field("string"), "00ff", "'00ff' may be hexadecimal or base64"),
        ("date", DAYS, 10**9, "1000000000 days since 1970 are before the year 1 or after 9999"),
        ("date", DAYS, 1.5, "1.5 is no number of days since 1970"),
        ("timestamp", field("int64", "io.debezium.time.Timestamp"), 7, "7 is a time without a zone (io.d"),
        ("timestamp", field("int64", "io.debezium.time.MicroTimestamp"), 7, "to_microseconds(c)"),
        ("timestamp", field("int64", "io.debezium.time.NanoTimestamp"), 7, "to_microseconds(c // 1000)"),
        ("timestamp", field("int64", "org.apache.kafka.connect.data.Timestamp"), 7, "to_microseconds(c * 1000)"),
        ("timestamp", field("string", "io.debezium.time.IsoTimestamp"), "2026-01-01T00:00", "make the column string"),
        ("json", field("array", items=decimal_field(2)), {"x": 1}, "is no array, as the schema says"),
    ],
)  # fmt: skip
def test_what_a_schema_does_not_allow_is_a_dead_letter_that_says_what_to_do(
    kind: str, told: dict[str, Any], value: Any, reason: str
) -> None:
    good = connect([told], {"a": None})
    found = DebeziumFormat({"a": kind}, None).rows([good, connect([told], {"a": value}), good])
    ((at, why),) = found.bad
    assert (at, list(found.at)) == (1, [0, 2])
    assert why.startswith("column 'a': ")
    assert reason in why


@pytest.mark.parametrize(
    ("text", "as_text", "as_base64"),
    [
        ("1234", "1234.00", "-26588.24"), ("9999", "9999.00", "-5326.11"), ("+123", "123.00", "-3036.89"),
        ("AJY=", None, "1.50"), ("1.50", "1.50", None), ("-123", "-123.00", None), ("12345", "12345.00", None),
    ],
)  # fmt: skip
def test_without_a_schema_text_that_may_be_two_things_is_what_the_user_says(
    text: str, as_text: str | None, as_base64: str | None
) -> None:
    value, bare = event(after={"euros": text}), event(after={"euros": text}, schema=True)

    def read(decimals: str | None) -> Decimal | str:
        first, second = (
            said(DebeziumFormat({"euros": "decimal(9,2)"}, None, decimals).rows([one]))[0] for one in (value, bare)
        )
        assert first == second
        return first if isinstance(first, str) else first["euros"]

    for decimals, expected in (("text", as_text), ("base64", as_base64)):
        found = read(decimals)
        assert isinstance(found, str) if expected is None else found == Decimal(expected)
    unsaid = read(None)
    if as_base64 is not None:
        assert isinstance(unsaid, str)
        assert unsaid.startswith(f"column 'euros': {text!r} ")
        assert 'decimals="text"' in unsaid
    else:
        assert unsaid == Decimal(as_text or "")


@pytest.mark.parametrize("value", [12, 12.5, 0])
def test_a_number_is_one_without_a_schema(value: float) -> None:
    (row,) = said(DebeziumFormat({"euros": "decimal(9,2)"}, None).rows([event(after={"euros": value})]))
    assert row == {"euros": Decimal(str(value))}


def test_a_decimal_with_its_own_scale_needs_no_schema() -> None:
    (row,) = said(
        DebeziumFormat({"euros": "decimal(9,2)"}, None).rows([event(after={"euros": {"scale": 1, "value": "Dw=="}})])
    )
    assert row == {"euros": Decimal("1.50")}


@pytest.mark.parametrize(
    "schema",
    [
        7, "x", [], {"type": "struct"}, {"type": "struct", "fields": [7, {"field": "after"}]},
        {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": 7}]},
    ],
)  # fmt: skip
def test_a_schema_that_says_nothing_of_the_row_is_as_none(schema: Any) -> None:
    change = {"op": "c", "before": None, "after": {"id": 1, "euros": "1234"}}
    value = json.dumps({"schema": schema, "payload": change}).encode()
    (why,) = said(DebeziumFormat(COLUMNS, None).rows([value]))
    assert why.startswith("column 'euros': '1234' may be a number or base64")


@given(st.integers(-(10**11) + 1, 10**11 - 1), st.integers(0, 2))
def test_a_number_in_bytes_is_itself_with_a_schema_and_never_another_one_without(number: int, scale: int) -> None:
    text, right = base64_of(number), Decimal(number).scaleb(-scale)
    form = DebeziumFormat({"a": "decimal(13,2)"}, None)
    assert said(form.rows([connect([decimal_field(scale)], {"a": text})])) == [{"a": right}]
    assert isinstance(said(form.rows([event(after={"a": text})]))[0], str)


@pytest.mark.parametrize("kind", ["Timestamp", "MicroTimestamp", "NanoTimestamp"])
def test_what_is_to_be_written_for_a_time_without_a_zone_can_be_written(kind: str) -> None:
    why = local_time(f"io.debezium.time.{kind}", LOCAL_TIMES[f"io.debezium.time.{kind}"])
    number = {"Timestamp": 1_767_225_600_123, "MicroTimestamp": 1_767_225_600_123_000}.get(
        kind, 1_767_225_600_123_000_000
    )
    app = App("p")
    app.query("q", app.source("s", schema={"c": "int64"}).map(t=why.rpartition("of which place it is: ")[2]))
    assert run(app, {"s": [{"c": number}]})["q"] == [{"t": "2025-12-31T23:00:00.123000Z"}]
