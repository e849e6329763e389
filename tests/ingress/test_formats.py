"""Records of other programs: what fits the schema becomes rows with all their digits, else a reason."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.types.plain_json import PlainDecoder

COLUMNS = {"id": "int64", "k": "string", "x": "double", "b": "bool", "m": "decimal(38,2)", "t": "timestamp",
           "d": "date", "y": "binary", "j": "json"}  # fmt: skip
read = JsonFormat(COLUMNS).rows


def test_a_record_becomes_a_row_whose_numbers_keep_their_digits() -> None:
    record = b"""{"id": 7, "more": [1], "k": "a", "x": 3, "b": true, "m": 123456789012345678901234567890.10,
        "t": "2026-01-01T01:00:00+01:00", "d": "2026-01-01", "y": "AP8=", "j": {"a" : 1.10}}"""
    found = read([record, b"{}"])
    assert (list(found.at), found.bad) == ([0, 1], [])
    assert found.rows.to_pylist() == [
        {"id": 7, "k": "a", "x": 3.0, "b": True, "m": Decimal("123456789012345678901234567890.10"),
         "t": datetime(2026, 1, 1), "d": date(2026, 1, 1), "y": b"\x00\xff", "j": '{"a":1.10}'},
        dict.fromkeys(COLUMNS),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"", "not JSON: Input data was truncated"),
        (b"not JSON", "not JSON: JSON is malformed"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"id":1.5}', "column 'id': Expected `int | null`, got `float`"),
        (b'{"id":"1"}', "column 'id': Expected `int | null`, got `str`"),
        (b'{"id":9223372036854775808}', "column 'id': Expected `int` <= 9223372036854775807"),
        (b'{"x":1e999}', "column 'x': Number out of range"),
        (b'{"k":"\xff"}', "not JSON: 'utf-8' codec can't decode byte 0xff"),
        (b'{"m":1.005}', "column 'm': it has more than 2 digits after the point"),
        (b'{"m":"1,5"}', "column 'm': '1,5' is no decimal number"),
        (b'{"m":1e50}', "column 'm': it has more than 36 digits before the point"),
        (b'{"t":1767225600}', "column 't': 1767225600 is no text; of a number nobody knows the unit"),
        (b'{"d":"01.01.2026"}', "column 'd': '01.01.2026' is not a date"),
        (b'{"y":"%"}', "column 'y': '%' is not base64"),
        (b'{"j":"\\ud800"}', "not JSON: Input data was truncated"),
        (b'{"j":' + b"[" * 100 + b"]" * 100 + b"}", "nested more than 100 levels deep"),
        (b'{"z":' + b"[" * 200 + b"]" * 200 + b"}", "nested more than 100 levels deep"),
    ],
)
def test_a_record_that_cannot_be_used_costs_itself_alone(record: bytes, reason: str) -> None:
    found = read([b'{"id":1}', record, b'{"id":2}'])
    assert (found.rows.column("id").to_pylist(), list(found.at)) == ([1, 2], [0, 2])
    ((at, why),) = found.bad
    assert at == 1
    assert why.startswith(reason)


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b'{"m":1.5,"j":[1]}', b'{"j":null}', b'{"t":"2026-01-01"}'])))
def test_every_record_becomes_a_row_or_is_told_and_a_source_takes_the_rows(records: list[bytes]) -> None:
    found = read(records)
    assert sorted([*found.at, *(at for at, _ in found.bad)]) == list(range(len(records)))
    assert list(found.at) == sorted(found.at)
    codec = ArrowSourceCodec("s", COLUMNS)
    if found.rows.num_rows:
        rows, bad = codec.decode(codec.encode(found.rows), "arrow", [0] * found.rows.num_rows)
        assert bad == []
        assert rows.drop_columns(["stime"]).equals(found.rows)


@given(st.lists(st.binary(max_size=20) | st.sampled_from([b'{"id":1}', b'{"k":null,"x":2}', b'{"id":"1"}'])))
def test_records_are_decoded_together_as_they_are_one_by_one(records: list[bytes]) -> None:
    plain = PlainDecoder({"id": "int64", "k": "string", "x": "double"})
    assert plain.rows(records) == [plain.row(record) for record in records]


def test_a_record_that_is_nested_too_deeply_costs_itself_alone_among_others() -> None:
    plain = PlainDecoder({"id": "int64"})
    deep = b'{"id":1,"z":' + b"[" * 100 + b"]" * 100 + b"}"
    assert plain.rows([b'{"id":1}', deep, b'{"id":1}']) == [(1,), "nested more than 100 levels deep", (1,)]
    assert plain.rows([b'{"id":1,"z":' + b"[" * 99 + b"]" * 99 + b"}"]) == [(1,)]


@pytest.mark.parametrize(
    ("record", "remedy"),
    [
        (b"", "it is empty: let the producer write null, or no record"),
        (b" \n", "it is empty: let the producer write null, or no record"),
        (b'{"id":1', "let the producer write one whole JSON object in each record"),
        (b'{"id":NaN}', "and null where there is no such number"),
        (b"a,1,2", "let the producer write a JSON object; of a topic, format='csv' or 'text' reads lines"),
        (b'{"k":"\xff"}', "let the producer write JSON in UTF-8"),
        (b"\xff\xfe{\0}\0", "let the producer write JSON in UTF-8"),
        (b'\0\0\0\0\x07{"id":1}', "it may be a record of a schema registry"),
        (b"\0\0\0\0\x07\x02\xff", "(format='avro', 'protobuf' or 'json-schema'); `borealis inspect` tells"),
        (b"[1]", "let the producer write a JSON object"),
        (b"7", "let the producer write a JSON object"),
    ],
)
def test_the_reason_of_a_whole_record_names_a_remedy(record: bytes, remedy: str) -> None:
    ((_, why),) = read([record]).bad
    assert why.endswith(remedy) or remedy in why
    assert why.count("; ") >= 1
