"""Rows in and out as bytes: one bad row costs one row, and its reason names the column."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.engine import ArrowSourceCodec, DuckKernel
from borealis_py.engine.arrow.ipc import _Table
from borealis_py.engine.arrow.rows import ArrowRows
from tests.engine import worlds
from tests.engine.worlds import Row

OPS = ArrowRows()
codec = ArrowSourceCodec("s", {"k": "string", "i": "int64", "x": "double", "b": "bool"})
GOOD = b'{"k":"a","i":1,"x":2,"b":true}'


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b'{"k":"a","i":1,"x":2}', "Object missing required field `b`"),
        (b'{"k":"a","i":1.5,"x":2,"b":true}', "column 'i': Expected `int | null`, got `float`"),
        (b'{"k":"a","i":1.0,"x":2,"b":true}', "column 'i': Expected `int | null`, got `float`"),
        (b'{"k":"a","i":"1","x":2,"b":true}', "column 'i': Expected `int | null`, got `str`"),
        (b'{"k":"a","i":true,"x":2,"b":true}', "column 'i': Expected `int | null`, got `bool`"),
        (b'{"k":"a","i":9223372036854775808,"x":2,"b":true}', "column 'i': Expected `int` <= 9223372036854775807"),
        (b'{"k":7,"i":1,"x":2,"b":true}', "column 'k': Expected `str | null`, got `int`"),
        (b'{"k":"a","i":1,"x":"2","b":true}', "column 'x': Expected `float | null`, got `str`"),
        (b'{"k":"a","i":1,"x":1e999,"b":true}', "column 'x': Number out of range"),
        (b'{"k":"a","i":1,"x":2,"b":1}', "column 'b': Expected `bool | null`, got `int`"),
        (b"[1,2]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b'{"k":"\xff","i":1,"x":2,"b":true}', "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_bad_row_is_blamed_alone(row: bytes, reason: str) -> None:
    rows, bad = codec.decode(b"[" + GOOD + b"," + row + b"," + GOOD + b"]", "json", [10, 20, 30])
    assert rows is not None
    assert OPS.settle([[rows]])[0].to_pylist() == [
        {"k": "a", "i": 1, "x": 2.0, "b": True, "stime": t} for t in (10, 30)
    ]
    ((position, why, raw),) = bad
    assert (position, raw) == (1, row)
    assert why.startswith(reason)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not a JSON array of objects"),
        (b"[" + GOOD, "not a JSON array of objects"),
        (b"[" + GOOD + b',{"k":}]', "not a JSON array of objects"),
        (b'[{"k":"\\ud800","i":1,"x":2,"b":true}]', "not a JSON array of objects"),
        (GOOD, "not a JSON array of objects"),
        (b"[" + GOOD + b"]\n[" + GOOD + b"]", "not a JSON array of objects"),
        (b'[{"k":"a\nb","i":1,"x":2,"b":true}]', "not a JSON array of objects"),
        (b"[" + GOOD + b"," + GOOD + b"]", "2 rows but 1 stimes in the record"),
        (b"[1," + GOOD + b"]", "2 rows but 1 stimes in the record"),
        (b"[]", "0 rows but 1 stimes in the record"),
    ],
)
def test_a_payload_that_cannot_be_taken_apart_is_one_reject(payload: bytes, reason: str) -> None:
    rows, ((position, why, raw),) = codec.decode(payload, "json", [10])
    assert rows is None
    assert (position, raw) == (-1, payload)
    assert why.startswith(reason)


def test_null_is_a_value_and_more_fields_are_ignored() -> None:
    rows, bad = codec.decode(b'[{"k":null,"i":null,"x":null,"b":null,"more":[1]}]', "json", [7])
    assert not bad
    assert rows is not None
    assert OPS.settle([[rows]])[0].to_pylist() == [{"k": None, "i": None, "x": None, "b": None, "stime": 7}]


def test_nothing_but_bad_rows_is_no_rows() -> None:
    assert codec.decode(b"[1,2]", "json", [1, 2])[0] is None


def test_an_unknown_encoding_is_a_reject() -> None:
    assert codec.decode(b"", "avro", [1])[1][0][:2] == (
        -1,
        "encoding 'avro' is neither json nor arrow: send one of these",
    )


ROWS: list[Row] = [("ü", 2**62, -0.0, None, 5), (None, None, None, True, 6)]


def test_arrow_rows_travel() -> None:
    rows = worlds.batch(ROWS)
    found, bad = codec.decode(memoryview(codec.encode(rows)), "arrow", [5, 6])  # type: ignore[arg-type]
    assert not bad
    assert found is not None
    assert found.equals(rows)


def test_arrow_that_lies_is_refused() -> None:
    good = codec.encode(worlds.batch(ROWS))
    other = ArrowSourceCodec("s", {"k": "int64", "i": "int64", "x": "double", "b": "bool"})
    empty = ArrowSourceCodec("s", {"x": "int64"}).encode(pa.RecordBatch.from_arrays([pa.array([1])], names=["x"]))
    for payload, stimes, reason in [
        (good[: len(good) // 2], [5, 6], "not an Arrow IPC stream"),
        (b"garbage", [5, 6], "not an Arrow IPC stream"),
        (good, [5], "2 rows in 1 batches but 1 stimes"),
        (empty, [5], "columns (x int64), expected (k string, i int64, x double, b bool)"),
    ]:
        rows, ((position, why, _),) = codec.decode(payload, "arrow", stimes)
        assert (rows, position) == (None, -1)
        assert why.startswith(reason)
    assert other.decode(good, "arrow", [5, 6])[0] is None


def test_arrow_whose_first_message_is_of_an_unknown_kind_is_not_read_as_a_schema() -> None:
    """Arrow checks nothing in such a message: read as a schema, one with another wrong byte ended the process."""
    good = bytearray(codec.encode(worlds.batch(ROWS)))
    metadata = bytes(good[8 : 8 + int.from_bytes(good[4:8], "little")])
    kind = _Table.root(metadata)._field(1)
    assert kind is not None
    good[8 + kind] = 121
    rows, ((_, why, _),) = codec.decode(bytes(good), "arrow", [5, 6])
    assert rows is None
    assert why.startswith("it does not begin with a schema")


@pytest.fixture(scope="module")
def on() -> Iterator[DuckKernel]:
    made = worlds.make(lambda app, a, b: a)
    yield made
    made.close()


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(worlds.row_of(0), min_size=1, max_size=8))
def test_results_travel_and_print_so_that_they_read_back(on: DuckKernel, rows: list[Row]) -> None:
    part = worlds.batch(rows)
    published = list(on.published(on.decode(on.encode(part))))
    assert [stime for _, stime in published] == [r[4] for r in rows]
    for (text, _), row in zip(published, rows, strict=True):
        read = json.loads(text)
        assert list(read) == ["k", "i", "x", "b"]
        assert (read["k"], read["i"], read["b"]) == (row[0], row[1], row[3])
        if row[2] is None or not math.isfinite(row[2]):
            assert read["x"] is None
        else:
            assert struct.pack("<d", read["x"]) == struct.pack("<d", row[2])


def test_parts_are_small_and_join_to_the_whole(on: DuckKernel) -> None:
    whole = worlds.batch([("k" * 50, i, 1.0, True, i) for i in range(500)])
    parts = on.encode_parts(whole, 4_000)
    assert 5 < len(parts) < 15
    assert all(len(part) <= 4_000 for part in parts)
    assert on.join([on.decode(part) for part in parts]).equals(whole)
    assert on.encode_parts(whole, 10**6) == [on.encode(whole)]


@given(
    sizes=st.lists(st.integers(0, 3_000), max_size=40),
    bytes_max=st.sampled_from((1, 900, 2_000, 10_000)),
)
def test_parts_of_rows_of_all_sizes_are_small_or_a_single_row(on: DuckKernel, sizes: list[int], bytes_max: int) -> None:
    whole = worlds.batch([("k" * size, i, 1.0, True, i) for i, size in enumerate(sizes)])
    parts = on.encode_parts(whole, bytes_max)
    decoded = [on.decode(part) for part in parts]
    assert all(len(part) <= bytes_max or rows.num_rows <= 1 for part, rows in zip(parts, decoded, strict=True))
    assert on.join(decoded).equals(whole)


def test_state_of_another_query_is_refused(on: DuckKernel) -> None:
    with (
        worlds.kernel(lambda app, a, b: a.window("1s").agg(n="count(*)")) as other,
        pytest.raises(ValueError, match="state of 1 operators, the query has 0"),
    ):
        on.decode_state(other.encode_state(other.initial()))


def test_the_schema_id_tells_schemas_apart(on: DuckKernel) -> None:
    with worlds.kernel(lambda app, a, b: a.map(k="k", i="x", x="x", b="b")) as other:
        assert other.schema_id != on.schema_id


def test_rows_are_published_piece_by_piece_as_they_would_be_together(
    on: DuckKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = worlds.batch([*ROWS, *ROWS, ROWS[0]])
    together = list(on.published(rows))
    monkeypatch.setattr("borealis_py.engine.codec.PUBLISHED_ROWS", 2)
    assert list(on.published(rows)) == together
