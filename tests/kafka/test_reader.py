"""The reader on a real broker, beyond what every log promises (tests/contract)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from borealis_py.kafka import reader as reader_module
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, NewRecord, OffsetBeyond, OffsetGone, TopicSpec
from tests.harness.trimming import delete_before
from tests.harness.waiting import PATIENCE_S
from tests.kafka.waiter import Waiter

Fill = Callable[[Feed, list[bytes]], None]
NewFeed = Callable[..., Feed]


def numbers(count: int) -> list[bytes]:
    return [str(i).encode() for i in range(count)]


def test_a_full_buffer_stops_the_reader_and_loses_nothing(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "RECORDS_MAX", 100)
    monkeypatch.setattr(reader_module, "_BATCH", 50)
    feed = new_feed()
    fill(feed, numbers(5000))
    reader = log.reader(waiter.wake)
    reader.open(feed, 0)
    waiter.until(lambda: reader._arrived_records > 100)
    most = 0
    offsets: list[int] = []
    while len(offsets) < 5000:
        got = waiter.read(reader, 1)
        most = max(most, len(got))
        offsets += [r.offset for r in got]
    assert offsets == list(range(5000))
    assert most <= 100 + 51
    reader.close()


def test_a_full_buffer_wakes_although_all_may_wait_for_others(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "RECORDS_MAX", 100)
    monkeypatch.setattr(reader_module, "_BATCH", 50)
    feed, woken = new_feed(), threading.Event()
    reader = log.reader(woken.set)
    reader.open(feed, 0)
    reader.poll()
    reader.hush(frozenset(), frozenset([feed]), {feed: 1_000}, 3_600_000_000)
    fill(feed, [b""] * 1_000)
    got = 0
    while got < 1_000:
        assert woken.wait(PATIENCE_S)
        woken.clear()
        assert reader.ripe
        got += len(reader.poll())
    reader.close()


def test_orders_are_obeyed_while_the_buffer_is_full(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "RECORDS_MAX", 10)
    feed, other = new_feed(), new_feed()
    fill(feed, numbers(500))
    fill(other, [b"x"])
    reader = log.reader(waiter.wake)
    reader.open(feed, 0)
    waiter.until(lambda: reader._arrived_records > 10)
    reader.stop(feed)
    reader.open(other, 0)
    assert [r.value for r in waiter.read(reader, 1)] == [b"x"]
    reader.close()


def test_what_is_opened_before_the_first_poll_is_assigned_together(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a feed that is read, the next one would wait for its fetch."""
    assigned: list[list[str]] = []

    class Noting(Consumer):
        def incremental_assign(self, partitions: list[TopicPartition]) -> None:
            assigned.append([partition.topic for partition in partitions])
            super().incremental_assign(partitions)

    monkeypatch.setattr(reader_module, "Consumer", Noting)
    monkeypatch.setattr(reader_module, "_FIRST_S", 60.0)
    feeds = [new_feed() for _ in range(3)]
    reader = log.reader(waiter.wake)
    for feed in feeds:
        fill(feed, [b"x"])
        reader.open(feed, 0)
    assert {record.feed for record in waiter.read(reader, 3)} == set(feeds)
    assert assigned == [[feed.topic for feed in feeds]]
    reader.close()


def test_reopening_in_full_flow_gives_no_stale_record(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, waiter: Waiter
) -> None:
    feed = new_feed()
    fill(feed, numbers(3000))
    reader = log.reader(waiter.wake)
    for turn in range(60):
        start = turn * 977 % 2990
        reader.open(feed, start)
        if turn % 3 == 0:  # an order that is overtaken by another
            start = turn * 31 % 2990
            reader.open(feed, start)
        got = waiter.read(reader, 1)
        assert [r.offset for r in got] == list(range(start, start + len(got)))
        assert reader.position(feed) == start + len(got)
    reader.close()


def test_a_cursor_that_retention_overtakes_is_an_error_that_stays_until_it_moves(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, waiter: Waiter
) -> None:
    feed, other = new_feed(), new_feed()
    fill(feed, numbers(10))
    delete_before(log.bootstrap, feed, 6)
    reader = log.reader(waiter.wake)
    reader.open(feed, 2)
    reader.open(other, 0)

    def gone() -> bool:
        try:
            return bool(reader.poll())
        except OffsetGone as exc:
            return (exc.feed, exc.offset) == (feed, 2)

    assert waiter.until(gone)
    with pytest.raises(OffsetGone, match=feed.topic):
        reader.poll()
    fill(other, [b"x"])
    reader.stop(feed)
    assert [r.value for r in waiter.read(reader, 1)] == [b"x"]
    reader.open(feed, 6)
    assert [r.offset for r in waiter.read(reader, 4)] == [6, 7, 8, 9]
    reader.close()


def test_an_offset_beyond_the_end_is_an_error_that_says_why(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, waiter: Waiter
) -> None:
    feed = new_feed()
    fill(feed, [b"1"])
    reader = log.reader(waiter.wake)
    reader.open(feed, 50)
    said: list[str] = []

    def failed() -> bool:
        try:
            assert reader.poll() == []
        except LogError as exc:
            said.append(str(exc))
        return bool(said)

    waiter.until(failed)
    assert f"{feed.topic}[0]: offset 50 lies beyond the log's end 1" in said[0]
    reader.close()


