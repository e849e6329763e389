"""A watch of a foreign topic wakes its asker: nobody need look again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions

from borealis_py.kafka import ends, topic_watch
from borealis_py.kafka.clients import KafkaClients
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed
from borealis_py.log.foreign import Told, TopicWatch
from tests.harness.waiting import PATIENCE_S, awaited, until
from tests.support.answers import wait_led

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
    wait_led(log.bootstrap, *(Feed(feed.topic, p) for p in range(3)))
    fill(Feed(feed.topic, 2), [b"1"])
    assert told(watch, [0, 1, 2]) == {0: Told(0, 0), 1: Told(0, 0), 2: Told(1, 1)}
    watch.close()


def test_topics_of_a_process_are_asked_about_together_and_silent_ones_apart(
    log: KafkaLog, new_feed: Callable[..., Feed], fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, list[Feed]]] = []
    query = ends._ends

    def noted(consumer: Consumer, feeds: Sequence[Feed], *rest: Any) -> dict[Feed, int | None]:
        asked.append((id(consumer), sorted(feeds)))
        return query(consumer, feeds, *rest)

    monkeypatch.setattr(ends, "_ends", noted)
    monkeypatch.setattr(topic_watch, "COLLECT_S", 0.05)
    monkeypatch.setattr(topic_watch, "COMMITTED_S", 1e6)
    clients, feeds = KafkaClients(log), [new_feed(), new_feed()]
    watches = [clients.topic_watch(feed.topic, lambda: None) for feed in feeds]
    for feed in feeds:
        fill(feed, [b"1"])

    def together(*partitions: list[int]) -> list[list[Feed]]:
        """What was asked, by the clients that see all that is written."""
        asked.clear()
        queries = [watch.ask_ends(some) for watch, some in zip(watches, partitions, strict=True)]
        for one in queries:
            awaited(one.poll, "the ends are told")
        return [some for _, some in asked]

    together([0], [0])  # what is committed is asked for, too
    assert together([0], [0]) == [sorted(feeds)]
    missing = Feed(feeds[1].topic, 7)
    together([0], [0, 7])
    apart = together([0], [0, 7])
    assert sorted(apart) == sorted([[feeds[0]], sorted([feeds[1], missing])])
    assert len({who for who, _ in asked}) == 2
    together([0], [0])
    assert together([0], [0]) == [sorted(feeds)]
    for watch in watches:
        watch.close()
    clients.close()


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
