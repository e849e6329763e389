"""A source's rows as JSON and as Arrow: what a publisher lets through decodes to the same bits of either."""

from __future__ import annotations

import struct
import sys
from datetime import UTC
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from borealis_py.client.rows import BadRow, RowSchema
from borealis_py.engine.arrow.rows import ArrowRows, canonical_hash
from borealis_py.engine.codec import ArrowSourceCodec
from tests.engine import worlds

COLUMNS = {"text": "string", "n": "int64", "x": "double", "flag": "bool", "y": "double"}
ROW_MAX = 1_000_000

any_bits = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
finite = st.one_of(
    any_bits.filter(np.isfinite),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [0.0, -0.0, 5e-324, -5e-324, sys.float_info.max, -sys.float_info.max, sys.float_info.min, 0.1, 1e23]
    ),
    st.integers(-(2**62), 2**62),
)
whole = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, 0, 2**53 + 1])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["", "\x00", "\u2028", "😀", '"\\']
)
rows_of = st.fixed_dictionaries(
    {
        "text": st.none() | texts,
        "n": st.none() | whole,
        "x": st.none() | finite,
        "flag": st.none() | st.booleans(),
        "y": st.none() | finite,
    }
)


def as_json(rows: list[dict[str, Any]]) -> bytes:
    schema = RowSchema(COLUMNS, ROW_MAX)
    joined = schema.joined(schema.checked(rows))
    assert joined is not None
    return b"[" + joined + b"]"


def as_arrow(codec: ArrowSourceCodec, rows: list[dict[str, Any]]) -> bytes:
    """Of the values as a publisher has them: a whole number in a column of doubles is the double that JSON says."""
    values = [{**row, **{k: float(row[k]) for k in "xy" if row[k] is not None}} for row in rows]
    return codec.encode(pa.RecordBatch.from_pylist(values, schema=codec.schema.remove(len(COLUMNS))))


def decoded(codec: ArrowSourceCodec, payload: bytes, encoding: str, count: int) -> pa.RecordBatch:
    rows, bad = codec.decode(payload, encoding, list(range(count)))
    assert bad == []
    assert rows is not None
    return ArrowRows().settle([[rows]])[0]


def bits(column: pa.Array) -> list[bytes | None]:
    return [None if value is None else struct.pack("<d", value) for value in column.to_pylist()]


@settings(max_examples=300)
@given(st.lists(rows_of, min_size=1, max_size=30))
@example([{"text": "\x00", "n": -(2**63), "x": -0.0, "flag": None, "y": 5e-324}])
@example([dict.fromkeys(COLUMNS)])
def test_rows_as_json_and_as_arrow_decode_to_the_same_bits(rows: list[dict[str, Any]]) -> None:
    codec = ArrowSourceCodec("s", COLUMNS, ROW_MAX)
    one, other = (
        decoded(codec, payload, encoding, len(rows))
        for payload, encoding in ((as_json(rows), "json"), (as_arrow(codec, rows), "arrow"))
    )
    assert one.schema.equals(other.schema, check_metadata=True)
    assert one.equals(other)
    assert canonical_hash(one) == canonical_hash(other)
    for name in ("x", "y"):
        assert bits(one.column(name)) == bits(other.column(name))
    assert [c.null_count for c in one.columns] == [c.null_count for c in other.columns]


TYPED = {
    "m": "decimal(12,2)", "w": "decimal(38,4)", "t": "timestamp", "d": "date", "y": "binary", "j": "json",
}  # fmt: skip
typed_rows = st.tuples(worlds.MONEY, worlds.WIDE, worlds.TIMES, worlds.DATES, worlds.BYTES, worlds.JSONS)


@settings(max_examples=200)
@given(st.lists(typed_rows, min_size=1, max_size=20))
def test_values_of_every_other_type_decode_to_the_same_of_either(rows: list[tuple[Any, ...]]) -> None:
    """A publisher has json as text (`msgspec.Raw`), as Arrow does, and timestamps with a time zone."""
    codec, schema = ArrowSourceCodec("s", TYPED, ROW_MAX), RowSchema(TYPED, ROW_MAX)
    told = [
        {
            **dict(zip(TYPED, row, strict=True)),
            "t": None if row[2] is None else row[2].replace(tzinfo=UTC),
            "j": None if row[5] is None else msgspec.Raw(row[5].encode()),
        }
        for row in rows
    ]
    joined = schema.joined(schema.checked(told))
    assert joined is not None
    columns = codec.schema.remove(len(TYPED))
    arrays = [pa.array(list(of), field.type) for of, field in zip(zip(*rows, strict=True), columns, strict=True)]
    arrow = codec.encode(pa.RecordBatch.from_arrays(arrays, schema=columns))
    one, other = (
        decoded(codec, payload, encoding, len(rows))
        for payload, encoding in ((b"[" + joined + b"]", "json"), (arrow, "arrow"))
    )
    assert one.equals(other)
    assert canonical_hash(one) == canonical_hash(other)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_arrow_could_say_and_json_could_not_no_publisher_lets_through(value: float) -> None:
    row = {**dict.fromkeys(COLUMNS), "y": value}
    schema = RowSchema(COLUMNS, ROW_MAX)
    assert schema.checked([row]) == []
    with pytest.raises(BadRow, match="not a number that JSON can carry"):
        schema.encode(row)
