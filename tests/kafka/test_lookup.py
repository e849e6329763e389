"""Questions to a real broker, and to none."""

from __future__ import annotations

import itertools
import pickle
import random
import time
from collections.abc import Callable
from contextlib import closing
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, LogUnreachable, OffsetGone, TopicSpec, Unknown
from tests.harness.running import PATIENCE_S
from tests.harness.trimming import delete_before
from tests.kafka.waiter import Waiter
from tests.support.nowhere import NOWHERE
from tests.support.resume import last_number

Fill = Callable[[Feed, list[bytes]], None]
NewFeed = Callable[..., Feed]
OTHERS = "|rdkafka#"
"""In lines of the clients that tests opened themselves, some of which end only now: ours have another name."""


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> KafkaLog:
    """A log where no broker is."""
    for module in ("lookup", "admin"):
        monkeypatch.setattr(f"borealis_py.kafka.{module}.ANSWER_S", 0.3)
    return KafkaLog(NOWHERE)


def test_a_log_travels(log: KafkaLog) -> None:
    secured = KafkaLog.of("a:1,b:2", {"security.protocol": "SSL"})
    assert pickle.loads(pickle.dumps(secured)) == secured
    assert pickle.loads(pickle.dumps(log)) == log


def test_a_topic_that_is_not_there_is_named(log: KafkaLog) -> None:
    lookup = log.lookup()
    for ask in (lambda: lookup.bounds(Feed("no.such")), lambda: lookup.find(Feed("no.such"), 5)):
        with pytest.raises(LogError, match=r"no\.such\[0\]: no such topic at .*borealis up"):
            ask()
    lookup.close()


class _Electing:
    """A lookup's consumer whose broker does not lead the partition yet, `times` times, and fails in no other way."""

    def __init__(self, consumer: Consumer, times: int) -> None:
        self._consumer, self._times = consumer, times

    def list_topics(self, topic: str, timeout: float) -> object:
        return self._consumer.list_topics(topic, timeout=PATIENCE_S)

    def get_watermark_offsets(self, at: TopicPartition, timeout: float) -> tuple[int, int]:
        self._refuse()
        return self._consumer.get_watermark_offsets(at, timeout=PATIENCE_S)

    def offsets_for_times(self, at: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self._refuse()
        return self._consumer.offsets_for_times(at, timeout=PATIENCE_S)

    def _refuse(self) -> None:
        self._times -= 1
        if self._times >= 0:
            raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))

    def close(self) -> None:
        self._consumer.close()


