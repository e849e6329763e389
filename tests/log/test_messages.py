"""JSON messages: whatever lies in control and settings, a reader gets a message or one kind of error."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from borealis_py.log.messages import Incarnation, Threshold, beat_key, decode, encode, read_beat
from tests.support.heartbeats import heartbeat

BEAT = heartbeat(1, 7, ack_s=5, ack_l=6, progress=4)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"threshold_us": "\xff\xfe"}',
        b'{"threshold_us": -1}',
        b'{"threshold_us": 9007199254740993}',
        b'{"threshold_us": 1000000000000000000000000000000}',
        b'{"threshold_us": 1e999}',
        b'{"threshold_us": true}',
    ],
    ids=lambda raw: raw[:20].decode(errors="replace"),
)
def test_garbage_is_one_kind_of_error(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(raw, Threshold)


def test_an_incarnation_can_always_be_counted_up_and_told() -> None:
    highest = decode(b'{"app_uid": "a1", "inc": 9007199254740992, "uid": "u"}', Incarnation)
    assert encode(Incarnation("a1", highest.inc + 1, "u"))
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"app_uid": "a1", "inc": 18446744073709551615, "uid": "u"}', Incarnation)


@pytest.mark.parametrize(
    "wrong",
    [{"replica": -1}, {"inc": -1}, {"inc": 2**63}, {"ack_l": 10**30}, {"ask_offset": -1}, {"asking": 1}],
    ids=str,
)
def test_a_heartbeat_with_impossible_numbers_is_none(wrong: dict[str, Any]) -> None:
    value = msgspec.json.encode({**msgspec.to_builtins(BEAT), **wrong})
    key = beat_key("n", wrong.get("replica", 1))
    with pytest.raises(msgspec.ValidationError):
        read_beat(key, value, "n")


LATER = msgspec.json.encode({**msgspec.to_builtins(BEAT), "later": 1})


@pytest.mark.later_version
def test_a_field_of_a_later_version_is_ignored() -> None:
    assert read_beat(b"n/1", LATER, "n") == BEAT


def test_a_field_that_a_builder_has_made_up_is_an_error_in_tests() -> None:
    with pytest.raises(AssertionError, match="later"):
        read_beat(b"n/1", LATER, "n")


@pytest.mark.parametrize("key", [None, b"", b"1", b"n/0", b"m/1", b"n/1/2"])
def test_a_heartbeat_under_another_key_is_none(key: bytes | None) -> None:
    assert read_beat(b"n/1", encode(BEAT), "n") == BEAT
    with pytest.raises(msgspec.DecodeError, match="key"):
        read_beat(key, encode(BEAT), "n")
