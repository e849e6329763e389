"""Formats of topics: each takes its own options alone, and an option in another place is refused by name."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py import CSV, JSON, App, Avro, Debezium, JSONSchema, Protobuf, QueryError, Text
from borealis_py.query.foreign import ingress_of
from borealis_py.query.formats import KINDS, format_of, given_options, options_of, written
from borealis_py.query.ingress_spec import FORMATS, IngressSpec

SCHEMA = {"id": "int64", "kind": "string"}
PYTHON = {kind.__name__: kind for kind in (JSON, CSV, Text, Avro, Protobuf, JSONSchema, Debezium)}
AVRO_TEXT = '{"type":"record","name":"R","fields":[]}'
NAMES = st.sampled_from(["x", "y", "kind of", "id's", 'a "b"'])
OPTIONS: Mapping[str, st.SearchStrategy[Any]] = {
    "fields": st.none() | st.lists(NAMES).map(lambda more: [*more, "id", "kind"]),
    "delimiter": st.sampled_from([",", ";", "\t", "|", " ", "'", "\u2028"]),
    "nulls": st.none() | st.lists(st.text(min_size=1), min_size=1),
    "writer_schema": st.sampled_from([None, AVRO_TEXT, {"type": "record", "name": "R", "fields": []}]),
    "op": st.sampled_from([None, "kind"]),
    "decimals": st.sampled_from([None, "text", "base64"]),
}
FORMS: Mapping[str, tuple[str, ...]] = {
    "json": (), "csv": ("fields", "delimiter", "nulls"), "text": (), "avro": ("writer_schema",), "protobuf": (),
    "json-schema": (), "debezium": ("op", "decimals"),
}  # fmt: skip
"""The options of each format, which `App.topic` took as arguments of its own once."""


def made(text: str) -> Any:
    """What Python makes of this text, with the formats at hand."""
    return eval(text, dict(PYTHON))


def ingress(format: Any, schema: Mapping[str, str] = SCHEMA) -> IngressSpec:
    return ingress_of(
        "orders", schema, {}, topic="prod.orders", format=format, key=None, key_format=None, stime=None,
        stime_unit="us", stime_format=None, stime_sql=None, lateness="2s", boundary="clock", expect=None,
        heartbeat=None, by=None, values=None, other=True, start="latest", cluster=None, partitions=None,
    )  # fmt: skip


def meant(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a description that options mean; those that say nothing are left out."""
    said = {name: value for name, value in options.items() if value is not None}
    if "fields" in said:
        said["fields"] = tuple(said["fields"])
    if "nulls" in said:
        said["nulls"] = tuple(sorted(set(said["nulls"])))
    if "writer_schema" in said:
        said["writer_schema"] = AVRO_TEXT
    return said