def test_a_partition_whose_leader_is_being_elected_is_asked_again(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = new_feed()
    fill(feed, [b"1", b"2", b"3"])
    lookup = log.lookup()
    for times in (1, 2):
        monkeypatch.setattr(lookup, "_client", _Electing(lookup._consumer, times))
        assert lookup.bounds(feed) == (0, 3)
        monkeypatch.setattr(lookup, "_client", _Electing(lookup._consumer, times))
        assert lookup.find(feed, 0) == 0
    lookup.close()


def test_a_partition_without_a_leader_is_asked_for_so_long(
    log: KafkaLog, new_feed: NewFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("borealis_py.kafka.lookup.ANSWER_S", 0.3)
    feed, lookup = new_feed(), log.lookup()
    monkeypatch.setattr(lookup, "_client", _Electing(lookup._consumer, 1000))
    with pytest.raises(LogError, match="look up the bounds of"):
        lookup.bounds(feed)
    lookup.close()


def test_a_range_may_be_left_half_read_and_asked_for_again(log: KafkaLog, new_feed: NewFeed, fill: Fill) -> None:
    feed = new_feed()
    fill(feed, [b"1", b"2", b"3"])
    lookup = log.lookup()
    half = lookup.read(feed, 0, 3)
    assert next(half).value == b"1"
    half.close()  # type: ignore[attr-defined]
    assert [r.value for r in lookup.read(feed, 1, 3)] == [b"2", b"3"]
    lookup.close()


def test_ranges_that_are_read_one_after_the_other_are_each_their_own(
    log: KafkaLog, new_feed: NewFeed, fill: Fill
) -> None:
    """One client reads them all: of overlapping ranges, of several topics, some left half read, some within others."""
    rng, feeds = random.Random(11), [new_feed() for _ in range(3)]
    values = {feed: [f"{feed.topic} {i} ".encode() * rng.randint(1, 300) for i in range(400)] for feed in feeds}
    for feed, some in values.items():
        fill(feed, some)
    lookup = log.lookup()

    def ask(inner: bool) -> None:
        feed = rng.choice(feeds)
        first, end = sorted(rng.sample(range(401), 2))
        stop = rng.randint(first + 1, end) if rng.random() < 0.2 else end
        reading = lookup.read(feed, first, end)
        found = [next(reading)]
        if inner:
            ask(False)
        found += itertools.islice(reading, stop - first - 1)
        assert [record.value for record in found] == values[feed][first:stop]
        assert stop < end or next(reading, None) is None

    for _ in range(200):
        ask(rng.random() < 0.1)
    lookup.close()


def test_a_topic_that_was_made_again_is_read_as_it_is_now(log: KafkaLog, new_feed: NewFeed, fill: Fill) -> None:
    feed = new_feed()
    fill(feed, [b"1", b"2", b"3"])
    lookup = log.lookup()
    assert [record.value for record in lookup.read(feed, 0, 3)] == [b"1", b"2", b"3"]
    for value in (b"new", b"newer"):
        log.admin().delete([feed.topic])
        log.admin().create([TopicSpec(feed.topic, config=topics.EVENT_TIME)])
        fill(feed, [value])
        assert lookup.bounds(feed) == (0, 1)
        assert [record.value for record in lookup.read(feed, 0, 1)] == [value]
    lookup.close()


class _Deaf:
    """A lookup's client that is told nothing: as of a topic made again with fewer elections than the former had."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def list_topics(self, topic: str, timeout: float) -> object:
        return self._consumer.list_topics(topic, timeout=timeout)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._consumer.assign(partitions)

    def consume(self, _number: int, timeout: float) -> list[object]:
        time.sleep(timeout)
        return []

    def close(self) -> None:
        self._consumer.close()


def test_where_the_client_that_is_kept_hears_nothing_another_is_asked(
    log: KafkaLog, new_feed: NewFeed, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("borealis_py.kafka.lookup.AGAIN_S", 0.1)
    feed = new_feed()
    fill(feed, [b"1", b"2"])
    lookup = log.lookup()
    lookup._client = cast(Consumer, _Deaf(lookup._consumer))
    assert [record.value for record in lookup.read(feed, 0, 2)] == [b"1", b"2"]
    lookup.close()
    with pytest.raises(LogError, match="closed"):
        lookup.bounds(feed)


def test_a_range_that_is_trimmed_is_gone(log: KafkaLog, new_feed: NewFeed, fill: Fill) -> None:
    feed = new_feed()
    fill(feed, [b"1", b"2", b"3"])
    delete_before(log.bootstrap, feed, 2)
    lookup = log.lookup()
    assert lookup.find(feed, 0) == 2
    with pytest.raises(OffsetGone):
        list(lookup.read(feed, 1, 3))
    assert [r.value for r in lookup.read(feed, 2, 3)] == [b"3"]
    lookup.close()


def test_ends_of_what_is_not_there_are_unknown(log: KafkaLog, new_feed: NewFeed, waiter: Waiter) -> None:
    feed = new_feed()
    lookup = log.lookup()
    assert lookup.ask_ends([]).poll() == {}
    query = lookup.ask_ends([feed, Feed("no.such")])
    assert waiter.until(query.poll) == {feed: 0, Feed("no.such"): None}
    lookup.close()


def test_where_no_broker_is_the_address_and_the_way_out_are_said(
    nobody: KafkaLog, waiter: Waiter, capfd: pytest.CaptureFixture[str]
) -> None:
    lookup, admin = nobody.lookup(), nobody.admin()
    feed = Feed("t")
    asks: list[Callable[[], object]] = [
        lambda: lookup.bounds(feed),
        lambda: lookup.find(feed, 5),
        lambda: list(lookup.read(feed, 0, 5)),
        admin.topics,
        lambda: admin.create([TopicSpec("t")]),
        lambda: admin.delete(["t"]),
    ]
    for ask in asks:
        with pytest.raises(LogUnreachable, match=rf"no Kafka broker answers at {nobody.bootstrap}.*borealis broker up"):
            ask()
    query = lookup.ask_ends([feed])
    assert waiter.until(query.poll) == {feed: None}
    lookup.close()
    admin.close()
    out, err = capfd.readouterr()
    assert [line for line in (out + err).splitlines() if OTHERS not in line] == []


def test_a_setting_that_kafka_does_not_know_is_named(waiter: Waiter) -> None:
    wrong = KafkaLog.of("127.0.0.1:1", {"no.such.setting": "1"})
    opens: list[Callable[[], object]] = [
        lambda: wrong.reader(lambda: None),
        lambda: wrong.appender(lambda: None),
        lambda: wrong.lookup().bounds(Feed("t")),
        wrong.admin,
    ]
    for opening in opens:
        with pytest.raises(LogError, match=r"no\.such\.setting"):
            opening()
    with closing(wrong.transactor("x", Feed("t"), lambda: None, last_number(Feed("t")))) as transactor:
        transactor.take_over(1)
        (event,) = waiter.until(transactor.events)
    assert isinstance(event, Unknown)
    assert "no.such.setting" in event.reason


def test_a_topic_setting_that_is_refused_names_the_topic(log: KafkaLog, new_feed: NewFeed) -> None:
    name = f"{new_feed().topic}.wrong"
    with pytest.raises(LogError, match=f"cannot create topic {name}"):
        log.admin().create([TopicSpec(name, config=(("retention.ms", "soon"),))])
