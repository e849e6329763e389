"""What records' keys hold: columns of records with a value, and rows of those without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.ingress.decoder import Decoded
from borealis_py.ingress.decoders import decoder_for
from borealis_py.log.base import Feed, Record
from borealis_py.log.schema_registry import RegisteredSchema
from borealis_py.query.errors import QueryError
from borealis_py.testing import TopicRecord, run
from tests.support.schema_registry import ToldRegistry, avro_record, avro_schema, framed

MS = 1_700_000_000_000
SCHEMA = {"item": "string", "price": "double", "at": "int64"}
PAIR = avro_schema(shop="string", id="long", other="string")
SCHEMAS = {1: '"string"', 2: '"long"', 3: PAIR, 4: '["null", "string"]', 5: '{"type": "array", "items": "string"}'}
REGISTRY = ToldRegistry({i: RegisteredSchema("AVRO", text, ()) for i, text in SCHEMAS.items()}, complete=True)


def decoded(
    records: list[tuple[bytes | None, bytes | None]], schema: dict[str, str] | None = None, **more: Any
) -> Decoded:
    app = App("shop")
    app.query("q", app.topic("t", "prod.t", schema or SCHEMA, partitions=1, **more).filter("true"))
    spec = app.describe()
    decoder = decoder_for("t", spec.ingresses["t"], spec.sources["t"], 10_000, registry=REGISTRY)
    found = [Record(Feed("t"), i, MS + i, key, value) for i, (key, value) in enumerate(records)]
    assert decoder.ready(found) == len(found)
    return decoder.decode(found)


def test_a_record_without_a_value_is_a_row_of_its_key_at_the_time_of_its_record() -> None:
    value = b'{"item":"tea","price":2.5,"at":%d}' % (MS * 1_000)
    found = decoded([(b"tea", value), (b"tea", None), (b'"chai"', None), (b"7", None)], key="item", stime="at")
    assert found.rows.to_pylist() == [
        {"item": "tea", "price": 2.5, "at": MS * 1_000},
        *({"item": item, "price": None, "at": None} for item in ("tea", "chai", "7")),
    ]
    assert found.stimes.tolist() == [MS * 1_000, *((MS + i) * 1_000 for i in (1, 2, 3))]
    assert found.at.tolist() == [0, 1, 2, 3]
    assert found.bad == ()


def test_a_key_of_another_type_is_its_value_in_json() -> None:
    schema = {"id": "int64", "euros": "decimal(8,2)"}
    assert decoded([(b"7", None), (b"-8", None)], schema, key="id").rows.column("id").to_pylist() == [7, -8]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (None, "no value, and no key, which names the row that it deletes"),
        (b"", "no value, and its key is no 'id': "),
        (b"tea", "no value, and its key is no 'id': "),
        (b'7,"euros":1', "no value, and its key is no 'id': "),
        (b"\x00\x00\x00\x00\x07\xff", "no value, and its key is no 'id': not JSON: "),
        (b"7.5", "no value, and its key is no 'id': "),
    ],
)
def test_a_key_that_says_nothing_costs_its_record_alone(key: bytes | None, why: str) -> None:
    found = decoded([(b"1", None), (key, None), (b"2", b"{")], {"id": "int64", "euros": "double"}, key="id")
    assert found.rows.column("id").to_pylist() == [1]
    assert [position for position, _ in found.bad] == [1, 2]
    assert found.bad[0][1].startswith(why)
    assert found.bad[1][1].startswith("malformed: ")


def test_without_a_column_for_it_such_a_record_is_no_row() -> None:
    assert decoded([(b"tea", None)]).bad == ((0, "no value: a tombstone is no row"),)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"key": "itm"}, "unknown column 'itm' in key of topic 't'; did you mean 'item'"),
        ({"key": "item", "by": "at", "values": [1]}, "nobody could tell which input it is for"),
        ({"key": "item", "format": "debezium"}, r"give Debezium\(op=...\)"),
        ({"key": []}, "give the name of a column, or several"),
        ({"key": ["item", "item"]}, "has a column twice"),
        ({"key": "item", "key_format": "xml"}, "choose json or text or int"),
        ({"key_format": "json"}, "give both"),
        ({"key": ["item", "at"], "key_format": "text"}, "names 2 columns"),
        ({"key": "item", "key_format": "int"}, "'item' is a string"),
    ],
)
def test_what_makes_no_sense_with_it_is_refused(more: dict[str, Any], why: str) -> None:
    app = App("shop")
    with pytest.raises(QueryError, match=why):
        app.topic("t", "prod.t", SCHEMA, **more)


def avro_text(text: str) -> bytes:
    return bytes([2 * len(text)]) + text.encode()


FORMS: list[tuple[str | None, str, Callable[[Any], bytes], Any]] = [
    (None, "string", str.encode, "tea"),
    (None, "string", lambda text: json.dumps(text).encode(), "tea"),
    (None, "string", lambda text: json.dumps({"k": text, "more": 1}).encode(), "tea"),
    (None, "string", lambda text: json.dumps({"schema": {"type": "string"}, "payload": text}).encode(), "tea"),
    (None, "string", lambda text: json.dumps({"schema": {}, "payload": {"k": text}}).encode(), "tea"),
    (None, "string", str.encode, ""),
    (None, "string", str.encode, "[1"),
    (None, "int64", lambda n: b"%d" % n, 7),
    (None, "int64", lambda n: b'{"k":%d}' % n, 7),
    (None, "decimal(20,2)", lambda n: n.encode(), "123456789012345678.25"),
    (None, "bool", lambda _: b"true", True),
    (None, "json", lambda text: text.encode(), '{"a":1}'),
    ("json", "string", lambda text: json.dumps(text).encode(), "tea"),
    ("text", "string", str.encode, '"tea"'),
    ("text", "string", str.encode, '{"k":1}'),
    ("text", "string", str.encode, ""),
    ("text", "int64", lambda n: b"%d" % n, -7),
    ("int", "int64", lambda n: n.to_bytes(8, signed=True), -(2**63)),
    ("int", "int64", lambda n: n.to_bytes(4, signed=True), -5),
    ("int", "int64", lambda n: n.to_bytes(2, signed=True), 300),
    ("avro", "string", lambda text: framed(1, avro_text(text)), "tea"),
    ("avro", "int64", lambda n: framed(2, bytes([2 * n])), 5),
    ("avro", "string", lambda text: framed(4, b"\2" + avro_text(text)), "tea"),
    ("json-schema", "string", lambda text: framed(9, json.dumps(text).encode()), "tea"),
    ("json-schema", "string", lambda text: framed(9, json.dumps({"k": text}).encode()), "tea"),
]


@pytest.mark.parametrize(("form", "kind", "written", "value"), FORMS)
def test_a_key_fills_the_column_of_a_record_with_a_value_and_of_one_without(
    form: str | None, kind: str, written: Callable[[Any], bytes], value: Any
) -> None:
    key = written(value)
    found = decoded([(key, b'{"v":1}'), (key, None)], {"k": kind, "v": "int64"}, key="k", key_format=form)
    assert found.bad == ()
    assert [str(one) if kind.startswith("decimal") else one for one in found.rows.column("k").to_pylist()] == [
        value
    ] * 2
    assert found.rows.column("v").to_pylist() == [1, None]


def test_a_key_of_several_columns_is_an_object() -> None:
    schema = {"shop": "string", "id": "int64", "v": "double"}
    record = avro_record(PAIR, {"shop": "a", "id": 3, "other": "x"})
    for form, key in ((None, b'{"shop":"a","id":3,"other":"x"}'), ("avro", framed(3, record))):
        found = decoded([(key, b'{"v":2}'), (key, None)], schema, key=["shop", "id"], key_format=form)
        assert found.bad == ()
        assert found.rows.to_pylist() == [{"shop": "a", "id": 3, "v": v} for v in (2.0, None)]


@pytest.mark.parametrize(
    ("form", "key", "why"),
    [
        (None, b'{"id":1}', "it is an object without item; it has 'id'"),
        (None, b"\0\0\0\0\1\6tea", "it begins with a zero byte, so it is no text; name its form with key_format="),
        (None, b"\xff\xfe", "it is not UTF-8"),
        ("json", b"tea", "not JSON: "),
        ("json", b"7", "column 'item': "),
        ("text", b"\xff", "it is not UTF-8"),
        ("avro", b"tea", "it begins with 74 65 61, not with a zero byte"),
        ("avro", framed(8, b""), "schema 8: the registry does not know it"),
        ("avro", framed(5, b"\0"), "schema 5: "),
        ("avro", framed(2, b"\2"), "schema 2: column 'item': "),
        ("json-schema", b'"tea"', "it begins with 22 74 65 61 22, not with a zero byte"),
    ],
)
def test_a_key_in_another_form_is_a_dead_letter_with_what_to_write(form: str | None, key: bytes, why: str) -> None:
    found = decoded([(b"", b"{"), (key, b'{"price":1}'), (key, None)], key="item", key_format=form)
    assert len(found) == 3
    assert len(found.rows) == 0
    (_, with_value), (_, without) = found.bad[1:]
    assert with_value.startswith(f"malformed: its key is no 'item': {why}")
    assert with_value.endswith("leave key= out, and read a table as app.topic(...).table(...)")
    assert without.startswith(f"no value, and its key is no 'item': {why}")


@pytest.mark.parametrize("key", [b"abc", bytes(3), bytes(16), b""])
def test_a_number_of_other_bytes_is_no_int(key: bytes) -> None:
    [(_, why)] = decoded([(key, b"{}")], {"id": "int64", "v": "int64"}, key="id", key_format="int").bad
    assert f"it has {len(key)} bytes; an integer of Kafka's serializers has 2, 4 or 8" in why


def test_two_places_that_disagree_or_hold_nothing_are_dead_letters() -> None:
    found = decoded(
        [
            (b"tea", b'{"item":"tea","price":1}'),
            (b"tea", b'{"item":"pie","price":2}'),
            (None, b'{"item":"pie","price":3}'),
            (None, b'{"price":4}'),
            (b"null", b'{"price":5}'),
        ],
        key="item",
    )
    assert found.rows.column("price").to_pylist() == [1, 3, 5]
    assert found.rows.column("item").to_pylist() == ["tea", "pie", "null"]
    assert [at for at, _ in found.bad] == [1, 3]
    assert found.bad[0][1].startswith("malformed: its key holds item = 'tea', its value item = 'pie'; where keys mean")
    assert found.bad[1][1] == "malformed: neither its key nor its value holds 'item'"


Keys = st.sampled_from([None, b"1", b"2", b"x", b"null"])
Values = st.sampled_from([None, b"{", b"{}", b'{"id":1}', b'{"id":2}', b'{"id":null}', b'{"v":3}', b'{"id":1,"v":3}'])


@given(st.lists(st.tuples(Keys, Values), max_size=8))
def test_each_record_is_read_as_if_it_were_alone(records: list[tuple[bytes | None, bytes | None]]) -> None:
    schema = {"id": "int64", "v": "int64"}
    whole = decoded(records, schema, key="id")
    alone = [decoded([one], schema, key="id") for one in records]
    assert whole.rows.to_pylist() == [row for one in alone for row in one.rows.to_pylist()]
    assert [why for _, why in whole.bad] == [why for one in alone for _, why in one.bad]
    assert sorted([*whole.at.tolist(), *(at for at, _ in whole.bad)]) == list(range(len(records)))


def test_keys_wait_for_their_schema_too() -> None:
    registry = ToldRegistry()
    app = App("shop")
    app.query("q", app.topic("t", "prod.t", SCHEMA, partitions=1, key="item", key_format="avro"))
    spec = app.describe()
    assert spec.ingresses["t"].needs_registry
    decoder = decoder_for("t", spec.ingresses["t"], spec.sources["t"], 10_000, registry=registry)
    records = [Record(Feed("t"), i, MS, key, b"{}") for i, key in enumerate((None, framed(1, avro_text("tea"))))]
    assert decoder.ready(records) == 1
    assert decoder.waits_for().startswith("schema 1: ")
    registry.schemas = REGISTRY.schemas
    assert decoder.ready(records) == 2
    assert decoder.decode(records[1:]).rows.column("item").to_pylist() == ["tea"]


def test_a_table_is_looked_up_by_keys_that_only_kafka_has() -> None:
    app = App("shop")
    orders = app.source("orders", {"item": "string", "n": "int64"})
    prices = app.table(
        "prices", ["shop", "item"], {"shop": "string", "item": "string", "price": "double"}, topic="p", lateness="0s",
        partitions=1,
    )  # fmt: skip
    app.query("q", orders.map(shop="'a'", item="item", n="n").lookup(prices, on=["shop", "item"]))
    results = run(
        app,
        {
            "prices": [
                TopicRecord({"price": 2.5}, key={"shop": "a", "item": "tea"}, timestamp="0s"),
                TopicRecord({"price": 9.0}, key={"shop": "b", "item": "tea"}, timestamp="1s", headers={"x": b"1"}),
                TopicRecord(None, key={"shop": "a", "item": "tea"}, timestamp="4s"),
            ],
            "orders": [("2s", {"item": "tea", "n": 1}), ("6s", {"item": "tea", "n": 2})],
        },
    )
    assert [(row["n"], row["price"]) for row in results["q"]] == [(1, 2.5), (2, None)]
