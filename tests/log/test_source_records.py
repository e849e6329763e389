"""Decoding a source's records: everything usable is used, everything else is a reject that says why."""

from __future__ import annotations

import struct

import pytest

from borealis_py.log.base import Feed, Record
from borealis_py.log.description import Life
from borealis_py.log.records import MAGIC, BatchHeader, ClaimHeader, Refused, pack
from borealis_py.log.source_records import decode_source
from sunion.bucket import Buckets
from sunion.model import FOREVER, RAW_BYTES_MAX
from sunion.source import SourceFold, fold
from tests.reconcile.list_world import ListSource, batch, claim
from tests.sunion.lists import opened

FEED = Feed("app.s")
FAR = 2**53 + 1
"""No number is beyond 2^53."""


def decode(value: bytes | None):
    return opened(decode_source(Record(FEED, 7, 0, None, value), ListSource(), "s", Life("a1")))


def test_a_claim():
    record = decode(claim(3, "u"))
    assert (record.offset, record.epoch, record.uid, record.claim) == (7, 3, "u", True)


def test_a_good_batch_has_a_range_of_seqs():
    record = decode(batch(1, "u", 10, [(5, 1.5), (6, 2)], boundary=9))
    assert record.seqs == range(10, 12)
    assert record.stimes == (5, 6)
    assert record.rows == [(5, 1.5), (6, 2)]
    assert record.boundary == 9
    assert record.rejects == ()


def test_a_boundary_alone_has_no_rows():
    record = decode(batch(1, "u", 10, [], boundary=9))
    assert (len(record.seqs), record.rows, record.boundary, record.rejects) == (0, None, 9, ())


def test_bad_tuples_leave_the_good_ones_with_their_seqs_and_stimes():
    record = decode(batch(1, "u", 10, [(5, "x"), (6, 2), (7, None), (8, 4)], boundary=9))
    assert record.seqs == (11, 13)
    assert record.stimes == (6, 8)
    assert record.rows == [(6, 2), (8, 4)]
    assert record.boundary == 9
    assert [(r.source, r.offset, r.reason, r.raw) for r in record.rejects] == [
        ("s", 7, "malformed: tuple 10: not a number", b'"x"'),
        ("s", 7, "malformed: tuple 12: not a number", b"null"),
    ]


def test_a_payload_that_cannot_be_taken_apart_keeps_its_boundary():
    value = pack(BatchHeader("a1", 1, "u", 4, struct.pack("<q", 5), 9, "json"), b"{" * (RAW_BYTES_MAX + 1))
    record = decode(value)
    assert (record.epoch, len(record.seqs), record.rows, record.boundary) == (1, 0, None, 9)
    (reject,) = record.rejects
    assert reject.reason.startswith("malformed: batch: ")
    assert reject.raw == b"{" * RAW_BYTES_MAX


def test_only_bad_tuples():
    record = decode(batch(1, "u", 4, [(5, "x")]))
    assert (len(record.seqs), record.rows, len(record.rejects)) == (0, None, 1)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "too short"),
        (b"", "too short"),
        (b'{"carrier": "UA"}', "wrong magic"),
        (MAGIC + b"\x09\x00\x00\x00\x00", "version 9"),
        (pack(BatchHeader("a1", 1, "u", 0, b"\x01" * 7, None, "json")), "stimes cut short"),
        (pack(ClaimHeader("a1", FAR, "u")), f"epoch {FAR} is not within 0 to"),
        (pack(ClaimHeader("a1", 1, "u", -1)), "lateness -1 is not within 0 to"),
        (pack(BatchHeader("a1", -4, "u", 0, b"", None, "json")), "epoch -4 is not within 0 to"),
        (pack(BatchHeader("a1", 1, "u", FAR, b"", None, "json")), f"first position {FAR} is not"),
        (pack(BatchHeader("a1", 1, "u", 0, b"", FAR, "json")), f"boundary {FAR} is not"),
        (pack(BatchHeader("a1", 1, "u", 0, b"", -FAR, "json")), f"boundary {-FAR} is not"),
        (pack(BatchHeader("a1", 1, "u", 0, b"", FOREVER + 1, "json")), f"boundary {FOREVER + 1} is not"),
        (pack(BatchHeader("a1", 1, "u", 0, b"", 9, "json", at=((0, -2),))), "offset -2 is not"),
        (pack(BatchHeader("a1", 1, "u", 0, b"", 9, "json", at=((FAR, 2),))), f"partition {FAR} is not"),
        (batch(1, "u", 0, [(1, 1)])[:20], "header cut short"),
    ],
)
def test_a_foreign_record_is_one_reject(value, reason):
    record = decode(value)
    assert record.epoch == -1
    (reject,) = record.rejects
    assert (reject.source, reject.offset, reject.raw) == ("s", 7, value or b"")
    assert "not a publisher's record" in reject.reason
    assert reason in reject.reason


