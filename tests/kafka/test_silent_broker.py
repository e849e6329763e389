"""A reader whose broker does not answer asks little: each question takes a second or two, and `close` waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from borealis_py.kafka import reader as reader_module
from borealis_py.kafka.reader import KafkaReader
from borealis_py.log.base import Feed
from tests.harness.waiting import PATIENCE_S, until

FEEDS = [Feed(topic, partition) for topic in "abc" for partition in range(8)]
Answer = Callable[[str], KafkaError | None]


class Lost:
    """What a consumer hands out for a feed whose position it has lost."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def topic(self) -> str:
        return self._feed.topic

    def partition(self) -> int:
        return self._feed.partition

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._AUTO_OFFSET_RESET)


class FakeConsumer:
    """Stands for Kafka's: notes what it is asked. `answer`: the error of a topic, None: it is there; may raise."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.bounds_asked = 0
        self.assigned: set[Feed] = set()
        self.arrived: list[Lost] = []
        self._closed = threading.Event()

    def list_topics(self, topic: str, timeout: float) -> Any:
        self.asked.append(topic)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=self.answer(topic))})

    def poll(self, timeout: float) -> None:
        """Nothing has come."""

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        self.bounds_asked += 1
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned |= {Feed(partition.topic, partition.partition) for partition in partitions}

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self.assigned -= {Feed(partition.topic, partition.partition) for partition in partitions}

    def consume(self, count: int, timeout: float) -> list[Lost]:
        arrived, self.arrived = self.arrived, []
        if not arrived:
            self._closed.wait(timeout)
        return arrived

    def close(self) -> None:
        self._closed.set()


def silent(topic: str) -> KafkaError | None:
    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def absent(topic: str) -> KafkaError | None:
    return KafkaError(KafkaError._UNKNOWN_TOPIC)


def there(topic: str) -> KafkaError | None:
    return None


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is tried again."""
    monkeypatch.setattr(reader_module, "_RETRY_S", 3600.0)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], tuple[KafkaReader, FakeConsumer]]:
    """Opens all feeds at once."""
    monkeypatch.setattr(reader_module, "_FIRST_S", 60.0)

    def make(answer: Answer) -> tuple[KafkaReader, FakeConsumer]:
        consumer = FakeConsumer(answer)
        monkeypatch.setattr(reader_module, "Consumer", lambda config: consumer)
        reader = KafkaReader("nowhere:1", {}, lambda: None)
        for feed in FEEDS:
            reader.open(feed, 0)
        reader.poll()
        return reader, consumer

    return make


@pytest.mark.usefixtures("once")
def test_where_no_broker_answers_one_question_does_for_all_feeds(opened: Any) -> None:
    reader, consumer = opened(silent)
    until(lambda: len(reader._later) == len(FEEDS), "all feeds wait")
    assert consumer.asked == ["a"]
    reader.close()
    assert consumer.asked == ["a"]


@pytest.mark.usefixtures("once")
def test_a_topic_is_asked_for_once_however_many_partitions_it_has(opened: Any) -> None:
    reader, consumer = opened(absent)
    until(lambda: len(reader._later) == len(FEEDS), "all feeds wait")
    assert consumer.asked == ["a", "b", "c"]
    reader.close()


@pytest.mark.usefixtures("once")
def test_where_no_broker_answers_the_bounds_of_one_feed_are_asked_for(opened: Any) -> None:
    reader, consumer = opened(there)
    until(lambda: len(consumer.assigned) == len(FEEDS), "all feeds are read")
    consumer.arrived = [Lost(feed) for feed in FEEDS]
    until(lambda: len(reader._later) == len(FEEDS), "all feeds wait")
    assert (consumer.bounds_asked, consumer.assigned) == (1, set())
    reader.close()


def test_once_closed_it_asks_for_nothing_more(opened: Any) -> None:
    asking, closed = threading.Event(), threading.Event()

    def slow(topic: str) -> KafkaError | None:
        asking.set()
        assert closed.wait(PATIENCE_S)
        return absent(topic)

    reader, consumer = opened(slow)
    assert asking.wait(PATIENCE_S)
    closing = threading.Thread(target=reader.close)
    closing.start()
    until(lambda: reader._closed, "it is closed")
    closed.set()
    closing.join(PATIENCE_S)
    assert consumer.asked == ["a"]


def test_all_feeds_are_read_once_the_broker_answers(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_RETRY_S", 0.0)
    reader, consumer = opened(silent)
    until(lambda: len(consumer.asked) > 2, "it asks again and again")
    consumer.answer = there
    until(lambda: consumer.assigned == set(FEEDS), "all feeds are read")
    reader.close()
