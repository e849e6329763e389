"""A source's log against the product's fold: whatever lies in it, both find the same rows and dead letters."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.engine.arrow.rows import ArrowRows
from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.log.base import Feed, Record
from borealis_py.log.description import Life
from borealis_py.log.source_records import decode_source
from borealis_py.verify.envelope import Raw
from borealis_py.verify.source_log import SourceRules, fold
from sunion.bucket import Buckets
from sunion.source import SourceFold
from sunion.source import fold as folded
from tests.verify.records import record

COLUMNS = {"n": "int64", "s": "string", "x": "double", "b": "bool"}
WIDTH, ORIGIN_US, AHEAD_US, ROW_MAX = 1_000, 1_000, 5_000, 70
RULES = SourceRules(COLUMNS, ORIGIN_US, WIDTH, AHEAD_US, ROW_MAX)
GOOD = {"n": 1, "s": "a", "x": 1.5, "b": True}


def product(raw: list[Raw]) -> tuple[int, Counter[int], int]:
    """What the product makes of it: rows taken, dead letters by offset, boundary."""
    state, taken, dead = SourceFold(ORIGIN_US), 0, Counter[int]()
    codec, life = ArrowSourceCodec("src", COLUMNS, ROW_MAX), Life("a1")
    for one in raw:
        said = decode_source(Record(Feed("t"), one.offset, 0, None, one.value), codec, "src", life)
        state, accepted = folded(state, said, Buckets(WIDTH), ArrowRows(), "src", AHEAD_US)
        taken += sum(count for _, _, count in accepted.rows)
        dead.update(reject.offset for reject in accepted.rejects)
    return taken, dead, state.boundary


def batch(offset: int, first: int, stimes: list[int], payload: bytes, **more: object) -> Raw:
    """Of the first owner; `more`: boundary, encoding, rejects, epoch, at."""
    said: Mapping[str, object] = {"boundary": None, "encoding": "json", "rejects": [], "epoch": 1, "at": [], **more}
    packed = struct.pack(f"<{len(stimes)}q", *stimes)
    header = "TUPLES", said["epoch"], "u", first, packed, said["boundary"], said["encoding"], 0
    whole = record(offset, *header, said["rejects"], said["at"])
    return Raw(offset, (whole.value or b"") + payload)


def arrow(rows: list[dict[str, object]]) -> bytes:
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("b", pa.bool_())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist(rows, schema))
    return bytes(sink.getvalue())


BAD_ROWS = [
    {},
    {"n": 1},
    {**GOOD, "n": 1.5},
    {**GOOD, "n": "1"},
    {**GOOD, "n": True},
    {**GOOD, "n": 1 << 63},
    {**GOOD, "s": 1},
    {**GOOD, "x": "1"},
    {**GOOD, "x": False},
    {**GOOD, "b": 0},
    {**GOOD, "s": "a" * 60},
    [1],
    None,
]
GOOD_ROWS = [GOOD, {**GOOD, "more": 1}, dict.fromkeys(COLUMNS), {**GOOD, "x": 1}, {**GOOD, "n": -(1 << 63)}]
ROWS = st.sampled_from([*GOOD_ROWS, *BAD_ROWS])
PAYLOADS = st.sampled_from([b"", b"[", b"{}", b"[{}", b"7", b"\xff", b"[" * 300 + b"]" * 300])


@pytest.mark.parametrize(
    ("row", "good"), [*((row, True) for row in GOOD_ROWS), *((row, False) for row in BAD_ROWS)], ids=str
)
def test_a_row_is_taken_by_both_or_by_neither(row: object, good: bool) -> None:
    log = [record(0, "EPOCH", 1, "u", 0), batch(1, 0, [1_000], json.dumps([row]).encode())]
    found = fold(log, RULES)
    assert (len(found.rows), found.dead) == product(log)[:2]
    assert len(found.rows) == good


FAR = (1 << 63) + 1_000
EPOCHS = st.sampled_from([0, 0, 1, 1, -1, (1 << 53) + 1])
COPIED = st.sampled_from([[], [], [], [[0, 7]], [[0, -1]], [[0, -2]], [[1 << 54, 3]]])
KINDS = ["rows", "rows", "rows", "arrow", "payload", "garbage", "claim", "refused", "zombie"]


@st.composite
def logs(draw: st.DrawFn) -> list[Raw]:
    """Claims, batches, garbage, in any order."""
    out = [record(0, "EPOCH", 1, "u", draw(st.sampled_from([0, 300])))]
    seq = 0
    for offset in range(1, draw(st.integers(2, 12))):
        kind = draw(st.sampled_from(KINDS))
        stimes = [draw(st.integers(900, 8_000)) for _ in range(draw(st.integers(0, 3)))]
        first = max(0, seq + draw(st.sampled_from([0, 0, 0, 0, -2, 3, 1 << 63]))) % FAR
        boundary = draw(st.sampled_from([None, None, 1_500, 2_000, 3_000, 1 << 53, 1 << 54, -(1 << 54), 1 << 62]))
        if kind == "garbage":
            out.append(draw(st.sampled_from([Raw(offset, b"?"), Raw(offset, None), record(offset, "NOISE", 1)])))
        elif kind == "claim":
            out.append(record(offset, "EPOCH", draw(EPOCHS), "u", draw(st.sampled_from([0, -1, 300]))))
        elif kind == "arrow":
            rows = [GOOD] * (len(stimes) + draw(st.sampled_from([0, 0, 1])))
            out.append(batch(offset, first, stimes, arrow(rows), boundary=boundary, encoding="arrow"))
        elif kind == "payload":
            encoding = draw(st.sampled_from(["json", "arrow", "xml"]))
            out.append(batch(offset, first, stimes, draw(PAYLOADS), boundary=boundary, encoding=encoding))
        else:
            rows = [draw(ROWS) for _ in stimes]
            rejects = [[first + draw(st.integers(-1, 3)), "bad", b"?", 0]] if kind == "refused" else []
            more = {"rejects": rejects, "epoch": 0 if kind == "zombie" else 1, "at": draw(COPIED)}
            out.append(batch(offset, first, stimes, json.dumps(rows).encode(), boundary=boundary, **more))
        seq = first + len(stimes)
    return out


@given(logs())
def test_whatever_lies_in_a_log_both_find_the_same(log: list[Raw]) -> None:
    found = fold(log, RULES)
    taken, dead, boundary = product(log)
    assert len(found.rows) == len(found.seqs) == taken
    assert found.dead == dead
    assert max(found.boundary or ORIGIN_US, ORIGIN_US) == boundary


def test_only_numbers_are_kept_where_rows_are_not_asked_for() -> None:
    rows = json.dumps([GOOD] * 2).encode()
    log = [record(0, "EPOCH", 1, "u", 0), batch(1, 0, [1_000, 1_001], rows), batch(2, 5, [1_002, 1_003], rows)]
    found = fold(log, RULES, keep_rows=False)
    assert (found.rows, list(found.seqs), found.missing) == ([], [0, 1, 5, 6], [2, 3, 4])
