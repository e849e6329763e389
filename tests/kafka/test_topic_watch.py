"""A watch of a foreign topic wakes its asker: nobody need look again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Protocol, TypeVar

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from borealis_py.kafka import topic_watch
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed
from borealis_py.log.foreign import Told, TopicWatch
from tests.support.answers import wait_led
from tests.support.waiting import PATIENCE_S, awaited, until

Fill = Callable[[Feed, list[bytes]], None]
A = TypeVar("A", covariant=True)


class Query(Protocol[A]):
    def poll(self) -> A | None: ...


def told(watch: TopicWatch, partitions: list[int]) -> Mapping[int, Told]:
    return awaited(watch.ask_ends(partitions).poll, "the ends are told")


def test_it_wakes_when_an_answer_is_whole(log: KafkaLog, new_feed: Callable[..., Feed], fill: Fill) -> None:
    feed, woken = new_feed(), threading.Event()
    fill(feed, [b"1", b"2"])
    watch = log.topic_watch(feed.topic, woken.set)

    def answer(query: Query[A]) -> A:
        while (answer := query.poll()) is None:
            assert woken.wait(PATIENCE_S)
            woken.clear()
        return answer

    for _ in range(3):
        assert answer(watch.ask_ends([0])) == {0: Told(2, 2)}
        assert answer(watch.ask_partitions()).partitions == 1
    watch.close()


def test_ends_of_partitions_that_came_after_the_first_question_are_told(
    log: KafkaLog, new_feed: Callable[..., Feed], fill: Fill
) -> None:
    """Kafka's client keeps what it knows of a topic for minutes."""
    feed = new_feed()
    watch = log.topic_watch(feed.topic, lambda: None)
    assert told(watch, [0]) == {0: Told(0, 0)}
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.create_partitions([NewPartitions(feed.topic, 3)])[feed.topic].result()
    with closing(log.lookup()) as lookup:
        wait_led(lookup, *(Feed(feed.topic, p) for p in range(3)))
    fill(Feed(feed.topic, 2), [b"1"])
    assert told(watch, [0, 1, 2]) == {0: Told(0, 0), 1: Told(0, 0), 2: Told(1, 1)}
    watch.close()


def test_what_is_committed_is_asked_for_less_often(
    log: KafkaLog, new_feed: Callable[..., Feed], fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No promise rests on it. Of partitions that it does not know it is asked for at once."""
    feed = new_feed()
    fill(feed, [b"1"])
    watch = log.topic_watch(feed.topic, lambda: None)
    assert told(watch, [0]) == {0: Told(1, 1)}
    monkeypatch.setattr(topic_watch, "COMMITTED_S", 1e6)
    fill(feed, [b"2"])
    assert told(watch, [0]) == {0: Told(1, 2)}
    assert told(watch, [0, 7]) == {0: Told(2, 2), 7: Told(None, None)}
    monkeypatch.setattr(topic_watch, "COMMITTED_S", 0)
    fill(feed, [b"3"])
    until(lambda: told(watch, [0, 7])[0] == Told(3, 3), "what is committed is asked for again")
    watch.close()
