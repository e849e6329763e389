"""Records of a replica's stream: split when large, whole when read, whatever a dead writer left in between."""

from __future__ import annotations

import msgspec
import pytest

from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.description import Life, OtherVersion
from borealis_py.log.records import EnvelopeError, RecordPart, StableHeader, TentativeHeader, pack
from borealis_py.log.stream import Encoded, StreamDecoder, StreamEncoder, readable
from borealis_py.log.topics import ENVELOPE_BYTES_MAX
from sunion.model import (
    RAW_BYTES_MAX,
    Output,
    RecDone,
    Reject,
    StableBucket,
    StableRange,
    StreamRecord,
    TentativeBucket,
    Undo,
)
from tests.log.encoders import BUCKETS, CODEC, FEED, encoder


def in_log(records: list[NewRecord]) -> list[Record]:
    return [Record(FEED, i, r.timestamp_ms or 0, None, r.value) for i, r in enumerate(records)]


def decode(decoder: StreamDecoder, records: list[NewRecord]) -> list[StreamRecord]:
    return [d for d in map(decoder.decode, in_log(records)) if d is not None]


def rows_of(record: StreamRecord) -> list[str]:
    assert isinstance(record, StableBucket | TentativeBucket)
    assert isinstance(record.output.rows, Encoded)
    rows: list[str] = record.output.rows.rows(CODEC)  # type: ignore[arg-type]
    return rows


@pytest.mark.parametrize(
    "said", [StableRange(3, 7, 9, 20), Undo(3, 7), RecDone(3, 9), StableBucket(3, 7, Output(), 5)], ids=repr
)
def test_what_has_no_rows_comes_back_as_it_was(said: StreamRecord) -> None:
    assert decode(StreamDecoder(Life("a1"), "s1"), encoder().encode(said)) == [said]


def test_rows_rejects_and_what_was_lacked_come_back() -> None:
    reject = Reject("lga", 9, "late", b"x")
    stable = StableBucket(3, 7, Output(["a", "b"], (reject,)), 5)
    tentative = TentativeBucket(
        inc=3,
        bucket=8,
        output=Output(["c"]),
        missing_sources=("ewr", "lga"),
        missing=("lga",),
        waited_us=4,
        completeness=0.5,
        diverged_from=7,
    )
    first, second = decode(StreamDecoder(Life("a1"), "s1"), encoder().encode(stable) + encoder().encode(tentative))
    assert rows_of(first) == ["a", "b"]
    assert isinstance(first, StableBucket)
    assert first.output.rejects == (reject,)
    assert rows_of(second) == ["c"]
    assert isinstance(second, TentativeBucket)
    assert (second.missing_sources, second.missing) == (("ewr", "lga"), ("lga",))
    assert (second.completeness, second.diverged_from, second.waited_us) == (0.5, 7, 4)


def test_timestamps_find_the_bucket_and_a_range_by_its_last_one() -> None:
    assert encoder().encode(StableBucket(1, 70, Output()))[0].timestamp_ms == 7_000
    assert encoder().encode(StableRange(1, 70, 75))[0].timestamp_ms == 7_400


LARGE = [str(i) * 1000 for i in range(1_000)]


def test_a_large_bucket_is_split_and_counts_when_its_last_part_is_read() -> None:
    records = encoder().encode(StableBucket(1, 7, Output(LARGE, (Reject("a", 1, "late"),))))
    assert len(records) > 1
    assert all(len(r.value or b"") <= ENVELOPE_BYTES_MAX + 1_000 for r in records)
    decoder = StreamDecoder(Life("a1"), "s1")
    *early, last = in_log(records)
    assert [decoder.decode(r) for r in early] == [None] * len(early)
    whole = decoder.decode(last)
    assert whole is not None
    assert rows_of(whole) == LARGE
    assert isinstance(whole, StableBucket)
    assert len(whole.output.rejects) == 1


def burst(count: int, size: int = RAW_BYTES_MAX) -> tuple[Reject, ...]:
    return tuple(Reject("a", i, f"bad {i}", bytes([i % 256]) * size) for i in range(count))


@pytest.mark.parametrize("rejects", [burst(1), burst(200), burst(30_000, 1)], ids=len)
@pytest.mark.parametrize("rows", [None, ["few"], LARGE], ids=["no rows", "few rows", "many rows"])
def test_a_burst_of_dead_letters_is_split_like_rows(rejects: tuple[Reject, ...], rows: list[str] | None) -> None:
    """A bucket that the log refused would stop every replica at it, again and again."""
    records = encoder().encode(StableBucket(1, 7, Output(rows, rejects)))
    assert all(len(r.value or b"") <= 2 * ENVELOPE_BYTES_MAX + 1_000 for r in records)
    (whole,) = decode(StreamDecoder(Life("a1"), "s1"), records)
    assert isinstance(whole, StableBucket)
    assert whole.output.rejects == rejects
    if rows is None:
        assert whole.output.rows is None
    else:
        assert rows_of(whole) == rows


