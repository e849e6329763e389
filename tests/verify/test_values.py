"""The checker's own reading of every type against the product's: both take a row, or neither, with the same value."""

from __future__ import annotations

import hashlib
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.engine.arrow.partitioner import partitions_of
from borealis_py.engine.arrow.rows import ArrowRows
from borealis_py.engine.codec import ArrowRowCodec, ArrowSourceCodec
from borealis_py.verify.envelope import decode_rows
from borealis_py.verify.partitions import partition_of
from borealis_py.verify.source_log import SourceRules, _rows
from borealis_py.verify.values import column, in_json
from tests.engine import worlds

COLUMNS = {"m": "decimal(5,2)", "w": "decimal(3,3)", "n": "decimal(38,0)", "t": "timestamp", "d": "date", "y": "binary",
           "j": "json"}  # fmt: skip
RULES = SourceRules(COLUMNS, 0, 1_000)
codec = ArrowSourceCodec("s", COLUMNS)

FORMS = {
    "m": ["1.50", "-0.01", "0.00", "-0.00", "1.5", "01.50", "1000.00", "1.50 ", "", "1e1"],
    "w": ["0.100", "-0.999", "1.000", ".100"],
    "n": ["9" * 38, "9" * 39, "0", "-0", "-1", "1.", "0" * 70],
    "t": ["2026-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z",
          "2026-01-01T00:00:00Z", "2026-02-30T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z",
          "0000-01-01T00:00:00.000000Z", "2026-01-01T00:00:60.000000Z", "2026-01-01T00:00:00.000000z",
          "2026-13-01T00:00:00.000000Z"],
    "d": ["2024-02-29", "0001-01-01", "2026-02-29", "2026-1-1", "20260101", "2026-01-01 "],
    "y": ["", "AP8=", "AP9=", "AP8", "A P8=", "-_8=", "==", "ü", "AP8=\n"],
}  # fmt: skip
ODD = {
    "m": ["1.50", "true", "[]"], "t": ["5"], "d": ["20260101"], "y": ["[]"],
    "j": ["{}", '{"a" : 1.10}', r'[ 1 , "a b\" c" ]', r'"\u00fc"', "1e308", "1e309", "-0", "[" * 97 + "]" * 97,
          "[" * 99 + "]" * 99, "12345678901234567890123", '"null"', "9" * 400, '{"a":1,"a":2}'],
}  # fmt: skip
TEXTS_OF = {name: [*map(json.dumps, FORMS.get(name, [])), *ODD.get(name, []), "null"] for name in COLUMNS}
forms = st.fixed_dictionaries({name: st.sampled_from(texts) for name, texts in TEXTS_OF.items()})


def both(payload: bytes, encoding: str, count: int) -> tuple[Any, Any]:
    """What the product and the checker make of a payload, as JSON has it: rows or how many are bad; None: of none."""
    rows, bad = codec.decode(payload, encoding, list(range(count)))
    whole = bool(bad) and bad[0][0] == -1
    if rows is None:
        taken = []
    else:
        batch = ArrowRows().settle([[rows]])[0]
        taken = [json.loads(text) for text, _ in ArrowRowCodec(batch.schema, ()).published(batch)]
    found = _rows(memoryview(payload), encoding, count, RULES)
    theirs = None if found is None else [
        dict(zip(COLUMNS, map(in_json, row), strict=True)) for row in found if len(row) == len(COLUMNS)
    ]  # fmt: skip
    return (None if whole else taken), theirs


@given(st.lists(forms, min_size=1, max_size=4))
def test_a_row_in_json_is_taken_by_both_or_by_neither(rows: list[dict[str, str]]) -> None:
    objects = ["{" + ",".join(f'"{name}":{text}' for name, text in row.items()) + "}" for row in rows]
    ours, theirs = both(("[" + ",".join(objects) + "]").encode(), "json", len(rows))
    assert ours == theirs


@pytest.mark.parametrize("more", ['"m":"1.00"', '"none":1', '"none":{"a":1,"a":2}', '"none":1,"none":2'])
def test_a_row_whose_column_is_there_twice_is_taken_by_neither(more: str) -> None:
    row = ",".join(f'"{name}":null' for name in COLUMNS)
    ours, theirs = both(f"[{{{row},{more}}}]".encode(), "json", 1)
    assert ours == theirs
    assert len(ours) == ('"m"' not in more)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in TEXTS_OF.items() for text in texts])
def test_a_form_is_taken_by_both_or_by_neither(name: str, text: str) -> None:
    row = dict.fromkeys(COLUMNS, "null") | {name: text}
    payload = ("[{" + ",".join(f'"{n}":{t}' for n, t in row.items()) + "}]").encode()
    ours, theirs = both(payload, "json", 1)
    assert ours == theirs
    assert ours is None or len(ours) in (0, 1)


FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
TIMES = [0, -1, FIRST, FIRST - 1, LAST, LAST + 1, None]
DAYS = [0, -719_162, -719_163, 2_932_896, 2_932_897, None, 2**31 - 1, 1 - 2**31]
TEXTS = ['{"a":1.10}', '{"a": 1}', "[", "", "NaN", "1e400", "null", None, "[" * 99 + "]" * 99, "[" * 100 + "]" * 100]


arrow_rows = st.tuples(st.sampled_from(TIMES), st.sampled_from(DAYS), st.sampled_from(TEXTS))


@given(st.lists(arrow_rows, min_size=1, max_size=4))
def test_a_row_in_arrow_is_taken_by_both_or_by_neither(rows: list[tuple[int | None, int | None, str | None]]) -> None:
    times, days, texts = zip(*rows, strict=True)
    arrays = {**dict.fromkeys("mwny"), "t": times, "d": days, "j": texts}
    columns = [
        pa.array(arrays[f.name] or [None] * len(rows), f.type) for f in codec.schema if f.name != "stime"
    ]  # fmt: skip
    payload = codec.encode(pa.RecordBatch.from_arrays(columns, schema=codec.schema.remove(len(COLUMNS))))
    ours, theirs = both(payload, "arrow", len(rows))
    assert ours == theirs


BYTES = [b"{}", b'"\xff"', b"\xc3", b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xc0\xaf"', '"é"'.encode(), None]
UNSCALED = [0, 99_999, -99_999, 100_000, -100_000, 2**127 - 1, -(2**127)]


@given(st.lists(st.tuples(st.sampled_from(BYTES), st.sampled_from(UNSCALED)), min_size=1, max_size=5))
def test_a_row_with_bytes_that_are_none_of_its_types_is_taken_by_neither(rows: list[tuple[bytes | None, int]]) -> None:
    texts, numbers = zip(*rows, strict=True)
    held = pa.Array.from_buffers(pa.string(), len(rows), pa.array(texts, pa.binary()).buffers())
    wide = pa.py_buffer(b"".join(n.to_bytes(16, "little", signed=True) for n in numbers))
    columns = []
    for f in codec.schema.remove(len(COLUMNS)):
        if f.name == "j":
            columns.append(pa.ExtensionArray.from_storage(f.type, held))
        elif f.name == "m":
            columns.append(pa.Array.from_buffers(f.type, len(rows), [None, wide]))
        else:
            columns.append(pa.nulls(len(rows), f.type))
    payload = codec.encode(pa.RecordBatch.from_arrays(columns, schema=codec.schema.remove(len(COLUMNS))))
    ours, theirs = both(payload, "arrow", len(rows))
    assert ours == theirs
    assert ours is not None


@given(worlds.typed_histories(3))
def test_results_are_read_and_said_alike(history: worlds.Buckets) -> None:
    for parts in history.values():
        for rows in parts:
            batch = worlds.batch(rows)
            if batch.schema != worlds.TYPED_SCHEMA:
                continue
            on = ArrowRowCodec(batch.schema, ())
            found = decode_rows(memoryview(on.encode(batch)), batch.schema)
            said = [list(json.loads(text).values()) for text, _ in on.published(batch)]
            assert [[in_json(value) for value in row[:-1]] for row in found] == said


@given(worlds.typed_histories(3), st.integers(1, 64))
def test_keys_of_every_type_fall_to_the_same_partition(history: worlds.Buckets, count: int) -> None:
    for parts in history.values():
        for rows in parts:
            batch = worlds.batch(rows)
            for name in "mwtdyj" if batch.num_rows else "":
                kind = str(batch.schema.field(name).type)
                wanted = [partition_of(value, kind, count) for value in column(batch.column(name))]
                assert partitions_of(batch, (name,), count).tolist() == wanted


def test_a_key_is_hashed_as_the_protocol_has_it() -> None:
    said = {
        b"decimal|'-1.5'": (Decimal("-1.500"), "decimal128(9, 3)"),
        b"decimal|'100'": (Decimal("100.00"), "decimal128(9, 2)"),
        b"decimal|'0'": (Decimal("0.00"), "decimal128(9, 2)"),
        b"date|'2026-01-02'": (date(2026, 1, 2), "date32[day]"),
        b"timestamp|'2026-01-02T03:04:05.000006Z'": (datetime(2026, 1, 2, 3, 4, 5, 6), "timestamp[us]"),
        b"binary|'\xff'": (b"\xff", "binary"),
    }
    for text, (value, kind) in said.items():
        digest = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        assert partition_of(value, kind, 1 << 40) == digest % (1 << 40)