@pytest.mark.parametrize(
    "value",
    [
        pack(ClaimHeader("b2", 99, "u")),
        pack(BatchHeader("b2", 1, "u", 0, struct.pack("<q", 5), 9, "json"), b"[broken"),
        pack(BatchHeader("b2", -4, "u", 0, b"\x01", None, "json")),
    ],
)
def test_a_record_of_another_life_is_nothing_before_anything_of_it_is_decoded(value):
    record = decode(value)
    assert (record.foreign, record.rejects, record.claim, len(record.seqs)) == (True, (), False, 0)


def test_the_raw_bytes_of_a_foreign_record_are_cut():
    (reject,) = decode(b"x" * (RAW_BYTES_MAX + 5)).rejects
    assert len(reject.raw) == RAW_BYTES_MAX


def refusing(*rejects: Refused, first: int = 4, rows: bytes = b"[1,2]", stimes: tuple[int, ...] = (5, 6)):
    header = BatchHeader("a1", 1, "u", first, struct.pack(f"<{len(stimes)}q", *stimes), 9, "json", 0, rejects)
    return decode(pack(header, rows))


def test_a_publishers_rejects_take_positions_and_tuples_the_others():
    record = refusing(Refused(5, "late: too", b"x", 1), Refused(7, "malformed", b"y"))
    assert record.seqs == (4, 6)
    assert [(r.seq, r.offset, r.reason, r.raw) for r in record.rejects] == [
        (5, 7, "late: too", b"x"),
        (7, 7, "malformed", b"y"),
    ]
    assert record.late_us == (1,)


def test_rejects_may_come_alone():
    record = refusing(Refused(4, "a", b""), rows=b"", stimes=())
    assert (len(record.seqs), record.rows, [r.seq for r in record.rejects]) == (0, None, [4])


@pytest.mark.parametrize("seqs", [(3,), (7,), (9,), (5, 5), (6, 5)])
def test_rejects_that_lie_outside_their_batch_are_no_publishers_record(seqs):
    record = refusing(*(Refused(seq, "a", b"") for seq in seqs))
    assert record.epoch == -1
    assert "rejects at" in record.rejects[0].reason


@pytest.mark.parametrize("lateness_us", [-1, 366 * 86_400_000_000 + 1])
def test_a_lateness_that_cannot_be_is_no_publishers_record(lateness_us):
    record = decode(pack(ClaimHeader("a1", 3, "u", lateness_us)))
    assert record.epoch == -1
    assert "lateness" in record.rejects[0].reason


class Never:
    """A codec that must not be asked."""

    def decode(self, payload: bytes, encoding: str, stimes: object) -> tuple[None, list]:
        raise AssertionError("decoded, and its writer does not own the source")


@pytest.mark.parametrize("state", [SourceFold(0, 2, "owner"), SourceFold(FOREVER, 1, "u")], ids=["fenced", "ended"])
def test_nothing_that_does_not_count_is_decoded(state):
    value = batch(1, "u", 0, [(1, 1), (2, 2)])
    record = decode_source(Record(FEED, 7, 0, None, value), Never(), "s", Life("a1"))
    after, accepted = fold(state, record, Buckets(1_000), None, "s", 100)
    assert after == state
    assert accepted.fenced + accepted.after_end == 2