@pytest.mark.parametrize("size", [10, ENVELOPE_BYTES_MAX - 100_000, 7 * ENVELOPE_BYTES_MAX])
def test_a_row_that_fills_a_record_alone_shares_it_with_no_dead_letters(size: int) -> None:
    """Together they would be more than the topic takes, and the bucket could never be written."""
    letters = tuple(Reject("a", i, "too large", b"x" * RAW_BYTES_MAX) for i in range(20))
    said = StableBucket(3, 7, Output(["y" * size], letters), 5)
    records = encoder().encode(said)
    assert max(len(r.value or b"") for r in records) < max(size, ENVELOPE_BYTES_MAX) + 10_000
    (found,) = decode(StreamDecoder(Life("a1"), "s1"), records)
    assert rows_of(found) == ["y" * size]
    assert isinstance(found, StableBucket)
    assert found.output.rejects == letters


def test_tentative_words_are_no_larger_for_dead_letters_which_only_stable_ones_carry() -> None:
    without, with_ = (
        TentativeBucket(
            inc=1,
            bucket=7,
            output=Output(["few"], r),
            missing_sources=("s",),
            missing=("s",),
            waited_us=0,
            completeness=0.5,
            diverged_from=7,
        )
        for r in ((), burst(200))
    )
    assert encoder().encode(with_) == encoder().encode(without)


def test_parts_of_a_writer_that_died_are_dropped_when_its_successor_says_the_bucket_again() -> None:
    torn = encoder().encode(StableBucket(1, 7, Output(LARGE)))[:-1]
    again = encoder().encode(StableBucket(2, 7, Output(LARGE)))
    (only,) = decode(StreamDecoder(Life("a1"), "s1"), torn + again)
    assert only.inc == 2
    assert rows_of(only) == LARGE


def test_a_tail_without_its_beginning_is_dropped() -> None:
    records = encoder().encode(StableBucket(1, 7, Output(LARGE)))
    assert decode(StreamDecoder(Life("a1"), "s1"), records[1:]) == []


def test_rows_of_another_schema_are_refused() -> None:
    records = in_log(encoder("s2").encode(StableBucket(1, 7, Output(["a"]))))
    with pytest.raises(EnvelopeError, match="schema s2, expected s1"):
        StreamDecoder(Life("a1"), "s1").decode(records[0])


def test_foreign_bytes_are_refused() -> None:
    with pytest.raises(EnvelopeError):
        StreamDecoder(Life("a1")).decode(Record(FEED, 0, 0, None, b"{}"))


def test_records_of_another_life_say_nothing() -> None:
    """Also a part of theirs that would make a bucket whole."""
    ours = encoder().encode(StableBucket(1, 7, Output(LARGE)))
    theirs = StreamEncoder(FEED, "b2", BUCKETS, CODEC, "s1").encode(StableBucket(1, 7, Output(LARGE)))  # type: ignore[arg-type]
    said = (
        StableRange(9, 0, 9, 0),
        Undo(9, 3),
        RecDone(9, 3),
        TentativeBucket(
            inc=9,
            bucket=7,
            output=Output(),
            missing_sources=(),
            missing=(),
            waited_us=0,
            completeness=1.0,
            diverged_from=7,
        ),
    )
    for one in said:
        theirs += StreamEncoder(FEED, "b2", BUCKETS, CODEC, "s1").encode(one)  # type: ignore[arg-type]
    assert decode(StreamDecoder(Life("a1"), "s1"), [*theirs, *ours[:1], *theirs]) == []


@pytest.mark.parametrize("version", [1, 3])
def test_an_envelope_of_another_version_stops_the_reader_by_name(version: int) -> None:
    (record,) = in_log(encoder().encode(Undo(1, 7)))
    other = msgspec.structs.replace(record, value=b"BZ" + bytes([version]) + (record.value or b"")[3:])
    with pytest.raises(OtherVersion, match=f"{FEED.topic}, offset 0: envelope version {version}.*same version"):
        readable(other, StreamDecoder(Life("a1")))