def test_what_was_read_before_a_cursor_fails_comes_before_its_error(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, waiter: Waiter
) -> None:
    feed = new_feed()
    fill(feed, numbers(3))
    reader = log.reader(waiter.wake)
    reader.open(feed, 0)
    waiter.until(lambda: reader._arrived_records == 3)
    log.admin().delete([feed.topic])
    log.admin().create([TopicSpec(feed.topic, config=topics.EVENT_TIME)])  # it ends before what was read
    waiter.until(lambda: reader._failed)
    assert [r.value for r in reader.poll()] == numbers(3)
    with pytest.raises(OffsetBeyond) as beyond:
        reader.poll()
    assert beyond.value.offset == reader.position(feed) == 3
    reader.close()


def test_a_topic_that_comes_later_is_read_from_then_on(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, waiter: Waiter, caplog: pytest.LogCaptureFixture
) -> None:
    there = new_feed()
    missing = Feed(f"{there.topic}.later")
    reader = log.reader(waiter.wake)
    reader.open(missing, 0)
    reader.open(there, 0)
    fill(there, [b"1"])
    assert [r.value for r in waiter.read(reader, 1)] == [b"1"]
    waiter.until(lambda: f"{missing.topic}[0] cannot be read at present" in caplog.text)
    log.admin().create([TopicSpec(missing.topic, config=topics.EVENT_TIME)])
    fill(missing, [b"2"])
    assert [(r.feed, r.value) for r in waiter.read(reader, 1)] == [(missing, b"2")]
    reader.close()


class Busy:
    """A consumer whose first questions for topics no broker answers in time. It answers the others itself: the broker
    might really be busy."""

    def __init__(self, consumer: Consumer, times: int) -> None:
        self._consumer, self.times = consumer, times

    def list_topics(self, topic: str, timeout: float) -> Any:
        if self.times:
            self.times -= 1
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "Failed to get metadata"))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None)})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


@pytest.mark.parametrize(("times", "told"), [(1, False), (2, True)])
def test_a_broker_that_is_busy_once_is_not_worth_a_warning(
    log: KafkaLog,
    new_feed: NewFeed,
    fill: Fill,
    waiter: Waiter,
    caplog: pytest.LogCaptureFixture,
    times: int,
    told: bool,
) -> None:
    feed = new_feed()
    fill(feed, [b"1"])
    reader = log.reader(waiter.wake)
    reader._consumer = Busy(reader._consumer, times)
    reader.open(feed, 0)
    assert [r.value for r in waiter.read(reader, 1)] == [b"1"]
    assert ("cannot be read at present" in caplog.text) == told
    reader.close()


def test_records_of_an_open_or_aborted_transaction_do_not_come(
    log: KafkaLog, bootstrap: str, new_feed: NewFeed, fill: Fill, waiter: Waiter
) -> None:
    from confluent_kafka import Producer  # a transaction that the transactor would never leave open

    feed = new_feed()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": feed.topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(feed.topic, b"aborted", partition=0)
    producer.flush(PATIENCE_S)
    reader = log.reader(waiter.wake)
    lookup = log.lookup()
    reader.open(feed, 0)
    assert lookup.bounds(feed) == (0, 0)
    query = lookup.ask_ends([feed])
    assert waiter.until(query.poll) == {feed: 0}
    producer.abort_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(feed.topic, b"committed", partition=0)
    producer.commit_transaction(PATIENCE_S)
    assert [r.value for r in waiter.read(reader, 1)] == [b"committed"]
    end = lookup.bounds(feed)[1]
    waiter.until(lambda: reader.poll() == [] and reader.position(feed) == end)  # past the last marker
    assert [r.value for r in lookup.read(feed, 0, end)] == [b"committed"]
    producer.close()
    reader.close()
    lookup.close()


def test_large_records_come_whole(log: KafkaLog, new_feed: NewFeed, waiter: Waiter) -> None:
    feed = new_feed()
    value = bytes(range(256)) * 8192  # 2 MB
    appender = log.appender(waiter.wake)
    appender.append(NewRecord(feed, value), token=1)
    assert [d.error for d in waiter.deliver(appender, 1)] == [None]
    reader = log.reader(waiter.wake)
    reader.open(feed, 0)
    assert waiter.read(reader, 1)[0].value == value
    appender.close()
    reader.close()


@pytest.mark.parametrize(("seldom", "wait_ms"), [(False, 100), (True, 500)])
def test_of_who_reads_seldom_the_broker_may_hold_a_fetch_longer_while_there_is_nothing(
    log: KafkaLog, waiter: Waiter, monkeypatch: pytest.MonkeyPatch, seldom: bool, wait_ms: int
) -> None:
    configs: list[dict[str, Any]] = []

    def consumer(config: dict[str, Any]) -> Consumer:
        configs.append(config)
        return Consumer(config)

    monkeypatch.setattr(reader_module, "Consumer", consumer)
    log.reader(waiter.wake, seldom).close()
    assert [(c["fetch.wait.max.ms"], c["fetch.min.bytes"]) for c in configs] == [(str(wait_ms), "1")]
