"""Who asks for the ends of feeds, with which client, and for whom (no broker needed)."""

from __future__ import annotations

import ast
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

import borealis_py
from borealis_py.kafka.ends import EndsAsker, KafkaEnds
from borealis_py.log.base import Feed
from tests.harness.waiting import PATIENCE_S
from tests.kafka.waiter import Waiter

A, B, C = Feed("a"), Feed("b", 1), Feed("c")


class Client:
    """Stands for a consumer: tells ends from `ends`, and what it was asked, by whom."""

    def __init__(self, ends: dict[Feed, int], leaders: dict[Feed, int]) -> None:
        self.ends, self.leaders = ends, leaders
        self.silent: set[int] = set()
        self.unheard_of: set[Feed] = set()
        self.asked: list[list[Feed]] = []
        self.threads: set[int] = set()
        self.begun, self.free, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.free.set()

    def poll(self, timeout: float) -> None:
        """Nothing has come."""

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float) -> list[Any]:
        self.threads.add(threading.get_ident())
        feeds = [Feed(tp.topic, tp.partition) for tp in partitions]
        self.asked.append(feeds)
        self.begun.set()
        assert self.free.wait(PATIENCE_S)
        assert {tp.offset for tp in partitions} == {-1}
        if any(feed not in self.leaders or self.leaders[feed] in self.silent for feed in feeds):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        unknown = KafkaError(KafkaError._UNKNOWN_PARTITION)
        return [
            SimpleNamespace(
                topic=feed.topic,
                partition=feed.partition,
                offset=self.ends[feed],
                error=unknown if feed in self.unheard_of else None,
            )
            for feed in feeds
        ]

    def list_topics(self, topic: str, timeout: float) -> Any:
        if not self.leaders:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self.unheard_of = {feed for feed in self.unheard_of if feed.topic != topic}
        topics: dict[str, Any] = {topic: SimpleNamespace(partitions={})}
        for (name, partition), leader in self.leaders.items():
            topic = topics.setdefault(name, SimpleNamespace(partitions={}))
            topic.partitions[partition] = SimpleNamespace(leader=leader)
        return SimpleNamespace(topics=topics)

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed.set()


def ask(client: Client, *feeds: Feed) -> KafkaEnds:
    asker = EndsAsker(lambda: client)  # type: ignore[arg-type,return-value]
    question = asker.ask(feeds)
    asker.close()
    return question


def test_all_are_asked_at_once() -> None:
    client = Client({A: 5, B: 7}, {A: 1, B: 2})
    assert ask(client, A, B).poll() == {A: 5, B: 7}
    assert client.asked == [[A, B]]


def test_one_broker_that_is_silent_leaves_the_ends_of_the_others_known() -> None:
    client = Client({A: 5, B: 7, C: 9}, {A: 1, B: 2, C: 1})
    client.silent = {2}
    assert ask(client, A, B, C).poll() == {A: 5, B: None, C: 9}


def test_a_partition_without_a_leader_and_a_topic_that_is_gone_are_unknown() -> None:
    client = Client({A: 5}, {A: 1, B: -1})
    client.silent = {-1}
    assert ask(client, A, B, C).poll() == {A: 5, B: None, C: None}


def test_a_partition_that_is_new_to_the_client_is_asked_for_again() -> None:
    client = Client({A: 5, B: 0}, {A: 1, B: 1})
    client.unheard_of = {B}
    assert ask(client, A, B).poll() == {A: 5, B: 0}
    assert client.asked == [[A, B], [B]]


def test_where_nobody_answers_all_are_unknown() -> None:
    assert ask(Client({}, {}), A, B).poll() == {A: None, B: None}


def test_an_unexpected_error_answers_too(caplog: pytest.LogCaptureFixture) -> None:
    client = Client({}, {A: 1})  # has no end to tell: KeyError
    assert ask(client, A).poll() == {A: None}
    assert "unexpected error" in caplog.text


def test_a_question_that_nobody_waits_for_is_not_asked(waiter: Waiter) -> None:
    client = Client({A: 5, B: 7, C: 9}, {A: 1, B: 1, C: 1})
    client.free.clear()
    asker = EndsAsker(lambda: client)  # type: ignore[arg-type,return-value]
    first = asker.ask([A])
    assert client.begun.wait(PATIENCE_S)
    asker.ask([B])
    last = asker.ask([C])
    client.free.set()
    assert waiter.until(last.poll) == {C: 9}
    assert first.poll() == {A: 5}
    assert client.asked == [[A], [C]]
    asker.close()


def test_a_question_that_fails_when_nobody_waits_for_it_any_more_is_not_asked_again(waiter: Waiter) -> None:
    client = Client({A: 5, B: 7}, {A: 1, B: 2})
    client.silent = {1}
    client.free.clear()
    asker = EndsAsker(lambda: client)  # type: ignore[arg-type,return-value]
    dropped = asker.ask([A])
    assert client.begun.wait(PATIENCE_S)
    del dropped
    kept = asker.ask([B])
    client.free.set()
    assert waiter.until(kept.poll) == {B: 7}
    assert client.asked == [[A], [B]]
    asker.close()


def test_what_is_asked_meanwhile_is_one_query_and_each_is_told_its_own(waiter: Waiter) -> None:
    client = Client({A: 5, B: 7, C: 9}, {A: 1, B: 1, C: 1})
    client.free.clear()
    asker = EndsAsker(lambda: client)  # type: ignore[arg-type,return-value]
    first = asker.ask([A])
    assert client.begun.wait(PATIENCE_S)
    answered: list[str] = []
    b = asker.ask([A, B], answered=lambda: answered.append("b"))
    c = asker.ask([C], answered=lambda: answered.append("c"))
    client.free.set()
    assert waiter.until(c.poll) == {C: 9}
    assert waiter.until(b.poll) == {A: 5, B: 7}
    assert first.poll() == {A: 5}
    assert client.asked == [[A], [A, B, C]]
    asker.close()
    assert answered == ["b", "c"]


def test_one_thread_opens_uses_and_closes_the_client(waiter: Waiter) -> None:
    client = Client({A: 5}, {A: 1})
    opened: list[int] = []

    def opening() -> Any:
        opened.append(threading.get_ident())
        return client

    asker = EndsAsker(opening)
    assert asker.ask([]).poll() == {}
    assert opened == []
    for _ in range(3):
        waiter.until(asker.ask([A]).poll)
    asker.close()
    assert client.closed.is_set()
    assert len(opened) == 1
    assert client.threads == set(opened) != {threading.get_ident()}


def test_nobody_asks_the_admin_client_for_what_a_leader_knows() -> None:
    """It frees such a request twice when the answer comes while the caller is still at it (librdkafka 2.16.0)."""
    used = {
        f"{file.name}: {node.attr}"
        for file in Path(borealis_py.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in ("list_offsets", "delete_records")
        and file.name != "deleter.py"  # kafka-python's, not librdkafka's
    }
    assert used == set()
