"""Bytes of a replica's topic -> its statements: the product's records as they were meant, and what is none."""

from __future__ import annotations

import pyarrow as pa
import pytest

from borealis_py.log import records
from borealis_py.verify.envelope import Raw, Row
from borealis_py.verify.history import HistoryRecord, Rejection, replay
from tests.verify.records import record

SCHEMA = pa.schema([("carrier", pa.string()), ("dep_delay", pa.float64()), ("stime", pa.int64())])


def arrow(rows: list[Row]) -> bytes:
    """Rows as a replica writes them."""
    columns = [pa.array(list(c), t) for c, t in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)]
    return bytes(pa.RecordBatch.from_arrays(columns, schema=SCHEMA).serialize())


def test_envelopes_of_the_product_are_read_as_they_were_meant() -> None:
    one, two = [("UA", 121.5, 7)], [("B6", 300.0, 8)]
    values = [
        records.pack(records.RangeHeader("a1", 3, 0, 5, 0)),
        records.pack(records.StableHeader("a1", 3, 5, 0, 0, 2, "h"), arrow(one)),
        records.pack(records.StableHeader("a1", 3, 5, 0, 1, 2, "h"), arrow(two)),
        records.pack(records.TentativeHeader("a1", 3, 6, 0, 0, 1, "h", ("ewr", "lga"), ("lga",), 0.5, 6), arrow(one)),
        records.pack(records.UndoHeader("a1", 3, 6)),
        records.pack(records.StableHeader("a1", 3, 6, 0, 0, 1, "h")),
        records.pack(records.RecDoneHeader("a1", 3, 7)),
    ]
    found = replay([Raw(i, v) for i, v in enumerate(values)], SCHEMA)
    assert found.records == [
        HistoryRecord("BOUNDARY", 3, 0, 5),
        HistoryRecord("STABLE", 3, 5, 6, (*one, *two)),
        HistoryRecord("TENTATIVE", 3, 6, 7, tuple(one), ("ewr", "lga"), ("lga",), 0.5, 6),
        HistoryRecord("UNDO", 3, 6, 6),
        HistoryRecord("STABLE", 3, 6, 7),
        HistoryRecord("REC_DONE", 3, 7, 7),
    ]
    assert found.unreadable == []


def test_what_could_not_be_used_travels_with_its_bucket() -> None:
    letters = [records.RecordPart("a", 7, "late", b"?", 3)], [records.RecordPart("sums", -1, "overflow", b"{}")]
    values = [
        records.pack(records.StableHeader("a1", 1, 5, 0, part, 2, "h", tuple(own))) for part, own in enumerate(letters)
    ]
    (said,) = replay([Raw(i, v) for i, v in enumerate(values)], SCHEMA).records
    assert said.rejections == (Rejection("a", 7, "late", b"?", 3), Rejection("sums", -1, "overflow", b"{}"))


def test_records_that_are_none_are_named_and_torn_buckets_are_not_taken_for_whole() -> None:
    whole = records.pack(records.StableHeader("a1", 1, 5, 0, 0, 1, "h"), arrow([("UA", 121.5, 7)]))
    half = records.pack(records.StableHeader("a1", 1, 6, 0, 0, 2, "h"), arrow([("UA", 121.5, 7)]))
    orphan = records.pack(records.StableHeader("a1", 1, 7, 0, 1, 2, "h"), arrow([("UA", 121.5, 7)]))
    values = [b"{}", whole[:-40], whole, half, orphan, None]
    found = replay([Raw(i, v) for i, v in enumerate(values)], SCHEMA)
    assert [r.bucket for r in found.records] == [5]
    assert [text.split(":")[0] for text in found.unreadable] == ["offset 0", "offset 1", "offset 5"]


@pytest.mark.parametrize(
    "header",
    [
        ["STABLE", "a1", "one", 5, 0, 0, 1, "h"],
        ["STABLE", "a1", 1, 5, 0, 2, 1, "h"],
        ["STABLE", "a1", 1, 5, 0, 0, 1, "h", [["a"]]],
        ["BOUNDARY", "a1", 1, 5],
        ["TENTATIVE", "a1", 1, 5, 0, 0, 1, "h", ["a"]],
        ["REC_DONE", "a1", None, 5],
        ["NOISE", "a1", 1, 5],
        [7, "a1"],
    ],
)
def test_an_envelope_of_ours_with_fields_that_cannot_be_is_named(header: list[object]) -> None:
    found = replay([record(3, header[0], *header[2:])], SCHEMA)
    assert list(found.records) == []
    assert len(found.unreadable) == 1
    assert found.unreadable[0].startswith("offset 3: ")


def test_parts_of_two_writers_that_mingle_are_joined_by_what_their_headers_share() -> None:
    rows: list[Row] = [("UA", 121.5, 7), ("B6", 300.0, 8)]

    def part(n: int, inc: int) -> bytes:
        return records.pack(records.StableHeader("a1", inc, 5, 0, n, 2, "h"), arrow([rows[n]]))

    found = replay([Raw(i, part(*one)) for i, one in enumerate([(0, 1), (0, 2), (1, 2), (1, 1)])], SCHEMA)
    assert [(r.inc, r.rows) for r in found.records] == [(2, tuple(rows))]  # what is left of it are copies
    assert found.unreadable == []
