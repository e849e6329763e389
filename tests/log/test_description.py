"""The description is read before anything else: which life of the app, and which version."""

from __future__ import annotations

import msgspec
import pytest
from structlog.testing import capture_logs

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, Record, TopicSpec
from borealis_py.log.description import Life, OtherVersion, app_uid_now, read_description
from borealis_py.log.messages import Description, encode
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryLog

DESCRIPTION = Description("{}", "hash", 7, "f", "a1")


def test_what_is_written_is_read() -> None:
    assert read_description("shop", encode(DESCRIPTION)) == DESCRIPTION


@pytest.mark.parametrize("version", [None, 1, 3])
def test_another_version_is_named_before_anything_of_it_is_read(version: int | None) -> None:
    fields = {"app": "{}", "life": "x"} if version is None else {"version": version, "no": "field of it"}
    with pytest.raises(OtherVersion, match=f"'shop'.*version {version or 1}, this program reads 2.*--reset"):
        read_description("shop", msgspec.json.encode(fields))


@pytest.mark.parametrize("raw", [b"", b"garbage", b"[]", b"{}", b'{"version":2}', b'{"version":"two"}'])
def test_what_is_no_description_is_an_error_of_its_own(raw: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_description("shop", raw)


def test_the_last_description_on_the_log_counts_and_garbage_is_none() -> None:
    feed, log = Feed(topics.settings("shop")), MemoryLog(Scheduler(1_700_000_000_000_000), 0)
    log.client("a").admin().create([TopicSpec(feed.topic)])
    lookup, found = log.client("a").lookup(), []
    for value in (b"garbage", encode(DESCRIPTION), encode(msgspec.structs.replace(DESCRIPTION, app_uid="b2"))):
        log.broker.append(NewRecord(feed, value, b"app"))
        log.broker.append(NewRecord(feed, encode(DESCRIPTION), b"another key"))
        found.append(app_uid_now(lookup, "shop"))
    assert found == [None, "a1", "b2"]
    log.broker.append(NewRecord(feed, b'{"version":3}', b"app"))
    with pytest.raises(OtherVersion, match="app 'shop': its description has version 3"):
        app_uid_now(lookup, "shop")


def test_another_life_is_told_once_for_each_topic_and_counted() -> None:
    life = Life("a1")
    with capture_logs() as told:
        for offset in range(3):
            assert not life.owns(Record(Feed("t"), offset, 0, None, b""), "b2")
            assert not life.owns(Record(Feed("u"), offset, 0, None, b""), "b2")
            assert life.owns(Record(Feed("t"), offset, 0, None, b""), "a1")
    assert [(line["topic"], line["offset"], line["app_uid"]) for line in told] == [("t", 0, "b2"), ("u", 0, "b2")]
    assert life.others == {("t", "b2"): 3, ("u", "b2"): 3}
    assert life.strangers
