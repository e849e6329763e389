"""Which field of a topic's records a column is, as users write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from borealis_py import App, Debezium
from borealis_py.query.errors import QueryError
from borealis_py.query.field_paths import NAMES_MAX, column_for, parsed_path, path_text
from borealis_py.query.names import is_column_name


@given(st.lists(st.text(max_size=6), min_size=1, max_size=5))
def test_what_is_written_for_a_path_is_read_as_the_same(names: list[str]) -> None:
    assert parsed_path(path_text(tuple(names))) == tuple(names)


@given(st.text(max_size=80))
def test_every_field_has_a_name_for_its_column(field: str) -> None:
    assert is_column_name(column_for(field))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("@timestamp", ("@timestamp",)),
        ("geo.lat", ("geo.lat",)),
        ("$.geo.lat", ("geo", "lat")),
        ('$["geo.lat"].x', ("geo.lat", "x")),
        ("$['Date Time']", ("Date Time",)),
        ("$.user-id", ("user-id",)),
        ("$.größe.@id", ("größe", "@id")),
        ('$["a\\"b\\u00e9"]', ('a"bé',)),
    ],
)
def test_the_ways_to_write_a_path(text: str, path: tuple[str, ...]) -> None:
    assert parsed_path(text) == path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("$", "it is the whole record"),
        ("$.", "'.' is not understood"),
        ("$.a b", "is not understood"),
        ("$.a[0].b", "it takes an element of a list: read the list as a json column"),
        ('$["\\x"]', "no text of JSON"),
        ("$" + ".a" * (NAMES_MAX + 1), "names deep"),
    ],
)
def test_what_is_no_path_is_refused_with_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parsed_path(text)


def topic(schema: Any, **more: Any) -> App:
    app = App("p")
    app.query("q", app.topic("t", "prod.t", schema, partitions=1, **more))
    return app


def test_a_schema_or_a_class_names_fields() -> None:
    class Model(BaseModel):
        at: str = Field(alias="@timestamp")
        lat: Annotated[float, "$.geo.lat"]
        item: str = Field(alias="itemName")

    @dataclass
    class Data:
        lat: Annotated[float, "double", "$.geo.lat"]
        n: int

    said = topic(
        {"at": ("string", "@timestamp"), "lat": ["double", "$.geo.lat"], "item": ("string", "item")}
    ).describe()
    assert said.sources["t"] == {"at": "string", "lat": "double", "item": "string"}
    assert said.ingresses["t"].paths == {"at": ("@timestamp",), "lat": ("geo", "lat")}
    model = topic(Model).describe()
    assert model.sources["t"] == {"at": "string", "lat": "double", "itemName": "string"}
    assert model.ingresses["t"].paths == {"at": ("@timestamp",), "lat": ("geo", "lat")}
    assert topic(Data).describe().ingresses["t"].paths == {"lat": ("geo", "lat")}


def test_another_field_is_another_app_and_an_app_without_fields_is_the_one_it_was() -> None:
    kinds: list[Any] = ["double", ("double", "$.g.lat"), ("double", "$.g.lon")]
    plain, other, third = (topic({"lat": kind, "n": "int64"}).describe() for kind in kinds)
    assert len({plain.hash, other.hash, third.hash}) == 3
    assert plain.ingresses["t"].determining()[-1] == []


@pytest.mark.parametrize(
    ("schema", "more", "why"),
    [
        ({"@timestamp": "timestamp"}, {}, "say which field it is: {'timestamp': ('timestamp', '@timestamp')}"),
        ({"user-id": "int64"}, {}, "{'user_id': ('int64', 'user-id')}"),
        ({"größe": "int64"}, {}, "{'grosse': ('int64', 'größe')}"),
        ({"1st": "int64"}, {}, "{'field_1st': ('int64', '1st')}"),
        ({"a": ("int64",)}, {}, "give its type, or its type and field"),
        ({"a": ("int64", "$.b[0]")}, {}, "field '$.b[0]': it takes an element of a list"),
        ({"a": ("int64", 'q"t')}, {}, "read what it is in as a json column"),
        ({"a": ("int64", '$.o["x\\\\y"]')}, {}, "a quotation mark, a backslash or a control character is in its name"),
        ({"a": ("int64", '$["a\\n"]')}, {"format": "debezium"}, "field 'a\\n': a quotation mark"),
        ({"a": ("int64", "b"), "b": "int64"}, {}, "columns 'a' and 'b' are both the field 'b'"),
        ({"geo": "string", "lat": ("double", "$.geo.lat")}, {}, "column 'geo' can only be json, not string"),
        ({"a": ("integer64", "b")}, {}, "unknown type 'integer64'"),
        ({"a": ("int64", "b")}, {"format": "csv"}, "CSV(fields=...) names the values of a line"),
        ({"a": ("string", "b")}, {"format": "text"}, "a text has no fields"),
        ({"a": ("string", "b"), "n": "int64"}, {"format": Debezium(op="a")}, "so it is no field"),
    ],
)
def test_a_schema_that_cannot_be_is_refused_with_what_to_write(schema: Any, more: dict[str, Any], why: str) -> None:
    with pytest.raises(QueryError) as found:
        topic(schema, **more)
    assert why in str(found.value)


def test_a_source_of_our_publishers_has_no_other_fields() -> None:
    with pytest.raises(QueryError, match="only a topic of other programs has fields with other names"):
        App("p").source("s", {"a": ("int64", "b")})  # type: ignore[dict-item]
