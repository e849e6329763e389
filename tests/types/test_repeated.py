"""An object that names a field twice is none, wherever it comes from; and no other object is taken for one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.ingress.formats.debezium import DebeziumFormat
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.testing import run
from borealis_py.types.plain_json import PlainDecoder, object_decoder
from borealis_py.types.repeated import Names, repeated_within
from borealis_py.types.values import Misfit, normal_json

TWICE = "field 'a' is there twice, with 1 and 2, and nothing says which one counts: write each field once"
NAMES = ["a", "b", "a:b", "a/b", "t", "é"]


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """JSON objects as text, with names that may repeat, spelled in any way, and values with colons and names."""
    plain = st.none() | st.integers(-9, 9) | st.sampled_from(["", ":", '"a":', "a", "12:00", "\\", "é", "\\u003a"])
    nested = st.recursive(plain, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(plain.map(str), inner))
    pairs = draw(st.lists(st.tuples(st.sampled_from(NAMES), nested), max_size=6))
    spelled = draw(st.sampled_from([json.dumps, lambda text: json.dumps(text, ensure_ascii=False), _escaped]))
    colon = draw(st.sampled_from([":", " : ", ": "]))
    return ("{" + ",".join(f"{spelled(name)}{colon}{json.dumps(value)}" for name, value in pairs) + "}").encode()


def _escaped(text: str) -> str:
    return '"' + "".join(f"\\u{ord(char):04x}" for char in text) + '"'


def repeats(text: bytes, names: set[str]) -> bool:
    pairs: list[tuple[str, Any]] = json.loads(text, object_pairs_hook=list)
    there = [name for name, _ in pairs if name in names]
    return len(set(there)) < len(there)


@given(st.lists(objects(), min_size=1, max_size=4), st.sets(st.sampled_from(NAMES), min_size=1))
def test_exactly_the_objects_that_repeat_a_field_are_found(texts: list[bytes], names: set[str]) -> None:
    once, ordered = Names(sorted(names)), sorted(names)
    rows = [tuple(msgspec.json.decode(text).get(name) for name in ordered) for text in texts]
    found = {at for at in once.suspects(texts, rows) if once.repeated(texts[at]) is not None}
    assert found == {at for at, text in enumerate(texts) if repeats(text, names)}


@given(st.lists(objects(), min_size=1, max_size=3))
def test_of_objects_with_all_fields_those_in_one_text_are_found(texts: list[bytes]) -> None:
    names = ["a", "t"]
    whole = [text for text in texts if set(names) <= msgspec.json.decode(text).keys()]
    payload = b"[" + b",".join(whole) + b"]"
    values = [msgspec.json.decode(text)[name] for text in whole for name in names]
    inside = sum(json.dumps(value, ensure_ascii=False).count(":") for value in values)
    if any(repeats(text, set(names)) for text in whole):
        assert Names(names).perhaps(payload, len(whole), lambda: inside)


@given(objects())
def test_a_repetition_within_a_value_is_found_however_deep(text: bytes) -> None:
    for value in (text, b"[1," + text + b"]", b'{"x":' + text + b"}"):
        why = repeated_within(value, msgspec.json.decode(value))
        assert (why is not None) == (_deep_repeats(text))


def _deep_repeats(text: bytes) -> bool:
    found = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.append(len({name for name, _ in pairs}) < len(pairs))

    json.loads(text, object_pairs_hook=look)
    return any(found)


DOUBLE = b'{"a":1,"b":"x:y","a":2}'


@pytest.mark.parametrize(
    "text",
    [DOUBLE, b'{"a":1,"\\u0061":2,"b":null}', b'{ "a" : 1 , "b" : ":" , "a" : 2 }', b'{"c":{"a":3},"a":1,"a":2}'],
)
def test_a_record_of_a_topic_is_refused_by_name_and_values(text: bytes) -> None:
    decoder = PlainDecoder({"a": "int64", "b": "string"})
    other = b'{"b":"a","c":{"a":1},"d":[{"a":2},{"a":3}],"e":1,"e":2}'
    assert decoder.row(text) == TWICE
    assert decoder.rows([other, text, other]) == [(None, "a"), TWICE, (None, "a")]
    assert JsonFormat({"a": "int64", "b": "string"}).rows([text]).bad == [(0, TWICE)]


@pytest.mark.parametrize("kind", ["int64", "decimal(12,2)"])
def test_a_field_within_an_object_is_there_once_too(kind: str) -> None:
    decoder = PlainDecoder({"a": kind, "b": "string"}, {"a": ("o", "p", "a")})
    good = b'{"b":"x:y","o":{"p":{"a":1,"z":1,"z":2},"q":{"a":2,"a":3}}}'
    twice = [b'{"o":{"p":{"a":1,"a":2}}}', b'{"o":{"p":{"a":1,"\\u0061":2}}}']
    outer = [b'{"o":{"p":{"a":1}},"o":null}', b'{"o":{"p":{"a":1},"p":{"a":1}}}']
    found = decoder.rows([good, *twice, *outer])
    assert not isinstance(found[0], str)
    assert found[1:3] == [TWICE, TWICE]
    assert [str(why)[:40] for why in found[3:]] == [
        "field 'o' is there twice, with an object",
        "field 'p' is there twice, with an object",
    ]


@pytest.mark.parametrize("ignored", [b'"\\u00e9"', b"1e999", b"123456789012345678901234567890"])
def test_what_is_ignored_may_hold_anything(ignored: bytes) -> None:
    text = b'{"a":1,"o":{"a":2},"z":' + ignored + b',"z":":"}'
    for decoder in (PlainDecoder({"a": "int64"}), PlainDecoder({"a": "int64"}, {"a": ("o", "a")})):
        assert decoder.rows([text]) == [decoder.row(text)]
        assert decoder.row(text) in ((1,), (2,))


def test_a_line_that_is_published_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="field 'a' is there twice, with 1 and 2"):
        object_decoder({"a": "int64", "b": "json"})(DOUBLE)
    assert object_decoder({"b": "json"})(b'{"b":{"c":1}}') == {"b": msgspec.Raw(b'{"c":1}')}


def test_a_row_of_a_source_is_refused_alone() -> None:
    codec = ArrowSourceCodec("s", {"a": "int64", "t": "timestamp", "j": "json"})
    good = b'{"a":1,"t":"2026-01-01T00:00:00.000000Z","j":{"x":":"}}'
    bad = b'{"a":1,"t":"2026-01-01T00:00:00.000000Z","j":{"x":":"},"a":2}'
    within = b'{"a":1,"t":null,"j":{"x":{"a":1,"a":2}}}'
    rows, letters = codec.decode(b"[" + b",".join([good, bad, within, good]) + b"]", "json", [1, 2, 3, 4])
    assert rows is not None
    assert len(rows) == 2
    assert [(at, why) for at, why, _ in letters] == [(1, TWICE), (2, f"column 'j': not one JSON value: {TWICE}")]
    assert codec.decode(b"[" + b",".join([good] * 3) + b"]", "json", [1, 2, 3])[1] == []


@pytest.mark.parametrize("text", [b'{"a":1,"a":2}', b'[{"b":{"a":1,"a":2}}]', b'{"x":[{"a":1,"\\u0061":2}]}'])
def test_a_json_value_with_a_field_twice_is_none(text: bytes) -> None:
    with pytest.raises(Misfit, match=f"^not one JSON value: {TWICE}$"):
        normal_json(text)


def test_a_change_of_a_database_is_refused() -> None:
    form = DebeziumFormat({"a": "int64"}, None)
    row = b'{"op":"c","before":null,"after":{"a":1,"a":2}}'
    whole = b'{"op":"c","after":{"a":1},"after":{"a":2}}'
    beside = b'{"schema":{},"payload":{"op":"c","op":"d","after":{"a":1}}}'
    (first, second, third) = form.rows([row, whole, beside]).bad
    assert first == (0, TWICE)
    assert second[1].startswith("not a change event: field 'after' is there twice, with an object and an object")
    assert third[1].startswith("not a change event: field 'op' is there twice, with c and d")


def test_a_result_that_is_json_with_a_field_twice_is_a_dead_letter() -> None:
    app = App("p")
    app.query("q", app.source("s", {"k": "string"}).map(v="CAST(k AS JSON)", w="k"))
    found = run(app, {"s": [{"k": '{"a":1,"a":2}'}, {"k": '{"a":1}'}]})
    assert [row["w"] for row in found["q"]] == ['{"a":1}']
    assert "field 'a' is there twice, with 1 and 2" in found.dead_letters[0].reason