def test_parts_of_two_incarnations_may_mingle() -> None:
    """Simulator, seed 500770: a zombie's part stands between the parts of its successor, and may be its last."""
    headers = [StableHeader("a1", inc, 7, 0, part, 2, "s", ()) for inc, part in ((2, 0), (1, 0), (2, 1))]
    records = [Record(Feed("r"), i, 0, None, pack(h, bytes([h.inc, h.part]))) for i, h in enumerate(headers)]
    decoder = StreamDecoder(Life("a1"), "s")
    *_, said = [decoder.decode(record) for record in records]
    assert isinstance(said, StableBucket)
    assert (said.inc, said.output.rows) == (2, Encoded((bytes([2, 0]), bytes([2, 1]))))


def mingled(*said: StableHeader | TentativeHeader) -> list[StreamRecord]:
    """Parts in this order; the first byte of a payload tells whose it is (`held`), the second which part."""
    records = [Record(Feed("r"), i, 0, None, pack(h, bytes([h.waited_us, h.part]))) for i, h in enumerate(said)]
    decoder = StreamDecoder(Life("a1"), "s")
    return [whole for record in records if (whole := decoder.decode(record)) is not None]


def stable(whose: int, part: int, parts: int = 3) -> StableHeader:
    rejects = (RecordPart("s", whose, "bad", b""),) if part == 0 else ()
    return StableHeader("a1", 1, 7, whose, part, parts, "s", rejects)


def tentative(whose: int, part: int) -> TentativeHeader:
    return TentativeHeader("a1", 1, 7, whose, part, 2, "s", (f"s{whose}",), (f"s{whose}",), 0.5, 7)


A, B = 1, 2


def test_parts_of_two_writers_of_one_number_are_not_put_together() -> None:
    """Two processes of one index that start at once have one number until they read each other's heartbeats."""
    (said,) = mingled(stable(A, 0), stable(A, 1), stable(B, 0), stable(A, 2))
    assert isinstance(said, StableBucket)
    assert said.output == Output(Encoded((b"\1\0", b"\1\1", b"\1\2")), (Reject("s", A, "bad", b""),))
    assert [s.output.rows for s in mingled(stable(A, 0), stable(B, 0), stable(B, 1), stable(B, 2), stable(A, 1))] == [  # type: ignore[union-attr]
        Encoded((b"\2\0", b"\2\1", b"\2\2"))
    ]


def test_parts_of_different_kinds_are_not_put_together() -> None:
    assert mingled(stable(A, 0, 2), tentative(B, 1)) == []
    first, second = mingled(stable(A, 0, 2), tentative(B, 0), tentative(A, 0), tentative(B, 1), stable(A, 1, 2))
    assert isinstance(first, TentativeBucket)
    assert (first.missing_sources, first.output.rows) == (("s2",), Encoded((b"\2\0", b"\2\1")))
    assert isinstance(second, StableBucket)
    assert second.output.rows == Encoded((b"\1\0", b"\1\1"))


def test_what_the_dead_left_is_forgotten_with_the_next_stable_bucket() -> None:
    decoder = StreamDecoder(Life("a1"), "s")
    halves: list[StableHeader | TentativeHeader] = [
        stable(A, 0),
        tentative(B, 1),
        StableHeader("a1", 4, 6, A, 0, 3, "s", ()),
    ]
    later = StableHeader("a1", 2, 8, 0, 0, 1, "s", ())
    for i, header in enumerate(halves):
        assert decoder.decode(Record(Feed("r"), i, 0, None, pack(header, b"x"))) is None
    assert len(decoder._open) == 3
    assert decoder.decode(Record(Feed("r"), 3, 0, None, pack(later, b"x"))) is not None
    assert not decoder._open


def test_a_tentative_bucket_makes_halves_of_its_incarnation_forgotten_and_of_no_other() -> None:
    """What a successor has begun may still become whole; stable halves are only forgotten for a stable bucket."""
    decoder = StreamDecoder(Life("a1"), "s")
    halves = [(inc, bucket) for inc in (1, 2) for bucket in (6, 7, 9)]
    for inc, bucket in halves:
        header = TentativeHeader("a1", inc, bucket, 0, 0, 2, "s", ("s1",), ("s1",), 0.5, bucket)
        assert decoder.decode(Record(Feed("r"), 0, 0, None, pack(header, b"x"))) is None
    assert decoder.decode(Record(Feed("r"), 1, 0, None, pack(stable(A, 0), b"x"))) is None
    whole = TentativeHeader("a1", 1, 8, 0, 0, 1, "s", ("s1",), ("s1",), 0.5, 8)
    assert decoder.decode(Record(Feed("r"), 2, 0, None, pack(whole, b"x"))) is not None
    left = [(type(h), h.inc, h.bucket) for h in decoder._open]
    assert left == [(TentativeHeader, i, b) for i, b in halves if (i, b) not in ((1, 6), (1, 7))] + [
        (StableHeader, 1, 7)
    ]
