"""Answers of a broker that is there: tests wait for them longer than the product, which goes on without."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from borealis_py.kafka import admin, ends, lookup, topic_watch, transactor
from borealis_py.log.base import Feed
from tests.harness.waiting import until

LED_S = 2.0
ANSWER_S = 60.0
"""How long a broker on a busy machine may take. What is not there is told as soon as what is."""


def wait_for_answers(patch: pytest.MonkeyPatch) -> None:
    """No question of this process is given up sooner. Where no broker is, each takes as long."""
    for module in (admin, ends, lookup, topic_watch):
        patch.setattr(module, "ANSWER_S", ANSWER_S)
    patch.setattr(transactor, "_ANSWER_S", ANSWER_S)


def wait_led(bootstrap: str, *feeds: Feed) -> None:
    """Until the broker leads these new partitions: it says so to clients a moment before it does, and who asks for
    their ends meanwhile has no answer, or waits for it as long as it waits at all."""

    def led() -> bool:
        with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": "led", "log_level": 0})) as consumer:
            try:
                return all(consumer.get_watermark_offsets(TopicPartition(*feed), timeout=LED_S) for feed in feeds)
            except KafkaException:
                return False

    until(led, f"the broker leads {feeds}")
