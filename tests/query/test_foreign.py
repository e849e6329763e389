"""What a user writes about a topic of other programs becomes a value, or an error that says what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from borealis_py import CSV, App, Avro, Debezium, QueryError
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.query.partitions import physical

SCHEMA = {"id": "int64", "shop": "string", "euros": "double", "at": "int64", "kind": "string", "paid": "bool"}


def topic(**arguments: Any) -> IngressSpec:
    app = App("shop")
    given: Mapping[str, Any] = {"topic": "prod.orders", "schema": SCHEMA} | arguments
    orders = app.topic("orders", **given)
    assert orders.columns == tuple(SCHEMA)
    app.query("q", orders.filter("euros > 0"))
    spec = app.describe()
    assert type(spec).from_json(spec.to_json()) == spec
    return spec.ingresses["orders"]


def test_the_defaults() -> None:
    assert topic() == IngressSpec(topic="prod.orders", lateness_us=2_000_000)


def test_everything_said() -> None:
    found = topic(
        format="json", stime="at", stime_unit="ms", lateness="0s", boundary="clock", expect="1.5s",
        heartbeat="kind = 'ping'", by="shop", values=["berlin", "paris"], start="earliest", cluster="eu",
    )  # fmt: skip
    assert found == IngressSpec(
        topic="prod.orders", cluster="eu", stime="at", stime_unit="ms", lateness_us=0, expect_us=1_500_000,
        heartbeat="kind = 'ping'", by="shop", values=("berlin", "paris"), inputs=3, start="earliest",
    )  # fmt: skip


def test_what_csv_is_made_of() -> None:
    found = topic(format=CSV(fields=["note", *SCHEMA], delimiter=";"))
    assert (found.fields, found.delimiter) == (("note", *SCHEMA), ";")
    assert found.determining() != topic(format=CSV(fields=["note", *SCHEMA])).determining()
    assert found.determining() != topic(format=CSV(delimiter=";")).determining()
    assert topic(format="csv").determining() != topic().determining()


def test_what_means_null_decides_which_rows_there_are() -> None:
    found = topic(format=CSV(nulls=["NULL", "NA", "NA"]))
    assert found.nulls == ("NA", "NULL")
    assert found.determining() == topic(format=CSV(nulls=["NA", "NULL"])).determining()
    assert found.determining() != topic(format="csv").determining()


def test_a_writer_schema_has_one_form() -> None:
    schema = {"type": "record", "name": "R", "fields": []}
    found = topic(format=Avro(schema))
    assert found.writer_schema == '{"type":"record","name":"R","fields":[]}'
    assert topic(format=Avro('{"type": "record", "name": "R", "fields": []}')) == found
    assert topic(format=Avro({**schema, "name": "S"})).determining() != found.determining()


def test_what_text_in_decimal_columns_is_decides_which_rows_there_are() -> None:
    found = topic(format=Debezium(decimals="text"))
    assert found.decimals == "text"
    assert found.determining() != topic(format="debezium").determining()
    assert found.determining() != topic(format=Debezium(decimals="base64")).determining()


def test_the_column_of_the_operation_decides_which_rows_there_are() -> None:
    found = topic(format=Debezium(op="kind"))
    assert found.op == "kind"
    assert found.determining() != topic(format="debezium").determining() != topic().determining()


def test_its_inputs_are_partitions_of_the_source() -> None:
    app = App("shop")
    orders = app.topic("orders", topic="prod.orders", schema=SCHEMA, partitions=3)
    shops = app.topic("shops", topic="prod.orders", schema=SCHEMA, by="shop", values=["berlin"])
    app.query("q", app.union(orders, shops))
    assert list(physical(app.describe()).sources) == ["orders.0", "orders.1", "orders.2", "shops.0", "shops.1"]


def test_a_topic_is_a_source_of_the_app() -> None:
    app = App("shop")
    app.topic("orders", topic="prod.orders", schema=SCHEMA)
    with pytest.raises(QueryError, match="already has a source of this name"):
        app.source("orders", schema=SCHEMA)
    with pytest.raises(QueryError, match="already has a source of this name"):
        app.topic("orders", topic="prod.other", schema=SCHEMA)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"topic": "prod orders"}, r"topic='prod orders' is not the name of a Kafka topic"),
        ({"topic": ".."}, "not the name of a Kafka topic"),
        ({"topic": 7}, "not the name of a Kafka topic"),
        ({"schema": {}}, "has no columns"),
        ({"schema": {"a": "txt"}}, "did you mean 'text'"),
        ({"format": "xml"}, r"format='xml'; choose json or csv or text or avro or protobuf or json-schema or debezium"),
        ({"format": Debezium(op="knd")}, r"unknown column 'knd' in op of topic 'orders'; did you mean 'kind'\?"),
        ({"format": Debezium(op="id")}, "op='id' is a int64; the operation .* is a string"),
        ({"format": "jsno"}, r"format='jsno'; did you mean 'json'\? choose json"),
        ({"format": CSV(fields=[*SCHEMA, "id"])}, "fields has 'id' twice"),
        ({"format": CSV(fields=["id"])}, "the schema has 'shop', 'euros', .*, which fields= does not name"),
        ({"format": "text"}, "format='text' is the whole record as one column of string or binary"),
        ({"format": "text", "schema": {"n": "int64"}}, "this schema has n: int64"),
        ({"stime": "att"}, r"unknown column 'att' in stime of topic 'orders'; did you mean 'at'\?"),
        ({"stime": ["at"]}, r"unknown column .\['at'\]. in stime of topic 'orders'"),
        ({"stime": "paid"}, "stime='paid' is a bool; a row's time is a column of int64 or timestamp or double or"),
        ({"stime": "at", "stime_format": "%Y"}, "stime_format='%Y' is about text, and 'at' is a int64"),
        ({"stime": "shop", "stime_format": "%Y-%m"}, "stime_format='%Y-%m' leaves year, month or day open"),
        ({"stime": "shop", "stime_format": "%Y-%m-%d %I:%M"}, "has an hour of 12 and no %p"),
        ({"stime": "shop", "stime_format": "soon"}, "stime_format='soon' is no format of a time"),
        ({"stime": "shop", "stime_format": "%Y-%m-%d %Q"}, "is no format of a time"),
        ({"stime": "shop", "stime_format": "%Y-%m-%d", "stime_unit": "ms"}, "leave one out"),
        ({"stime_format": "%Y-%m-%d"}, "is about the column that stime= names: name it"),
        ({"stime": "at", "stime_unit": "min"}, r"stime_unit='min'; .*choose s or ms or us or ns"),
        ({"stime_unit": "ms"}, "without stime= a row's time is its record's timestamp"),
        ({"lateness": "soon"}, "lateness of topic 'orders': 'soon' is not a duration"),
        ({"lateness": "-1s"}, "must not be negative"),
        ({"boundary": "clok"}, r"boundary='clok'; did you mean 'clock'\?"),
        ({"expect": "0s"}, "expect of topic 'orders': '0s' must be more than zero"),
        ({"boundary": "data", "expect": "1s"}, r"with 'data' an input is missing as soon as it is silent"),
        ({"heartbeat": " "}, "give an SQL condition over id, shop"),
        ({"by": "shop"}, "by and values go together"),
        ({"values": ["x"]}, "by and values go together"),
        ({"by": "shopp", "values": ["x"]}, r"unknown column 'shopp' in by of topic 'orders'; did you mean 'shop'\?"),
        ({"by": "euros", "values": [1.0]}, "by='euros' is a double"),
        ({"by": "shop", "values": "berlin"}, "give a list of values"),
        ({"by": "shop", "values": []}, "give a list of values"),
        ({"by": "shop", "values": ["berlin", 1]}, "values has 1, but 'shop' is a string"),
        ({"by": "id", "values": [1, True]}, "values has True, but 'id' is a int64"),
        ({"by": "shop", "values": ["a", "a"]}, "has a value twice"),
        ({"by": "id", "values": list(range(64))}, "64 values are too many"),
        ({"start": "newest"}, r"start='newest'; .*choose latest or earliest"),
        ({"cluster": "e u"}, "`clusters:` in borealis.yaml"),
        ({"partitions": 0}, "give the topic's number of partitions"),
        ({"partitions": True}, "give the topic's number of partitions"),
        ({"by": "shop", "values": ["a"], "partitions": 2}, "partitions= does not go with by="),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_does(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(QueryError, match=told):
        topic(**arguments)
