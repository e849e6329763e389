"""Partitions that acknowledge nothing are named once, with the reason, and again when that is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from borealis_py.kafka.held_up import HELD_S, HeldUp, why_held_up
from borealis_py.log.base import Feed

ONE, OTHER = Feed("a.rows", 0), Feed("a.rows", 1)


def test_a_partition_that_acknowledges_nothing_is_named_once_and_when_it_is_over() -> None:
    held = HeldUp()
    held.sent(ONE, 0.0)
    held.sent(OTHER, 0.0)
    for second in range(1, 15):
        held.answered(OTHER, second)
        held.sent(OTHER, second)
        new, over = held.look(second)
        assert (new, over) == ([ONE] if second == HELD_S else [], [])
    held.answered(ONE, 20.0)
    held.answered(OTHER, 20.0)
    assert held.look(20.0) == ([], [(ONE, 20.0)])
    assert held.look(21.0) == ([], [])
    held.sent(ONE, 100.0)
    assert held.look(105.0) == ([], []), "nothing waited before"


def test_one_of_which_some_records_are_acknowledged_is_slow_and_not_held_up() -> None:
    held = HeldUp()
    for _ in range(100):
        held.sent(ONE, 0.0)
    for second in range(0, 95, 5):
        held.answered(ONE, second)
        assert held.look(second + HELD_S - 0.1) == ([], [])
    assert held.look(90 + HELD_S) == ([ONE], [])


@pytest.mark.parametrize(
    ("leader", "isrs", "told"),
    [
        (-1, [], "it has no leader"),
        (1, [1], "1 of its 3 copies is in sync"),
        (1, [1, 2], "2 of its 3 copies are in sync"),
        (1, [1, 2, 3], "its leader does not answer"),
    ],
)
def test_the_reason_is_what_the_cluster_says(leader: int, isrs: list[int], told: str) -> None:
    partition = SimpleNamespace(leader=leader, isrs=isrs, replicas=[1, 2, 3])
    assert why_held_up(asked(None, {0: partition}), ONE).startswith(told)
    assert why_held_up(asked(None, {}), ONE) == "there is no such partition"
    unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert why_held_up(asked(unknown, {}), ONE) == unknown.str()


def test_where_no_broker_answers_that_is_the_reason() -> None:
    def list_topics(topic: str, timeout: float) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    assert why_held_up(SimpleNamespace(list_topics=list_topics), ONE) == "no broker answers"


def asked(error: KafkaError | None, partitions: dict[int, Any]) -> Any:
    topic = SimpleNamespace(error=error, partitions=partitions)
    return SimpleNamespace(list_topics=lambda topic_name, timeout: SimpleNamespace(topics={topic_name: topic}))
