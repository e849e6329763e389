"""The envelope, byte for byte: a change of the format must be noticed here, and gets a new version number."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.log.numbers import NUMBER_MAX
from borealis_py.log.records import (
    BatchHeader,
    ClaimHeader,
    EnvelopeError,
    GapHeader,
    RangeHeader,
    RecDoneHeader,
    RecordPart,
    Refused,
    SourceHeader,
    StableHeader,
    StreamHeader,
    TentativeHeader,
    UndoHeader,
    pack,
    pack_stimes,
    unpack_source,
    unpack_stimes,
    unpack_stream,
)

DEEP, NO_UTF8 = b"\x91" * 100_000, b"\x93\xa5EPOCH\x01\xa2\xff\xfe"

GOLDEN: list[tuple[SourceHeader | StreamHeader, bytes, str]] = [
    (ClaimHeader("a1", 3, "u1", 2_000_000), b"", "425a020000001395a545504f4348a2613103a27531ce001e8480"),
    (
        BatchHeader(
            "a1",
            3,
            "u1",
            7,
            pack_stimes([1_000_000, 1_000_001]),
            1_100_000,
            "json",
            12,
            (Refused(8, "late", b"x", 30_000),),
        ),
        b'[{"a":1},{"a":2}]',
        "425a020000003e9da65455504c4553a2613103a2753107c41040420f000000000041420f0000000000ce0010c8e0a46a736f"
        "6e0c919408a46c617465c40178cd753090a0c2"
        "5b7b2261223a317d2c7b2261223a327d5d",
    ),
    (
        BatchHeader("a1", 3, "u1", 9, b"", 2**62, "json"),  # END
        b"",
        "425a02000000259da65455504c4553a2613103a2753109c400cf4000000000000000a46a736f6e009090a0c2",
    ),
    (
        BatchHeader("a1", 3, "u1", 9, b"", 1_100_000, "arrow", 12, (), ((0, 70_000), (4, 5)), "aZ0-"),  # of an ingress
        b"",
        "425a02000000309da65455504c4553a2613103a2753109c400ce0010c8e0a56172726f770c90929200ce00011170920405a4615a302dc2",
    ),
    (
        StableHeader("a1", 2, 10, 0, 0, 1, "s1", (RecordPart("lga", 5, "late", b"x", 8),)),
        b"rows",
        "425a020000002399a6535441424c45a26131020a000001a273319195a36c676105a46c617465c4017808726f7773",
    ),
    (
        TentativeHeader("a1", 2, 11, 40_000, 0, 1, "s1", ("ewr", "lga"), ("lga",), 0.5, 11),
        b"rows",
        "425a02000000309ca954454e544154495645a26131020bcd9c400001a2733192a3657772a36c676191a36c6761cb3fe00000000000000b726f7773",
    ),
    (RangeHeader("a1", 2, 12, 15, 0), b"", "425a020000001196a8424f554e44415259a26131020c0f00"),
    (GapHeader("a1", 2, 12, 15), b"", "425a020000000b95a3474150a26131020c0f"),
    (UndoHeader("a1", 2, 11), b"", "425a020000000b94a4554e444fa26131020b"),
    (RecDoneHeader("a1", 2, 15), b"", "425a020000000f94a85245435f444f4e45a26131020f"),
]
IDS = [type(header).__name__ for header, _, _ in GOLDEN]


def unpack(header: object, value: bytes) -> tuple[object, bytes]:
    read = unpack_source if isinstance(header, SourceHeader) else unpack_stream
    got, payload = read(value)
    return got, bytes(payload)


@pytest.mark.parametrize(("header", "payload", "golden"), GOLDEN, ids=IDS)
def test_the_bytes_are_these(header: SourceHeader | StreamHeader, payload: bytes, golden: str) -> None:
    assert pack(header, payload).hex() == golden
    assert unpack(header, bytes.fromhex(golden)) == (header, payload)


@pytest.mark.parametrize(("header", "payload", "golden"), GOLDEN, ids=IDS)
def test_a_record_cut_anywhere_in_its_header_is_refused(header: object, payload: bytes, golden: str) -> None:
    whole = bytes.fromhex(golden)
    for size in range(len(whole) - len(payload)):
        with pytest.raises(EnvelopeError):
            unpack(header, whole[:size])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "too short"),
        (b"", "too short"),
        (b'{"a": 1, "stime": 5}', "wrong magic"),
        (b"BZ\x01\x00\x00\x00\x00", "version 1, this program reads 2"),
        (b"BZ\x02\x00\x00\x00\x02\xc1\xc1", "bad source header"),
        (pack(UndoHeader("a1", 1, 2)), "bad source header"),
        (pack(ClaimHeader("a1", 1, "a"))[:7] + msgspec.msgpack.encode(["EPOCH", "a1", "x", "a"]), "bad source header"),
    ],
)
def test_what_is_no_record_is_refused_by_name(value: bytes | None, message: str) -> None:
    with pytest.raises(EnvelopeError, match=message):
        unpack_source(value)


def test_a_source_record_is_no_stream_record() -> None:
    with pytest.raises(EnvelopeError, match="bad stream header"):
        unpack_stream(pack(ClaimHeader("a1", 1, "a")))


numbers = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, NUMBER_MAX)
places = st.integers(-1, NUMBER_MAX)
texts = st.text(max_size=8)
parts = st.builds(RecordPart, texts, places, texts, st.binary(max_size=8), places)
refused = st.builds(Refused, numbers, texts, st.binary(max_size=8), counts)
headers = st.one_of(
    st.builds(ClaimHeader, texts, numbers, texts, numbers),
    st.builds(
        BatchHeader,
        texts,
        numbers,
        texts,
        numbers,
        st.binary(max_size=16),
        st.none() | numbers,
        texts,
        counts,
        st.lists(refused, max_size=3).map(tuple),
    ),
    st.builds(
        StableHeader,
        texts,
        *[counts] * 3,
        st.integers(0, 3),
        st.integers(4, NUMBER_MAX),
        texts,
        st.lists(parts, max_size=3).map(tuple),
    ),
    st.builds(
        TentativeHeader,
        texts,
        *[counts] * 3,
        st.integers(0, 3),
        st.integers(4, NUMBER_MAX),
        texts,
        st.lists(texts, max_size=3).map(tuple),
        st.lists(texts, max_size=3).map(tuple),
        st.floats(allow_nan=False),
        counts,
    ),
    st.builds(RangeHeader, texts, counts, st.integers(0, 99), st.integers(100, NUMBER_MAX), counts),
    st.builds(UndoHeader, texts, counts, counts),
    st.builds(RecDoneHeader, texts, counts, counts),
)


@given(headers, st.binary(max_size=40))
def test_what_is_packed_comes_back(header: SourceHeader | StreamHeader, payload: bytes) -> None:
    assert unpack(header, pack(header, payload)) == (header, payload)


@given(st.binary(max_size=60))
def test_no_bytes_whatever_raise_anything_else(value: bytes) -> None:
    for read in (unpack_source, unpack_stream):
        for raw in (value, b"BZ\x02\x00\x00\x00" + value):
            try:
                read(raw)
            except EnvelopeError:
                continue


@given(st.lists(numbers, max_size=20))
def test_stimes_come_back(stimes: list[int]) -> None:
    assert unpack_stimes(pack_stimes(stimes)) == tuple(stimes)


@pytest.mark.parametrize("size", [1, 7, 9])
def test_stimes_cut_short_are_refused(size: int) -> None:
    with pytest.raises(EnvelopeError, match="cut short"):
        unpack_stimes(b"x" * size)


@pytest.mark.parametrize("header", [DEEP, NO_UTF8], ids=["deep", "no UTF-8"])
def test_a_header_that_is_no_msgpack_of_ours_is_no_envelope_whatever_the_decoder_raises(header: bytes) -> None:
    value = pack(UndoHeader("a1", 1, 1))[:3] + len(header).to_bytes(4, "big") + header
    for unpack in (unpack_source, unpack_stream):
        with pytest.raises(EnvelopeError, match=r"bad (source|stream) header"):
            unpack(value)


def test_a_batch_without_the_id_of_a_topic_is_one_of_before() -> None:
    """Logs hold records of versions that did not name the topic in which positions count."""
    old = "425a020000002a9ba65455504c4553a2613103a2753109c400ce0010c8e0a56172726f770c90929200ce00011170920405"
    header, _ = unpack_source(bytes.fromhex(old))
    assert isinstance(header, BatchHeader)
    assert (header.at, header.topic_id) == (((0, 70_000), (4, 5)), "")
