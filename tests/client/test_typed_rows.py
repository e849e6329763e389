"""Decimals, times, bytes and json on their way into a source: by `send`, from CSV, from JSON lines."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.client.ingest import BadLine, InputRow, read_csv, read_jsonl
from borealis_py.client.rows import BadRow, RowSchema, raw_json
from borealis_py.engine.arrow.rows import ArrowRows, canonical_hash
from borealis_py.engine.codec import ArrowSourceCodec
from tests.engine import worlds

SCHEMA = {"k": "string", "m": "decimal(12,2)", "t": "timestamp", "d": "date", "y": "binary", "j": "json"}
schema = RowSchema(SCHEMA, 1_000)
ROW: dict[str, Any] = {
    "k": "a",
    "m": Decimal("1234.5"),
    "t": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2))),
    "d": date(2026, 1, 2),
    "y": b"\x00\xff",
    "j": {"b": [1, 2.5, None], "a": "\u00fc"},
}
WRITTEN = (
    '{"k":"a","m":"1234.50","t":"2026-01-02T01:04:05.000006Z","d":"2026-01-02","y":"AP8=",'
    '"j":{"b":[1,2.5,null],"a":"ü"}}'
)


def test_python_values_are_sent_in_their_normal_form() -> None:
    assert schema.encode(ROW).decode() == WRITTEN
    assert schema.joined(schema.checked([ROW, ROW])) == f"{WRITTEN},{WRITTEN}".encode()
    assert schema.encode(dict.fromkeys(SCHEMA)) == json.dumps(dict.fromkeys(SCHEMA), separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("m", 0.1, "field `m`: a value of type float is no decimal"),
        ("m", "1.005", "field `m`: it has more than 2 digits after the point, and none is cut off"),
        ("t", datetime(2026, 1, 1), "field `t`: a datetime without a time zone may be of any place"),
        ("d", "01.02.2026", "field `d`: '01.02.2026' is not a date"),
        ("y", "text", "field `y`: a value of type str is no binary value: give bytes; encode() text"),
        ("j", {1, 2}, "field `j`: a value of type set cannot be written as JSON"),
        ("j", "a" * 1_000, "a row of 1"),
    ],
)
def test_a_value_that_the_column_does_not_have_costs_its_row(field: str, value: object, reason: str) -> None:
    bad = {**ROW, field: value}
    with pytest.raises(BadRow) as told:
        schema.encode(bad)
    assert str(told.value).startswith(reason)
    assert len(schema.encoded(schema.checked([ROW, bad, ROW]))) == 1
    raw_json(bad)


class Raises(dict):  # type: ignore[type-arg]
    """A json value that cannot be looked at."""

    def items(self) -> Any:
        raise RuntimeError("no")


def test_a_value_of_the_callers_own_class_may_raise_anything() -> None:
    assert len(schema.checked([ROW, {**ROW, "j": Raises(a=1)}])) == 1


LINES = WRITTEN.encode() + b"\n"
CSV = (
    'k,m,t,d,y,j\na,1234.5,2026-01-02T03:04:05.000006+02:00,2026-01-02,AP8=,"{""b"": [1,2.5,null], ""a"": ""ü""}"\n'
).encode()


def test_csv_and_json_lines_give_the_same_row() -> None:
    (from_csv,) = read_csv(io.BytesIO(CSV), SCHEMA)
    (from_json,) = read_jsonl(io.BytesIO(LINES), None, SCHEMA)
    assert isinstance(from_csv, InputRow)
    assert isinstance(from_json, InputRow)
    assert schema.encode(from_csv.values) == schema.encode(from_json.values) == WRITTEN.encode()


def test_a_timestamp_column_may_be_the_stime() -> None:
    for items in (read_csv(io.BytesIO(CSV), SCHEMA, "t"), read_jsonl(io.BytesIO(LINES), "t", SCHEMA)):
        (row,) = items
        assert isinstance(row, InputRow)
        assert row.at_us == 1_767_315_845_000_006
        assert json.loads(schema.encode(row.values))["t"] == "2026-01-02T01:04:05.000006Z"


def test_decimals_of_json_lines_may_be_numbers_and_keep_their_digits() -> None:
    wide = {"m": "decimal(38,2)", "x": "double"}
    (row,) = read_jsonl(io.BytesIO(b'{"m": 123456789012345678901234567890.10, "x": 0.1}\n'), None, wide)
    assert isinstance(row, InputRow)
    assert RowSchema(wide).encode(row.values) == b'{"m":"123456789012345678901234567890.10","x":0.1}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"a,1.005,,,,", "malformed: field `m`: it has more than 2 digits after the point"),
        (b"a,,1795274713000000,,,", "malformed: field `t`: '1795274713000000' is a number, whose unit nobody knows"),
        (b"a,,,2026-13-01,,", "malformed: field `d`: '2026-13-01' is not a date"),
        (b"a,,,,A,", "malformed: field `y`: 'A' is not base64"),
        (b"a,,,,,{", "malformed: field `j`: not JSON"),
    ],
)
def test_a_bad_field_of_csv_costs_its_line(line: bytes, reason: str) -> None:
    bad, good = read_csv(io.BytesIO(b"k,m,t,d,y,j\n" + line + b"\na,,,,,\n"), SCHEMA)
    assert isinstance(bad, BadLine)
    assert bad.reason.startswith(reason)
    assert bad.raw == line
    assert isinstance(good, InputRow)
    assert schema.encode(good.values)


def test_json_lines_whose_values_do_not_fit_are_refused_by_the_schema_and_shown_as_they_were() -> None:
    line = b'{"k":"a","m":1.005,"t":null,"d":null,"y":null,"j":{"a": 1}}'
    (row,) = read_jsonl(io.BytesIO(line), None, SCHEMA)
    assert isinstance(row, InputRow)
    with pytest.raises(BadRow, match="field `m`: it has more than 2 digits after the point"):
        schema.encode(row.values)
    assert raw_json(row.values) == line


@given(st.lists(worlds.typed_row_of(0), min_size=1, max_size=8))
def test_rows_as_json_and_as_arrow_decode_to_the_same_bits(rows: list[Any]) -> None:
    codec, sends = ArrowSourceCodec("s", worlds.TYPED_COLUMNS), RowSchema(worlds.TYPED_COLUMNS)
    batch = worlds.batch(rows)
    joined = sends.joined(sends.checked([given_by(row) for row in batch.drop_columns(["stime"]).to_pylist()]))
    assert joined is not None
    found = []
    for payload, encoding in ((b"[" + joined + b"]", "json"), (codec.encode(batch), "arrow")):
        decoded, bad = codec.decode(payload, encoding, batch.column("stime").to_pylist())
        assert bad == []
        (settled,) = ArrowRows().settle([[decoded]])
        found.append(settled)
    assert found[0].schema.equals(found[1].schema, check_metadata=True)
    assert canonical_hash(found[0]) == canonical_hash(found[1]) == canonical_hash(batch)


def given_by(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a column as a program would send it."""
    moment, text = row["t"], row["j"]
    return {**row, "t": moment and moment.replace(tzinfo=UTC), "j": text and msgspec.Raw(text.encode())}
