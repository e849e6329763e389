"""Arrow batches that other programs wrote: a value whose bytes are none of its type costs its row and no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from borealis_py.engine import ArrowSourceCodec, DuckKernel, canonical_hash
from borealis_py.types.arrow import JSON
from tests.engine import worlds

COLUMNS = {"k": "string", "m": "decimal(5,2)", "j": "json", "y": "binary", "t": "timestamp"}
CODEC = ArrowSourceCodec("s", COLUMNS, row_max_bytes=1_000)
SCHEMA = CODEC.schema.remove(len(COLUMNS))
Wire = tuple[bytes | None, int | None, bytes | None, bytes | None, int | None]
"""A row's values as their bytes lie in Arrow."""
NOT_TEXT = [b"\xff", b"a\x80", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf"]
TOO_MANY = [100_000, -100_000, 2**127 - 1, -(2**127)]
BEYOND = 2**62
REASONS = {
    "k": "column 'k': text that is not UTF-8",
    "m": "column 'm': a decimal of more than 5 digits",
    "j": "column 'j': text that is not UTF-8",
    "t": "column 't': a timestamp before the year 1 or after 9999",
    "large": "a row of 1",
}


def raw_column(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """A column with these bytes, whatever they are to its type."""
    if pa.types.is_decimal(arrow):
        wide = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in values)
        valid = pa.array([value is not None for value in values]).buffers()[1]
        return pa.Array.from_buffers(arrow, len(values), [valid, pa.py_buffer(wide)])
    if pa.types.is_timestamp(arrow):
        return pa.array(values, pa.int64()).view(arrow)
    storage = arrow.storage_type if arrow == JSON else arrow
    made = pa.Array.from_buffers(storage, len(values), pa.array(values, pa.binary()).buffers())
    return pa.ExtensionArray.from_storage(JSON, made) if arrow == JSON else made


def payload(rows: Sequence[Wire]) -> bytes:
    columns = [raw_column([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
    return CODEC.encode(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


good_rows = st.tuples(
    st.none() | st.sampled_from([b"", b"a", "é".encode(), b"x" * 900]), st.none() | st.integers(-99_999, 99_999),
    st.sampled_from([None, b"{}", b'{"a":1.10}']), st.none() | st.binary(max_size=3), st.none() | st.integers(0, 9),
)  # fmt: skip
bad_values = st.one_of(
    *(st.tuples(st.just(n), st.sampled_from(v)) for n, v in {"k": NOT_TEXT, "m": TOO_MANY, "j": NOT_TEXT}.items()),
    st.just(("t", BEYOND)), st.just(("large", None)),
)  # fmt: skip


@st.composite
def some_bad(draw: st.DrawFn) -> list[tuple[Wire, str]]:
    """Rows, each with the column that makes it bad; "": it is good."""
    rows: list[tuple[Wire, str]] = []
    for row in draw(st.lists(good_rows, min_size=1, max_size=9)):
        name, value = draw(st.just(("", None)) | bad_values)
        changed = {name: value} if name in COLUMNS else {"k": b"x" * 1_050} if name else {}
        values = dict(zip(COLUMNS, row, strict=True)) | changed
        rows.append(((values["k"], values["m"], values["j"], values["y"], values["t"]), name))
    return rows


GOOD: Wire = b"a", 1, b"{}", b"", 1


@given(some_bad(), st.data())
@example([((b"\xc3", *GOOD[1:]), "k"), ((b"\xa9", *GOOD[1:]), "k")], None)  # a character over two values
def test_a_bad_row_costs_itself_wherever_it_is_and_however_the_rows_are_split(
    rows: list[tuple[Wire, str]], data: st.DataObject | None
) -> None:
    good = [i for i, (_, name) in enumerate(rows) if not name]
    found, bad = CODEC.decode(payload([row for row, _ in rows]), "arrow", range(len(rows)))
    assert [(at, why.startswith(REASONS[rows[at][1]]), raw) for at, why, raw in bad] == [
        (i, True, b"") for i, (_, name) in enumerate(rows) if name
    ]
    alone, none = CODEC.decode(payload([rows[i][0] for i in good]), "arrow", good) if good else (None, [])
    assert none == []
    same(found, alone)
    cut = 0 if data is None else data.draw(st.integers(0, len(rows)))
    halves = [
        CODEC.decode(payload([row for row, _ in part]), "arrow", range(first, first + len(part)))
        for first, part in ((0, rows[:cut]), (cut, rows[cut:]))
        if part
    ]
    same(found, pa.concat_batches(there) if (there := [half for half, _ in halves if half is not None]) else None)
    assert [why for _, lost in halves for _, why, _ in lost] == [why for _, why, _ in bad]


def same(one: Any, other: Any) -> None:
    assert (one is None) == (other is None)
    if one is not None:
        one.validate(full=True)
        assert one.equals(other)
        assert canonical_hash(one) == canonical_hash(other)


def test_a_batch_whose_offsets_lie_is_lost_as_a_whole() -> None:
    offsets = pa.py_buffer(np.array([0, 2, 1, 3], np.int32).tobytes())
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xffc")])
    columns = [texts, *(pa.nulls(3, field.type) for field in list(SCHEMA)[1:])]
    raw = CODEC.encode(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    rows, ((at, why, kept),) = CODEC.decode(raw, "arrow", [1, 2, 3])
    assert (rows, at, kept) == (None, -1, raw)
    assert why.startswith("not an Arrow IPC stream: ")


@pytest.fixture(scope="module")
def on() -> Iterator[DuckKernel]:
    with worlds.kernel(
        lambda app, a, b: a.window("200ms").group_by("k").agg(n="count(*)", m="sum(m)", t="max(t)"), COLUMNS
    ) as made:
        yield made


@given(st.data())
def test_results_are_those_of_the_good_rows_in_any_steps(on: DuckKernel, data: st.DataObject) -> None:
    records = data.draw(st.lists(some_bad(), min_size=1, max_size=4))
    codec = on.source_codec("a")
    mixed: dict[int, Any] = {}
    clean: dict[int, Any] = {}
    for bucket, record in enumerate(records):
        stimes = [bucket * worlds.WIDTH_US + i for i in range(len(record))]
        good = [i for i, (row, name) in enumerate(record) if name in ("", "large")]  # this codec takes large rows
        taken, _ = codec.decode(payload([row for row, _ in record]), "arrow", stimes)
        some = payload([record[i][0] for i in good]) if good else b""
        alone = codec.decode(some, "arrow", [stimes[i] for i in good])[0] if good else None
        for buckets, rows in ((mixed, taken), (clean, alone)):
            if rows is not None:
                buckets[bucket] = on.order([rows])
    last = len(records) + 2
    cut = data.draw(st.integers(0, last))
    state, first = on.step(on.initial(), 0, cut, {b: rows for b, rows in mixed.items() if b < cut})
    _, rest = on.step(state, cut, last, {b: rows for b, rows in mixed.items() if b >= cut})
    _, expected = on.step(on.initial(), 0, last, clean)
    assert hashes(first | rest) == hashes(expected)


def hashes(outputs: dict[int, Any]) -> dict[int, str]:
    return {bucket: canonical_hash(output.rows) for bucket, output in outputs.items() if output.rows is not None}
