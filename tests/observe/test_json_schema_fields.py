"""What a JSON Schema says of fields: references and combinations are followed, and nothing stops the reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.observe.json_schema_fields import STEPS_MAX, UnreadableSchema, fields_of


def fields(schema: object, **references: object) -> dict[str, set[str]]:
    found = fields_of(json.dumps(schema), [(name, json.dumps(one)) for name, one in references.items()])
    return {name: set(kinds) for name, kinds in found.items()}


def of(**properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": "integer"}, {"int64"}),
        ({"type": ["null", "number"]}, {"double"}),
        ({"type": "boolean"}, {"bool"}),
        ({"type": "string", "maxLength": 3}, {"string"}),
        ({"type": "string", "format": "date-time"}, {"timestamp"}),
        ({"type": "string", "format": "date"}, {"date"}),
        ({"type": "string", "format": "email"}, {"string"}),
        ({"type": "string", "contentEncoding": "base64"}, {"binary"}),
        ({"type": "array", "items": {"type": "integer"}}, {"json"}),
        (of(a={"type": "integer"}), {"json"}),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, {"int64"}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"string", "int64"}),
        ({"enum": ["a", "b", None]}, {"string"}),
        ({"const": 7}, {"int64"}),
        ({"type": "null"}, set()),
        ({}, set()),
        (True, set()),
        ({"type": "colour", "format": 7, "enum": 3, "anyOf": "x"}, set()),
    ],
)
def test_a_fields_columns_are_those_that_hold_what_its_schema_allows(schema: object, kinds: set[str]) -> None:
    assert fields(of(a=schema)) == {"a": kinds}


def test_references_are_followed_within_the_schema_and_to_others_by_name_and_by_address() -> None:
    schema = {
        **of(
            a={"$ref": "#/$defs/number~1s/0"}, b={"$ref": "money.json"}, c={"$ref": "money.json#/definitions/cents"},
            d={"$ref": "http://shop/other.json"}, e={"$ref": "other.json"}, f={"$ref": "#/nowhere"}, g={"$ref": "lost"},
        ),
        "$id": "http://shop/order.json",
        "$defs": {"number/s": [{"type": "number"}]},
    }  # fmt: skip
    money = {"$ref": "#/definitions/cents", "definitions": {"cents": {"type": "integer"}}}
    other = {"$id": "http://shop/other.json", "type": "string"}
    assert fields(schema, **{"money.json": money, "others": other}) == {
        "a": {"double"}, "b": {"int64"}, "c": {"int64"}, "d": {"string"}, "e": {"string"}, "f": set(), "g": set(),
    }  # fmt: skip


def test_the_fields_of_all_that_the_object_is_combined_of_count() -> None:
    base = {"definitions": {"base": of(id={"type": "integer"})}}
    schema = {**base, "allOf": [{"$ref": "#/definitions/base"}, {"oneOf": [of(a={"type": "string"}), of(b=True)]}]}
    assert fields(schema) == {"id": {"int64"}, "a": {"string"}, "b": set()}


def test_a_schema_that_refers_to_itself_ends() -> None:
    tree = {**of(left={"$ref": "#"}, value={"anyOf": [{"$ref": "#/properties/value"}, {"type": "number"}]})}
    assert fields(tree) == {"left": {"json"}, "value": {"double"}}
    doubling = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}
    with pytest.raises(UnreadableSchema, match=f"more than {STEPS_MAX} schemas"):
        fields({**of(a={"$ref": "#/$defs/d0"}), "$defs": doubling})


@pytest.mark.parametrize(("text", "why"), [("{", "no JSON"), ("[" * 5_000, "nested more than"), ("", "no JSON")])
def test_what_is_no_schema_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UnreadableSchema, match=why):
        fields_of(text)


WORDS = st.sampled_from(["type", "properties", "anyOf", "allOf", "enum", "const", "format", "a", "$defs"])
PLACES = st.sampled_from(["#", "#/$defs/a", "#/anyOf/0", "a", "a#/b", "", "//[", "#/%", "http://[", "http://a/b", "b"])
LEAVES = st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(["integer", "string", "date"])
KINDS = {"int64", "double", "bool", "string", "timestamp", "date", "binary", "json"}


def objects(inner: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    told = st.dictionaries(WORDS, inner, max_size=4)
    return st.tuples(told, st.dictionaries(st.sampled_from(["$ref", "$id"]), PLACES)).map(
        lambda both: both[0] | both[1]
    )


SCHEMAS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | objects(inner))


@given(objects(st.dictionaries(st.just("a"), SCHEMAS) | SCHEMAS), SCHEMAS)
def test_any_json_is_read_or_refused(schema: object, other: object) -> None:
    try:
        found = fields(schema, a=other)
    except UnreadableSchema:
        return
    assert all(kinds <= KINDS for kinds in found.values())


@pytest.mark.parametrize("reference", ["http://[", "//[#/a", "#/%", "#a", "#/properties/a/type/x", "#/$defs/0/7"])
@pytest.mark.parametrize("address", ["http://shop/a", "http://[x", ""])
def test_a_reference_that_leads_nowhere_says_nothing(reference: str, address: str) -> None:
    schema = {"$id": address, "$defs": [[1]], **of(a={"$ref": reference, "type": "integer"})}
    assert fields(schema) == {"a": {"int64"}}
