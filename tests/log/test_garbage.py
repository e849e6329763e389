"""Bytes that nobody expected: whatever lies in our topics and files, a reader reads it as nothing, or raises its own
error, soon and with little memory; it is counted, and logged once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from borealis_py.app.state import NoSuchApp, read_settings
from borealis_py.client.subscriber import corrected_row
from borealis_py.log import unreadable
from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.node.checkpoint_topic import TopicLocation
from borealis_py.node.checkpoints import CheckpointStore
from tests.examples import examples
from tests.node.texts import Numbers, numbers
from tests.support.instant_log import InstantLog
from tests.support.mangled import in_time, read
from tests.support.readers import APP, DESCRIPTION, ID, READERS, SETTINGS, Reader, put, record

pytestmark = pytest.mark.later_version  # some of these bytes are records with other fields
ABSURD = (-1, -(2**63), 2**31, 2**53 + 1, 2**62, 2**63 - 1, 2**64 - 1)
DEEP = (
    b"\x91" * 100_000,
    b"\x81\xa1a" * 50_000,
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'"\xff\xfe"',
    b"\xc4\xff",
    b"\xdd\xff\xff\xff\xff",
)


def changed(value: Any, at: list[int], to: object) -> Any:
    """The same with one number in it, the `at`th that is met, changed."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        at[0] -= 1
        return to if at[0] == -1 else value
    if isinstance(value, dict):
        return {key: changed(one, at, to) for key, one in value.items()}
    return [changed(one, at, to) for one in value] if isinstance(value, list) else value


def with_number(reader: Reader, at: int, to: int) -> bytes:
    head, form = reader.valid[: reader.head], msgspec.msgpack if reader.packed else msgspec.json
    size = int.from_bytes(head[3:7], "big") if head else len(reader.valid)
    body, rest = reader.valid[reader.head :][:size], reader.valid[reader.head :][size:]
    try:
        encoded = form.encode(changed(form.decode(body), [at], to))
    except (msgspec.DecodeError, OverflowError):
        return reader.valid
    return (head[:3] + len(encoded).to_bytes(4, "big") if head else b"") + encoded + rest


@st.composite
def mutated(draw: st.DrawFn, valid: bytes) -> bytes:
    at = draw(st.integers(0, len(valid)))
    until = draw(st.integers(at, min(len(valid), at + 4)))
    return valid[:at] + draw(st.binary(max_size=6) | st.sampled_from(DEEP)) + valid[until:]


@pytest.mark.parametrize("name", READERS)
def test_what_is_right_is_read(name: str) -> None:
    with capture_logs() as lines:
        READERS[name].read(READERS[name].valid)
    if name not in ("headers", "setting incarnation/q/0", "part of a file"):  # these read it in wrong places, too
        assert [line for line in lines if "ignored" in line["event"] or "garbage" in line["event"]] == []


@pytest.mark.parametrize("name", READERS)
@given(st.data())
@settings(max_examples=examples(12))
def test_any_bytes_are_read_as_nothing_or_end_in_the_readers_own_error(name: str, data: st.DataObject) -> None:
    reader = READERS[name]
    number = st.builds(lambda at, to: with_number(reader, at, to), st.integers(0, 12), st.sampled_from(ABSURD))
    read(reader, data.draw(st.binary(max_size=60) | st.sampled_from(DEEP) | mutated(reader.valid) | number))


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("to", [2**53 + 1, 2**64 - 1])
def test_absurd_numbers_in_every_place_take_neither_long_nor_the_reader(name: str, to: int) -> None:
    for at in range(8):
        read(READERS[name], with_number(READERS[name], at, to))


def test_a_record_is_counted_and_logged_once_with_its_place_and_the_reason() -> None:
    garbage = record(b"\xff", headers=ID)
    with capture_logs() as lines:
        assert [corrected_row(garbage) for _ in range(3)] == [None] * 3
    (line,) = lines
    assert (line["topic"], line["partition"], line["offset"]) == ("t", 0, 7)
    assert "utf-8" in line["why"]
    assert unreadable.counts() == {"t": 1}


def test_what_is_remembered_is_bounded() -> None:
    with capture_logs() as lines:
        for offset in range(unreadable.REMEMBERED + 10):
            unreadable.ignored(structlog.get_logger(), "x", Record(Feed("t"), offset, 0, None, b""), "y")
    assert len(lines) == unreadable.REMEMBERED + 10
    assert len(unreadable._met) == unreadable.REMEMBERED


def test_a_description_that_was_displaced_by_garbage_counts_as_long_as_the_log_has_it() -> None:
    log = InstantLog()
    put(log, *(NewRecord(Feed(SETTINGS), value, b"app") for value in (DESCRIPTION, b"\xff", b"{", None)))
    state = None
    with suppress(NoSuchApp):
        state = read_settings(log, APP)
    assert state is not None
    assert state.app_uid == "a1"


@pytest.mark.parametrize("key", [b"x/0", b"", b"x/" + b"9" * 5_000, "x/\u0663".encode(), b"/0", b"\xff/\xff"])
@pytest.mark.parametrize("value", DEEP)
def test_a_peer_finds_the_checkpoints_beside_garbage(key: bytes, value: bytes) -> None:
    log = InstantLog()
    with in_time(), capture_logs():
        store = CheckpointStore(TopicLocation(log, APP, "q.r0"), "q1", Numbers(), threaded=False)
        store.save(numbers(5))
        store.close()
        put(log, NewRecord(Feed(f"{APP}.q.r0.files"), value, key))
        fresh = CheckpointStore(TopicLocation(log, APP, "q.r1"), "q1", Numbers(), threaded=False)
        assert [(k, found.bucket) for k, found in fresh.of_peers()] == [(0, 5)]
        fresh.close()


def test_garbage_under_a_files_own_key_displaces_no_part_that_the_log_still_has() -> None:
    log = InstantLog()
    place = TopicLocation(log, APP, "q.r0")
    place.prepare()
    place.write("a", b"content")
    put(log, NewRecord(Feed(f"{APP}.q.r0.files"), b"\xff", b"a/0"))
    with capture_logs():
        assert TopicLocation(log, APP, "q.r0").read("a") == b"content"
