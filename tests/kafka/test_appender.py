"""The appender on a real broker, beyond what every log promises (tests/contract)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from borealis_py.kafka import appender as appender_module
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed, NewRecord
from tests.kafka.conftest import Waiter

NewFeed = Callable[..., Feed]


def test_a_record_that_is_too_large_is_a_failed_delivery_and_the_next_one_goes(
    log: KafkaLog, new_feed: NewFeed, waiter: Waiter
) -> None:
    feed = new_feed()
    appender = log.appender(waiter.wake)
    appender.append(NewRecord(feed, b"x" * 9_000_000), token="large")
    appender.append(NewRecord(feed, b"small"), token="small")
    done = {d.token: d for d in waiter.deliver(appender, 2)}
    assert done["large"].offset == -1
    assert feed.topic in (done["large"].error or "")
    assert "too large" in (done["large"].error or "").lower()
    assert (done["small"].offset, done["small"].error) == (0, None)
    appender.close()


def test_a_record_that_the_topic_refuses_is_a_failed_delivery(log: KafkaLog, new_feed: NewFeed, waiter: Waiter) -> None:
    feed = new_feed(("max.message.bytes", "10000"))
    appender = log.appender(waiter.wake)
    appender.append(NewRecord(feed, random.Random(1).randbytes(20_000)), token=1)  # does not compress
    (delivery,) = waiter.deliver(appender, 1)
    assert "MSG_SIZE_TOO_LARGE" in (delivery.error or "")
    appender.close()


def test_order_holds_when_the_client_is_full(bootstrap: str, new_feed: NewFeed, waiter: Waiter) -> None:
    feed = new_feed()
    small = KafkaLog.of(bootstrap, {"queue.buffering.max.messages": "10"})
    appender = small.appender(waiter.wake)
    for i in range(2000):
        appender.append(NewRecord(feed, str(i).encode()), token=i)
    assert len(appender._waiting) > 0
    assert appender.flush(60.0)
    done = waiter.deliver(appender, 2000)
    assert {d.token: d.offset for d in done} == {i: i for i in range(2000)}
    appender.close()


def test_a_time_of_zero_is_no_wall_clock(log: KafkaLog, new_feed: NewFeed, waiter: Waiter) -> None:
    feed = new_feed()
    appender = log.appender(waiter.wake)
    appender.append(NewRecord(feed, b"1", timestamp_ms=0), token=1)
    appender.append(NewRecord(feed, b"2", timestamp_ms=-5000), token=2)
    waiter.deliver(appender, 2)
    lookup = log.lookup()
    assert [r.timestamp_ms for r in lookup.read(feed, 0, 2)] == [1, -5000]
    assert lookup.find(feed, 0) == 0
    assert lookup.find(feed, -1) == 0  # not Kafka's code for "the end"
    appender.close()
    lookup.close()


def test_a_failure_without_a_token_is_logged(
    log: KafkaLog, new_feed: NewFeed, waiter: Waiter, caplog: pytest.LogCaptureFixture
) -> None:
    feed = new_feed()
    appender = log.appender(waiter.wake)
    appender.append(NewRecord(feed, b"x" * 9_000_000))
    assert f"a record was not taken: {feed.topic}" in caplog.text
    appender.close()


def test_after_a_fatal_error_a_new_producer_goes_on(
    log: KafkaLog, new_feed: NewFeed, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = new_feed()
    appender = log.appender(waiter.wake)
    real, broken = appender_module.produce, appender._producer

    def fatal(producer: object, record: NewRecord, on_delivery: object) -> None:
        if producer is broken:
            raise KafkaException(KafkaError(KafkaError._FATAL, "out of sequence", fatal=True))
        real(producer, record, on_delivery)  # type: ignore[arg-type]

    monkeypatch.setattr(appender_module, "produce", fatal)
    appender.append(NewRecord(feed, b"1"), token=1)
    appender.append(NewRecord(feed, b"2"), token=2)
    done = {d.token: d.error for d in waiter.deliver(appender, 2)}
    assert "out of sequence" in (done[1] or "")
    assert done[2] is None
    appender.close()


def test_what_nobody_takes_makes_flush_say_so(log: KafkaLog) -> None:
    nowhere = KafkaLog("127.0.0.1:1").appender(lambda: None)
    nowhere.append(NewRecord(Feed("t"), b"1"), token=1)
    assert nowhere.flush(0.2) is False
    assert nowhere.deliveries() == []  # it waits, and may yet be taken
    nowhere.close()
