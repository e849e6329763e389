"""The appender on a real broker, beyond what every log promises (tests/contract)."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from borealis_py.kafka import appender as appender_module
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed, NewRecord
from tests.harness.waiting import PATIENCE_S
from tests.kafka.waiter import Waiter

NewFeed = Callable[..., Feed]


def test_a_record_that_is_too_large_is_a_failed_delivery_and_its_feed_takes_no_more(
    log: KafkaLog, new_feed: NewFeed, waiter: Waiter
) -> None:
    """Simulator, seed 5007: a stream with a hole where one record was refused and the next was not."""
    feed, other = new_feed(), new_feed()
    appender = log.appender(waiter.wake)
    appender.append(NewRecord(feed, b"before"), token="before")
    appender.append(NewRecord(feed, b"x" * 9_000_000), token="large")
    appender.append(NewRecord(feed, b"small"), token="small")
    appender.append(NewRecord(other, b"small"), token="elsewhere")
    appender.append(NewRecord(feed, b"a sign of life"))  # no token: nothing rests on it
    done = {d.token: d for d in waiter.deliver(appender, 4)}
    assert (done["large"].offset, done["small"].offset) == (-1, -1)
    assert feed.topic in (done["large"].error or "")
    assert "too large" in (done["large"].error or "").lower()
    assert "after a record that was refused" in (done["small"].error or "")
    assert [(done[k].offset, done[k].error) for k in ("before", "elsewhere")] == [(0, None), (0, None)]
    assert appender.flush(PATIENCE_S)
    lookup = log.lookup()
    assert [r.value for r in lookup.read(feed, *lookup.bounds(feed))] == [b"before", b"a sign of life"]
    lookup.close()
    appender.close()


def test_what_the_broker_refuses_is_followed_by_nothing(log: KafkaLog, new_feed: NewFeed, waiter: Waiter) -> None:
    """The same with a refusal that comes later than the next record is sent."""
    feed = new_feed(("max.message.bytes", "10000"))
    appender = log.appender(waiter.wake)
    values = [b"0", random.Random(1).randbytes(20_000), *(str(i).encode() for i in range(2, 40))]
    for i, value in enumerate(values):
        appender.append(NewRecord(feed, value), token=i)
    done = {d.token: d.error for d in waiter.deliver(appender, len(values))}
    lookup = log.lookup()
    kept = [r.value for r in lookup.read(feed, *lookup.bounds(feed))]
    assert kept == values[: len(kept)]
    assert len(kept) <= 1
    assert all(done[i] is not None for i in range(len(kept), len(values)))
    lookup.close()
    appender.close()


def test_a_record_that_the_topic_refuses_is_a_failed_delivery(log: KafkaLog, new_feed: NewFeed, waiter: Waiter) -> None:
    feed = new_feed(("max.message.bytes", "10000"))
    appender = log.appender(waiter.wake)
    appender.append(NewRecord(feed, random.Random(1).randbytes(20_000)), token=1)  # does not compress
    (delivery,) = waiter.deliver(appender, 1)
    assert delivery.too_large
    for part in (f"{feed.topic}[0]", "20000 bytes", f"max.message.bytes of topic {feed.topic}", "MSG_SIZE_TOO_LARGE"):
        assert part in (delivery.error or "")
    appender.close()


def test_order_holds_when_the_client_is_full(bootstrap: str, new_feed: NewFeed, waiter: Waiter) -> None:
    feed = new_feed()
    small = KafkaLog.of(bootstrap, {"queue.buffering.max.messages": "10"})
    appender = small.appender(waiter.wake)
    for i in range(2000):
        appender.append(NewRecord(feed, str(i).encode()), token=i)
    assert len(appender._waiting) > 0
    assert appender.flush(PATIENCE_S)
    done = waiter.deliver(appender, 2000)
    assert {d.token: d.offset for d in done} == {i: i for i in range(2000)}
    appender.close()


def test_of_heartbeats_that_are_faster_than_the_broker_the_newest_arrives_and_none_after_a_newer_one(
    log: KafkaLog, new_feed: NewFeed, waiter: Waiter
) -> None:
    feed = new_feed()
    appender = log.appender(waiter.wake)
    for i in range(2000):
        appender.append(NewRecord(feed, str(i).encode(), b"q/0", conflatable=True))
    assert appender.flush(PATIENCE_S)
    lookup = log.lookup()
    values = [int(r.value or b"") for r in lookup.read(feed, *lookup.bounds(feed))]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (0, 1999)
    assert len(values) < 2000
    lookup.close()
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
    assert f"record refused: {feed.topic}" in caplog.text
    appender.close()


def test_after_a_fatal_error_a_new_producer_goes_on_with_other_feeds(
    log: KafkaLog, new_feed: NewFeed, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, other = new_feed(), new_feed()
    appender = log.appender(waiter.wake)
    real, broken = appender_module.produce, appender._producer

    def fatal(producer: object, record: NewRecord, on_delivery: object) -> None:
        if producer is broken:
            raise KafkaException(KafkaError(KafkaError._FATAL, "out of sequence", fatal=True))
        real(producer, record, on_delivery)  # type: ignore[arg-type]

    monkeypatch.setattr(appender_module, "produce", fatal)
    appender.append(NewRecord(feed, b"1"), token=1)
    appender.append(NewRecord(feed, b"2"), token=2)
    appender.append(NewRecord(other, b"3"), token=3)
    done = {d.token: d.error for d in waiter.deliver(appender, 3)}
    assert "out of sequence" in (done[1] or "")
    assert "after a record that was refused" in (done[2] or "")
    assert done[3] is None
    appender.close()


class DiesWhilePolled:
    """A client whose fatal error is met by an append while `poll` is about to tell of it."""

    def __init__(self) -> None:
        self.polled, self.go_on = threading.Event(), threading.Event()

    def poll(self, timeout: float) -> None:
        self.polled.set()
        assert self.go_on.wait(PATIENCE_S)
        raise KafkaException(KafkaError(KafkaError._FATAL, "out of sequence", fatal=True))

    def purge(self) -> None: ...

    def flush(self, timeout: float) -> None: ...


def test_a_fatal_error_that_is_told_twice_costs_one_producer(log: KafkaLog, new_feed: NewFeed, waiter: Waiter) -> None:
    feed = new_feed()
    appender = log.appender(waiter.wake)
    successor, dying = appender._producer, DiesWhilePolled()
    appender._producer = dying  # type: ignore[assignment]
    assert dying.polled.wait(PATIENCE_S)
    appender._producer = successor
    dying.go_on.set()
    appender.append(NewRecord(feed, b"1"), token=1)
    assert [(d.token, d.error) for d in waiter.deliver(appender, 1)] == [(1, None)]
    assert appender._producer is successor
    appender.close()


def test_what_nobody_takes_makes_flush_say_so(log: KafkaLog) -> None:
    nowhere = KafkaLog("127.0.0.1:1").appender(lambda: None)
    nowhere.append(NewRecord(Feed("t"), b"1"), token=1)
    assert nowhere.flush(0.2) is False
    assert nowhere.deliveries() == []  # it waits, and may yet be taken
    nowhere.close()


def test_one_that_was_opened_early_is_taken_once_and_wakes_who_took_it(
    log: KafkaLog, new_feed: NewFeed, waiter: Waiter
) -> None:
    feed = new_feed()
    log.open_early()
    other = KafkaLog(log.bootstrap, (("client.id", "other"),)).appender(lambda: None)
    early, fresh = log.appender(waiter.wake), log.appender(waiter.wake)
    assert early is not other
    assert early is not fresh
    early.append(NewRecord(feed, b"x"), token="x")
    assert [(d.token, d.error) for d in waiter.deliver(early, 1)] == [("x", None)]
    for appender in (early, other, fresh):
        appender.close()
    assert appender_module.early_appenders.take(log.bootstrap, dict(log.properties)) is None
