"""Bytes that resemble a record and are none: of its bytes or of its structure something is changed; and readers that
are given such bytes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.support.readers import Reader

LATE_S = 5.0
LENGTHS = (
    *(bytes([code, *([0xFF] * size)]) for code, size in ((0xC6, 4), (0xC9, 5), (0xDB, 4), (0xDD, 4), (0xDF, 4))),
    b"\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    b"\x00" * 8,
    b"\xff" * 10,
)
"""Of MessagePack's bytes, texts, arrays and maps, of Arrow and of Avro: more than there is."""
HUGE = (-1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1)
TEXTS = ("", "\x00", "a" * 5_000, "9" * 5_000, "1e999", "-0", "\ud800", "\u0663", "../../x", "1/0", "2026-02-30")
WORDS = (b"1e999", b"9" * 400, b"NaN", b"-Infinity", b'"\\ud800"', b"\xef\xbb\xbf", b"\xff\xfe", b"\r", b"\n", b'"')


def _deep(levels: int) -> Any:
    found: Any = 0
    for n in range(levels):
        found = [found] if n % 2 else {"a": found}
    return found


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(HUGE),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.sampled_from(TEXTS),
    st.text(max_size=8),
    st.sampled_from([[], {}, [[]], [None] * 300, {"": 0}]),
    st.sampled_from([2, 50, 150, 400]).map(_deep),
)
"""Values that stand where others should."""


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _places(one, (*at, key))
    elif isinstance(value, list):
        for n, one in enumerate(value):
            yield from _places(one, (*at, n))


def _with(value: Any, at: tuple[Any, ...], to: Any) -> Any:
    if not at:
        return to
    if isinstance(value, dict):
        return {key: _with(one, at[1:], to) if key == at[0] else one for key, one in value.items()}
    return [_with(one, at[1:], to) if n == at[0] else one for n, one in enumerate(value)]


def _parts(reader: Reader) -> tuple[bytes, bytes, bytes]:
    """What lies before the structure, the structure, and what lies behind it."""
    head = reader.valid[: reader.head]
    size = int.from_bytes(head[3:7], "big") if head else len(reader.valid)
    return head, reader.valid[reader.head :][:size], reader.valid[reader.head :][size:]


@st.composite
def _structured(draw: st.DrawFn, reader: Reader) -> bytes:
    """One value in it, or two, are others."""
    head, body, rest = _parts(reader)
    try:
        value = msgspec.msgpack.decode(body) if reader.packed else json.loads(body)
    except (ValueError, msgspec.DecodeError):
        return draw(_mutated(reader.valid))
    for _ in range(draw(st.integers(1, 2))):
        value = _with(value, draw(st.sampled_from(sorted(_places(value), key=str))), draw(PLAIN))
    try:
        encoded = msgspec.msgpack.encode(value) if reader.packed else json.dumps(value).encode()
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        return draw(_mutated(reader.valid))
    return (head[:3] + len(encoded).to_bytes(4, "big") if head else b"") + encoded + rest


@st.composite
def _mutated(draw: st.DrawFn, valid: bytes) -> bytes:
    """Some bits, bytes or stretches are others, more, fewer, or elsewhere."""
    found = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(found)))
        until = min(len(found), at + draw(st.integers(0, 12)))
        match draw(st.integers(0, 5)):
            case 0 if at < len(found):
                found[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                del found[at:until]
            case 2:
                found[at:at] = found[at:until] * draw(st.sampled_from([1, 2, 500]))
            case 3:
                found[at:until] = draw(st.sampled_from(LENGTHS + WORDS))
            case 4:
                found[at:until] = draw(st.binary(max_size=8))
            case _:
                del found[at:]
    return bytes(found)


def mangled(reader: Reader) -> st.SearchStrategy[bytes]:
    """Any bytes, and above all those that come close to what the reader takes."""
    return st.one_of(st.binary(max_size=200), _mutated(reader.valid), _structured(reader), _structured(reader))


class TooLate(BaseException):
    """A reader has not ended in time."""


@contextmanager
def in_time() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TooLate

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LATE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def read(reader: Reader, value: bytes) -> None:
    with in_time(), capture_logs(), suppress(*reader.errors):
        reader.read(value)
