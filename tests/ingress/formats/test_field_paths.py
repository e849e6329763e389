"""Columns that are not the field of their name, in each format that has fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py import App, Avro
from borealis_py.ingress.decoder import Decoded
from borealis_py.ingress.decoders import decoder_for
from borealis_py.log.base import Feed, Record
from borealis_py.log.schema_registry import RegisteredSchema
from borealis_py.testing import TopicRecord, run
from borealis_py.types.plain_json import PlainDecoder
from tests.support.schema_registry import ToldRegistry, avro_record, avro_schema, framed

MS = 1_700_000_000_000


def decoded(values: list[bytes], schema: Any, registry: ToldRegistry | None = None, **more: Any) -> Decoded:
    app = App("shop")
    app.query("q", app.topic("t", "prod.t", schema, partitions=1, **more))
    spec = app.describe()
    decoder = decoder_for("t", spec.ingresses["t"], spec.sources["t"], 10_000, registry=registry)
    records = [Record(Feed("t"), i, MS + i, None, value) for i, value in enumerate(values)]
    assert decoder.ready(records) == len(records)
    return decoder.decode(records)


FIELDS = ["", "@timestamp", "user-id", "geo.lat", "Date Time", "größe", "1st", "$ref", "select", "stime"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_any_name_is_a_column(field: str) -> None:
    path = f"$[{json.dumps(field)}]"
    for kind, value in (("int64", 7), ("decimal(4,2)", "7.25")):
        found = decoded([json.dumps({field: value}).encode(), b"{}"], {"c": (kind, path)})
        assert [None if one is None else str(one) for one in found.rows.column("c").to_pylist()] == [str(value), None]
        assert found.bad == ()


Objects = st.recursive(
    st.none() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "c d"]), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)
PATHS = {"x": ("a",), "y": ("b", "a"), "z": ("b", "c d", "a"), "w": ("b", "b"), "j": ("c d",), "k": ("c d", "a")}
TYPES = {"x": "int64", "y": "int64", "z": "string", "w": "json", "j": "json", "k": "int64"}
KINDS = {"int64": int, "string": str}


def walked(found: Any, path: tuple[str, ...], kind: str) -> Any:
    """By hand: the value at the end of the path. Raises TypeError where an object or a value is of another type."""
    for name in path:
        if found is None:
            return None
        if not isinstance(found, dict):
            raise TypeError
        found = found.get(name)
    if found is None:
        return None
    if kind == "json":
        return json.dumps(found, separators=(",", ":"), ensure_ascii=False)
    if type(found) is not KINDS[kind]:
        raise TypeError
    return found


@given(st.dictionaries(st.sampled_from(["a", "b", "c d"]), Objects, max_size=3))
def test_nested_fields_are_what_a_walk_by_hand_finds(record: dict[str, Any]) -> None:
    row = PlainDecoder(TYPES, PATHS).row(json.dumps(record, ensure_ascii=False).encode())
    try:
        expected: Any = tuple(walked(record, PATHS[name], kind) for name, kind in TYPES.items())
    except TypeError:
        assert isinstance(row, str)
        assert row.startswith(("column '", "field '"))
        return
    assert row == expected


NO_OBJECT = "let the producer write an object there, or read it whole as a json column, without columns for its fields"


def test_an_object_that_is_none_names_itself_and_a_value_its_column() -> None:
    schema = {"lat": ("double", "$.geo.lat"), "geo": "json", "id": ("int64", "$.user.user-id")}
    found = decoded([b'{"geo":{"lat":"x"}}', b'{"geo":3}', b'{"user":"x"}', b'{"user":{"user-id":1.5}}'], schema)
    assert [why for _, why in found.bad] == [
        "malformed: column 'lat': Expected `float | null`, got `str` ('x'); make the column string",
        f"malformed: column 'geo': Expected `object | null`, got `int` (3); {NO_OBJECT}",
        f"malformed: field 'user': Expected `object | null`, got `str` ('x'); {NO_OBJECT}",
        "malformed: column 'id': Expected `int | null`, got `float` (1.5); make the column double",
    ]


def test_json_schema_debezium_and_avro_read_the_same_paths() -> None:
    schema = {"lat": ("double", "$.geo.lat"), "n": ("int64", "id")}
    row = {"geo": {"lat": 2.5}, "id": 3}
    text = json.dumps(row).encode()
    change = json.dumps({"op": "c", "after": row}).encode()
    geo = {"type": "record", "name": "Geo", "fields": [{"name": "lat", "type": "double"}]}
    writer = avro_schema(geo=["null", geo], id="long")
    registry = ToldRegistry({7: RegisteredSchema("AVRO", writer, ())})
    avro = [avro_record(writer, row), avro_record(writer, {"geo": None, "id": 4})]
    for found in (
        decoded([framed(1, text), framed(1, b'{"geo":null,"id":4}')], schema, format="json-schema"),
        decoded([change, b'{"op":"u","after":{"id":4}}'], schema, format="debezium"),
        decoded(avro, schema, format=Avro(writer)),
        decoded([framed(7, one) for one in avro], schema, registry, format="avro"),
    ):
        assert found.bad == ()
        assert found.rows.to_pylist() == [{"lat": 2.5, "n": 3}, {"lat": None, "n": 4}]


def test_time_key_and_by_are_columns_with_fields_of_their_own() -> None:
    app = App("p")
    topic = app.topic(
        "t", "prod.t", {"at": ("timestamp", "@timestamp"), "user": ("int64", "$.user.user-id"), "v": "int64"},
        stime="at", key="user", by="user", values=[1], lateness="0s", partitions=None,
    )  # fmt: skip
    app.query("q", topic)
    results = run(
        app,
        {
            "t": [
                TopicRecord({"@timestamp": "2026-01-01T00:00:01Z", "user": {"user-id": 1}, "v": 5}),
                TopicRecord({"@timestamp": "2026-01-01T00:00:02Z", "v": 6}, key={"user-id": 2}),
            ]
        },
    )
    assert [(row["user"], row["v"]) for row in results["q"]] == [(1, 5), (2, 6)]