@st.composite
def drawn(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A format and some of its options."""
    name = draw(st.sampled_from(sorted(FORMS)))
    some = draw(st.sets(st.sampled_from(FORMS[name]))) if FORMS[name] else set()
    return name, {option: draw(OPTIONS[option]) for option in sorted(some)}


@given(drawn())
def test_a_format_says_in_the_description_what_its_options_say(one: tuple[str, dict[str, Any]]) -> None:
    name, options = one
    schema = {"line": "string"} if name == "text" else SCHEMA
    expected = IngressSpec.model_validate(
        {"topic": "prod.orders", "format": name, "lateness_us": 2_000_000, **meant(options)}
    )
    found = ingress(KINDS[name](**options), schema)
    assert found.model_dump_json() == expected.model_dump_json()
    if not options:
        assert ingress(name, schema) == found


@given(drawn())
def test_a_format_is_a_value_and_its_repr_makes_it_again(one: tuple[str, dict[str, Any]]) -> None:
    name, options = one
    form = KINDS[name](**options)
    for same in (
        made(repr(form)),
        copy.deepcopy(form),
        pickle.loads(pickle.dumps(form)),
        KINDS[name](**options),
    ):
        assert same == form
        assert hash(same) == hash(form)
        assert type(same) is type(form)
    assert format_of(made(written(form)), "topic 'orders'") == form
    assert set(given_options(form)) <= set(options)


def test_each_format_has_a_word_and_the_options_that_it_had() -> None:
    assert tuple(sorted(KINDS)) == tuple(sorted(FORMATS))
    assert {name: options_of(kind) for name, kind in KINDS.items()} == FORMS
    assert set(PYTHON.values()) == set(KINDS.values())


@pytest.mark.parametrize("option", sorted(OPTIONS))
@pytest.mark.parametrize("name", sorted(FORMS))
def test_an_option_of_another_format_is_refused_by_name(name: str, option: str) -> None:
    if option in FORMS[name]:
        KINDS[name](**{option: None if option != "delimiter" else ","})
        return
    kind, owner = KINDS[name].__name__, next(KINDS[one].__name__ for one in FORMS if option in FORMS[one])
    with pytest.raises(QueryError, match=rf"^{kind}: {option}= is an option of {owner}$"):
        KINDS[name](**{option: "x"})


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: CSV(delimeter=";"), "CSV: unknown option 'delimeter'; did you mean 'delimiter'?"),  # type: ignore[call-arg]
        (lambda: CSV(header=True), "CSV: unknown option 'header'; options: fields, delimiter, nulls"),  # type: ignore[call-arg]
        (lambda: JSON(lines=True), "JSON: unknown option 'lines'; it has no options"),  # type: ignore[call-arg]
        (lambda: CSV(delimiter=None), "CSV: delimiter=None; give one character"),  # type: ignore[arg-type]
        (lambda: CSV(delimiter=", "), "CSV: delimiter=', '; give one character"),
        (lambda: CSV(delimiter='"'), "give one character, like ';', other than a quotation mark"),
        (lambda: CSV(nulls="NA"), "CSV: nulls='NA'; give values of CSV that mean null, like"),
        (lambda: CSV(nulls=["NA", ""]), "give values of CSV that mean null, like"),
        (lambda: CSV(nulls=[]), "give values of CSV that mean null, like"),
        (lambda: CSV(fields="id,shop"), "CSV: fields='id,shop'; give the names of the values of a line in order"),
        (lambda: CSV(fields=[]), "give the names of the values of a line in order"),
        (lambda: CSV(fields=["id", 7]), "CSV: fields has 7, which is no name"),  # type: ignore[list-item]
        (lambda: Avro("{"), "Avro: writer_schema= is not the Avro schema of a record"),
        (lambda: Avro('"long"'), "writer_schema= is not the Avro schema of a record"),
        (lambda: Avro({"type": {1}}), "writer_schema= is not the Avro schema of a record"),
        (lambda: Debezium(op=7), "Debezium: op=7; give the name of the string column"),  # type: ignore[arg-type]
        (lambda: Debezium(decimals="hex"), "Debezium: decimals='hex'; choose text, "),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_value_is_refused_where_the_format_is_made(call: Any, told: str) -> None:
    with pytest.raises(QueryError) as refused:
        call()
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("flat", "told"),
    [
        ({"delimiter": ";"}, 'delimiter= is an option of CSV: write format=CSV(delimiter=";")'),
        ({"format": "csv", "delimiter": "\t"}, 'delimiter= is an option of CSV: write format=CSV(delimiter="\\t")'),
        (
            {"format": "csv", "fields": ["id", "kind"], "nulls": ("NA",), "delimiter": None},
            'fields=, nulls=, delimiter= are options of CSV: write format=CSV(fields=["id", "kind"], nulls=["NA"])',
        ),
        (
            {"format": CSV(nulls=["NA"]), "delimiter": ";"},
            'delimiter= is an option of CSV: write format=CSV(nulls=["NA"], delimiter=";")',
        ),
        ({"format": "avro", "writer_schema": None}, "writer_schema= is an option of Avro: write format=Avro()"),
        (
            {"writer_schema": {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}] * 9}},
            "writer_schema= is an option of Avro: write format=Avro(writer_schema=...)",
        ),
        ({"op": "kind", "nulls": ["x"]}, 'op= is an option of Debezium: write format=Debezium(op="kind")'),
    ],
)
def test_an_option_beside_the_format_is_refused_with_what_to_write(flat: dict[str, Any], told: str) -> None:
    app = App("shop")
    with pytest.raises(QueryError) as refused:
        app.topic("orders", "prod.orders", SCHEMA, **flat)
    assert str(refused.value) == f"topic 'orders': {told}"
    with pytest.raises(QueryError, match="topic 'orders': "):
        app.topic(name="orders", topic="prod.orders", schema=SCHEMA, **flat)
    app.topic("orders", "prod.orders", SCHEMA)  # the name is still free


@given(drawn())
def test_the_advice_for_an_option_beside_the_format_is_right(one: tuple[str, dict[str, Any]]) -> None:
    name, options = one
    if not options:
        return
    with pytest.raises(QueryError) as refused:
        App("shop").topic("orders", "prod.orders", SCHEMA, **{"format": name, **options})
    advice = str(refused.value).partition(": write format=")[2]
    if "..." not in advice:
        assert made(advice) == KINDS[name](**options)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (CSV, "format=CSV is a class: write format=CSV()"),
        ("CSV", "format='CSV'; did you mean 'csv'? choose json or csv or"),
        (7, "format=7; choose json or csv or"),
        (None, "format=None; choose json or csv or"),
        (["csv"], "choose json or csv or"),
    ],
)
def test_what_is_no_format_is_refused(wrong: Any, told: str) -> None:
    with pytest.raises(QueryError) as refused:
        App("shop").topic("orders", "prod.orders", SCHEMA, format=wrong)
    assert told in str(refused.value)


def test_what_follows_the_format_is_named() -> None:
    """The fifth argument was `fields` once; it must not be taken for the columns of keys."""
    with pytest.raises(TypeError, match="positional"):
        App("shop").topic("orders", "prod.orders", SCHEMA, "csv", ["id", "kind"])  # type: ignore[misc]
