"""A byte order mark before a value's text: some programs write one, and it says nothing."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.formats.base import RecordFormat
from borealis_py.ingress.formats.debezium import DebeziumFormat
from borealis_py.ingress.formats.delimited import CsvFormat
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.formats.json_schema import JsonSchemaFormat
from borealis_py.ingress.formats.plain_text import TextFormat
from borealis_py.log.base import Feed, Record
from borealis_py.observe.topic_formats import recognised

COLUMNS = {"n": "int64", "s": "string"}
MONEY = {"n": "decimal(9,2)", "s": "string"}
OBJECTS = (b'{"n":1,"s":"a"}', b'{"n":2}', '{"s":"\ufeff"}'.encode(), b"{", b"", b'{"n":"x"}')
FORMATS: dict[str, tuple[RecordFormat, bytes, tuple[bytes, ...]]] = {
    "json": (JsonFormat(COLUMNS), b"", OBJECTS),
    "json of decimals": (JsonFormat(MONEY), b"", OBJECTS),
    "json-schema": (JsonSchemaFormat(COLUMNS), bytes(5), OBJECTS),
    "debezium": (DebeziumFormat(COLUMNS, None), b"", tuple(b'{"op":"c","after":%s}' % one for one in OBJECTS)),
    "csv": (CsvFormat(COLUMNS, ("n", "s"), ","), b"", (b"1,a", b'2,"b"', "3,\ufeff".encode(), b"x,y", b"", b"4")),
    "text": (TextFormat({"s": "string"}), b"", (b"a", "b\ufeff".encode(), b"", b"\xff")),
}


@pytest.mark.parametrize("name", FORMATS)
@given(draw=st.data())
def test_a_value_behind_a_mark_is_what_it_is_without(name: str, draw: st.DataObject) -> None:
    form, head, bodies = FORMATS[name]
    drawn = draw.draw(st.lists(st.tuples(st.sampled_from(bodies), st.booleans()), max_size=5))
    with_marks = form.rows([head + BOM_UTF8 * marked + body for body, marked in drawn])
    without = form.rows([head + body for body, _ in drawn])
    assert with_marks.rows.equals(without.rows)
    assert list(with_marks.at) == list(without.at)
    assert with_marks.bad == without.bad


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("csv", "text")])
@pytest.mark.parametrize("first", [b"", BOM_UTF8])
def test_a_second_mark_is_no_mark_whatever_comes_before(name: str, first: bytes) -> None:
    form, head, bodies = FORMATS[name]
    found = form.rows([head + first + bodies[0], head + BOM_UTF8 * 2 + bodies[0]])
    assert list(found.at) == [0]
    assert [i for i, _ in found.bad] == [1]


def test_bytes_stay_as_they_are() -> None:
    assert TextFormat({"s": "binary"}).rows([BOM_UTF8 + b"a"]).rows.column("s").to_pylist() == [BOM_UTF8 + b"a"]


@pytest.mark.parametrize(("value", "name"), [(b'{"n":1}', "json"), (b"1,2,a", "csv"), (b"hello", "text")])
def test_a_sample_is_recognised_behind_marks(value: bytes, name: str) -> None:
    def of(mark: Callable[[int], bytes]) -> object:
        return recognised([Record(Feed("t"), i, 0, None, mark(i) + value) for i in range(3)])

    found = of(lambda _: b"")
    assert getattr(found, "name", None) == name
    assert of(lambda i: BOM_UTF8 if i == 0 else b"") == found == of(lambda _: BOM_UTF8)
