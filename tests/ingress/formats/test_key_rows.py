"""Records without a value: rows of their keys alone, where a column holds what keys say."""

from __future__ import annotations

from typing import Any

import pytest

from borealis_py import App
from borealis_py.ingress.decoder import Decoded
from borealis_py.ingress.decoders import decoder_for
from borealis_py.log.base import Feed, Record
from borealis_py.query.errors import QueryError

MS = 1_700_000_000_000
SCHEMA = {"item": "string", "price": "double", "at": "int64"}


def decoded(
    records: list[tuple[bytes | None, bytes | None]], schema: dict[str, str] | None = None, **more: Any
) -> Decoded:
    app = App("shop")
    app.query("q", app.topic("t", "prod.t", schema or SCHEMA, partitions=1, **more).filter("true"))
    spec = app.describe()
    decoder = decoder_for("t", spec.ingresses["t"], spec.sources["t"], 10_000)
    return decoder.decode([Record(Feed("t"), i, MS + i, key, value) for i, (key, value) in enumerate(records)])


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
        (None, "no value, and no key that says which row it deletes"),
        (b"", "no value, and no key that says which row it deletes"),
        (b"tea", "no value, and its key is no 'id': "),
        (b'7,"euros":1', "no value, and its key is no 'id': "),
        (b"\x00\x00\x00\x00\x07\xff", "no value, and its key is no 'id': it is not UTF-8"),
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
        ({"key": "item", "format": "debezium"}, "give op="),
    ],
)
def test_what_makes_no_sense_with_it_is_refused(more: dict[str, Any], why: str) -> None:
    app = App("shop")
    with pytest.raises(QueryError, match=why):
        app.topic("t", "prod.t", SCHEMA, **more)
