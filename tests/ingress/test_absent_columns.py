"""Columns that no record of a topic has had: exactly those, and what the records have instead."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.absent_columns import SAID_AFTER, AbsentColumn, near
from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.decoders import decoder_for
from borealis_py.ingress.formats.base import RecordFormat
from borealis_py.ingress.formats.debezium import DebeziumFormat
from borealis_py.ingress.formats.delimited import CsvFormat
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.formats.json_schema import JsonSchemaFormat
from borealis_py.ingress.formats.plain_text import TextFormat
from borealis_py.log.base import Feed, Record
from borealis_py.query.ingress_spec import IngressSpec
from tests.support.schema_registry import ToldRegistry, avro_record, avro_schema, framed

COLUMNS = {"userId": "int64", "name": "string", "note": "string"}


def decoder(form: RecordFormat) -> TopicDecoder:
    return TopicDecoder(form, None, "us", 1_000_000)


def records(values: list[bytes | None], key: bytes | None = None) -> list[Record]:
    return [Record(Feed("t"), i, 1_700_000_000_000, key, value) for i, value in enumerate(values)]


def in_json(*objects: dict[str, Any]) -> list[bytes | None]:
    return [json.dumps(one).encode() for one in objects]


def test_a_column_of_another_name_is_told_with_the_name_that_records_have() -> None:
    reader = decoder(JsonFormat(COLUMNS))
    reader.decode(records(in_json({"user_id": 1, "name": "x"})))
    reader.decode(records(in_json({"user_id": 2, "name": "y"}, {"user_id": 3, "NOTE": "z"})))
    assert reader.absent.found() == (AbsentColumn("note", 3, "NOTE"), AbsentColumn("userId", 3, "user_id"))


def test_a_column_with_no_near_name_may_be_rare_and_is_told_after_many_records() -> None:
    reader = decoder(JsonFormat(COLUMNS))
    reader.decode(records(in_json({"userId": 1, "name": "x"}) * (SAID_AFTER - 1)))
    assert reader.absent.found() == ()
    reader.decode(records(in_json({"userId": 1, "name": "x"})))
    assert reader.absent.found() == (AbsentColumn("note", SAID_AFTER),)


def test_a_column_is_known_once_a_record_has_it_be_it_null() -> None:
    reader = decoder(JsonFormat(COLUMNS))
    reader.decode(records(in_json({"user_id": 1}) * SAID_AFTER))
    assert [one.name for one in reader.absent.found()] == ["name", "note", "userId"]
    reader.decode(records(in_json(*[{"user_id": 1}] * 9, {"userId": None, "name": "x"})))
    assert [one.name for one in reader.absent.found()] == ["note"]
    reader.decode(records(in_json({"note": None})))
    assert reader.absent.found() == ()


def test_a_name_deeper_in_a_record_or_in_a_text_is_no_field() -> None:
    reader = decoder(JsonFormat(COLUMNS))
    reader.decode(records(in_json({"name": "userId", "note": '"userId":1', "in": {"userId": 1}}) * SAID_AFTER))
    assert [one.name for one in reader.absent.found()] == ["userId"]


def test_records_that_are_no_rows_do_not_count() -> None:
    reader = decoder(JsonFormat(COLUMNS))
    reader.decode(records([*in_json({"name": 7}, {"userId": "x"}), b"{", None]))
    assert reader.absent.found() == ()
    reader.decode(records(in_json({"user_id": 1, "name": "a", "note": "b"}, {"userId": "x"})))
    assert reader.absent.found() == (AbsentColumn("userId", 1, "user_id"),)


def test_a_column_that_keys_hold_need_not_be_in_values() -> None:
    for paths in ({}, {"userId": ("user", "user-id"), "note": ("user", "note")}):
        spec = IngressSpec(topic="t", key=("userId",), lateness_us=0, paths=paths)
        reader = decoder_for("t", spec, COLUMNS, 1_000_000)
        found = reader.decode(records([*in_json({"name": "x"}) * SAID_AFTER, None], key=b"7"))
        assert found.rows.column("userId").to_pylist() == [7] * (SAID_AFTER + 1)
        assert [one.name for one in reader.absent.found()] == ["note"]


def test_of_avro_the_schemas_of_the_records_that_were_read_count() -> None:
    pytest.importorskip("fastavro", reason="fastavro is not installed: pip install 'borealis-py[avro]'")
    from borealis_py.log.schema_registry import RegisteredSchema

    old, new = avro_schema(user_id="long"), avro_schema(userId=["null", "long"], name="string", note="string")
    registry = ToldRegistry({7: RegisteredSchema("AVRO", old), 8: RegisteredSchema("AVRO", new)})
    reader = decoder_for("t", IngressSpec(topic="t", format="avro", lateness_us=0), COLUMNS, 1_000, registry=registry)
    first = records([framed(7, avro_record(old, {"user_id": 1}))] * 2)
    assert reader.ready(first) == 2
    reader.decode(first)
    assert reader.absent.found() == (AbsentColumn("userId", 2, "user_id"),)
    then = records([framed(8, avro_record(new, {"userId": None, "name": "x", "note": "y"}))])
    assert reader.ready(then) == 1
    reader.decode(then)
    assert reader.absent.found() == ()


PATHS = {"at": ("@timestamp",), "lat": ("geo", "lat"), "lon": ("geo", "lon"), "c": ("a b", "q t", "größe")}
OF_PATHS = {"at": "string", "lat": "double", "lon": "double", "c": "int64", "id": "int64"}


def by_paths(form: Any, *more: Any) -> TopicDecoder:
    return TopicDecoder(form(OF_PATHS, *more, paths=PATHS), None, "us", 1_000_000, paths=PATHS)


def absent(reader: TopicDecoder) -> list[tuple[str, str, str]]:
    return [(one.name, one.field, one.near) for one in reader.absent.found()]


def test_a_field_at_the_end_of_a_path_counts_and_not_one_of_the_columns_name() -> None:
    reader = by_paths(JsonFormat)
    reader.decode(records(in_json({"at": "x", "lat": 1, "geo": {}, "a b": {"größe": 1}, "id": 1}) * SAID_AFTER))
    at, c = ("at", "@timestamp", ""), ("c", '$["a b"]["q t"].größe', "")
    assert absent(reader) == [at, c, ("lat", "$.geo.lat", ""), ("lon", "$.geo.lon", "")]
    reader.decode(records(in_json({"@timestamp": None, "geo": {"lat": None}, "a b": {"q t": {"größe": None}}})))
    assert absent(reader) == [("lon", "$.geo.lon", "")]


def test_an_object_that_is_null_in_all_records_says_nothing_of_its_fields() -> None:
    reader = by_paths(JsonFormat)
    row = {"@timestamp": "x", "geo": None, "a b": {"q t": None}, "id": 1}
    reader.decode(records(in_json(row) * SAID_AFTER))
    assert absent(reader) == []
    reader.decode(records(in_json({**row, "geo": {"latt": 1, "lon": 2}})))
    assert absent(reader) == [("lat", "$.geo.lat", "$.geo.latt")]


@pytest.mark.parametrize(
    ("row", "name", "near"),
    [
        ({"timestamp": 1}, "at", "timestamp"),
        ({"Geo": {"lat": 1}}, "lat", "Geo"),
        ({"geo": {"Lat": 1}}, "lat", "$.geo.Lat"),
        ({"geo.lat": 1}, "lat", "geo.lat"),
        ({"a b": {"q t": {"grösse": 1}}}, "c", '$["a b"]["q t"].grösse'),
        ({"a b": {"q-t": {}}}, "c", '$["a b"].q-t'),
        ({"geo": {"lon": 1}}, "lat", ""),  # another column's own field
    ],
)
def test_the_nearest_field_is_named_by_the_way_to_it(row: dict[str, Any], name: str, near: str) -> None:
    reader = by_paths(JsonFormat)
    reader.decode(records(in_json(row) * SAID_AFTER))
    assert {one.name: one.near for one in reader.absent.found()}[name] == near


@pytest.mark.parametrize("ascii", [True, False])
@pytest.mark.parametrize("form", ["json", "json-schema", "debezium"])
def test_a_field_is_found_however_its_name_is_written(form: str, ascii: bool) -> None:
    kinds: dict[str, tuple[TopicDecoder, Any]] = {
        "json": (by_paths(JsonFormat), lambda row: row),
        "json-schema": (by_paths(JsonSchemaFormat), lambda row: bytes(5) + row),
        "debezium": (by_paths(DebeziumFormat, None), lambda row: b'{"op":"c","after":' + row + b"}"),
    }
    reader, around = kinds[form]
    row = {"@timestamp": None, "geo": {"lat": None, "lon": None}, "a b": {"q t": {"größe": None}}, "id": None}
    reader.decode(records([around(json.dumps(row, ensure_ascii=ascii).encode())] + [around(b"{}")] * SAID_AFTER))
    assert absent(reader) == []
    escaped = b'{"\\u0069d":null,"\\u0040timestamp":null}'
    reader = kinds[form][0]
    reader.decode(records([around(escaped)] + [around(b"{}")] * SAID_AFTER))
    assert absent(reader) == []


def test_of_avro_paths_are_looked_up_in_the_schema() -> None:
    pytest.importorskip("fastavro", reason="fastavro is not installed: pip install 'borealis-py[avro]'")
    from borealis_py.ingress.formats.avro import AvroFormat

    geo = {
        "type": "record",
        "name": "Geo",
        "fields": [{"name": n, "type": ["null", "double"]} for n in ("lat", "lonn")],
    }
    schema = avro_schema(geo=["null", geo], at="string", id=["null", "long"])
    form = AvroFormat(OF_PATHS, schema, paths=PATHS)
    reader = TopicDecoder(form, None, "us", 1_000_000, paths=PATHS)
    reader.decode(records([avro_record(schema, {"geo": None, "at": "x", "id": None})] * SAID_AFTER))
    c = ("c", '$["a b"]["q t"].größe', "")
    assert absent(reader) == [("at", "@timestamp", ""), c, ("lon", "$.geo.lon", "$.geo.lonn")]
    assert form.fields(b"", ("at",)) == []


FORMATS: dict[str, tuple[RecordFormat, Any]] = {
    "json": (JsonFormat(COLUMNS), lambda row: json.dumps(row).encode()),
    "json-schema": (JsonSchemaFormat(COLUMNS), lambda row: bytes(5) + json.dumps(row).encode()),
    "debezium": (DebeziumFormat(COLUMNS, None), lambda row: json.dumps({"op": "c", "after": row}).encode()),
}
ROWS = st.dictionaries(
    st.sampled_from([*COLUMNS, "user_id", "übrig"]), st.none() | st.sampled_from(["userId", "note"]), max_size=4
).map(lambda row: {**row, **({"userId": 7} if row.get("userId") else {})})


@pytest.mark.parametrize("name", FORMATS)
@given(batches=st.lists(st.lists(ROWS, max_size=4), max_size=4))
def test_exactly_the_columns_that_no_record_has_are_absent(name: str, batches: list[list[dict[str, Any]]]) -> None:
    form, written = FORMATS[name]
    reader, rows = decoder(form), [row for batch in batches for row in batch]
    for batch in batches:
        reader.decode(records([written(row) for row in batch]))
    more = {"übrig": 1}
    reader.decode(records([written(more)] * SAID_AFTER))
    expected = sorted(set(COLUMNS) - {field for row in rows for field in row})
    assert [one.name for one in reader.absent.found()] == expected


def test_of_csv_a_column_is_absent_where_every_line_is_too_short_for_it() -> None:
    reader = decoder(CsvFormat(COLUMNS, tuple(COLUMNS), ","))
    reader.decode(records([b"1,x", b'2,"y"'] * SAID_AFTER))
    assert reader.absent.found() == (AbsentColumn("note", 2 * SAID_AFTER),)
    reader.decode(records([b"3,,"]))
    assert reader.absent.found() == ()


def test_a_text_is_a_column_that_is_always_there() -> None:
    form = TextFormat({"line": "string"})
    assert form.fields(b"x") == ["line"]
    reader = decoder(form)
    reader.decode(records([b"x"] * SAID_AFTER))
    assert reader.absent.found() == ()


@pytest.mark.parametrize(
    ("name", "others", "found"),
    [
        ("userId", ["user_id", "id"], "user_id"), ("userId", ["USERID"], "USERID"), ("user_id", ["user-id"], "user-id"),
        ("euros", ["euro"], "euro"), ("city", ["country"], ""), ("at", [], ""), ("größe", ["GRÖSSE"], "GRÖSSE"),
        ("_", ["-"], ""),
    ],
)  # fmt: skip
def test_the_nearest_name_differs_in_case_marks_or_few_letters(name: str, others: list[str], found: str) -> None:
    assert near(name, others) == found
