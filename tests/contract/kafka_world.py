"""`borealis_py.kafka` on a real broker, for the contract suite."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, TopicSpec
from tests.harness.trimming import delete_before, segment_bytes
from tests.harness.waiting import PATIENCE_S
from tests.support.answers import wait_for_answers, wait_led

T = TypeVar("T")
_numbers = itertools.count(1)


class KafkaWorld:
    """A real broker; every client is a process of its own as far as Kafka is concerned."""

    FIXTURES = ("bootstrap",)

    def __init__(self, bootstrap: str) -> None:
        self._log = KafkaLog(bootstrap)
        self._admin = self._log.admin()
        self._woken = threading.Event()
        self._patch = pytest.MonkeyPatch()
        wait_for_answers(self._patch)

    def log(self, client: str = "a") -> Log:
        return self._log

    def make_topic(self, partitions: int = 1) -> str:
        name = f"contract.t{next(_numbers)}"
        self._admin.create([TopicSpec(name, partitions, topics.EVENT_TIME)])
        self._wait_led(name, partitions)
        return name

    def make_again(self, topic: str) -> None:
        self._admin.create([TopicSpec(topic, 1, topics.EVENT_TIME)])
        self._wait_led(topic, 1)

    def until(self, condition: Callable[[], T]) -> T:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            assert time.monotonic() < deadline, "the condition did not come to hold"
            self._woken.wait(0.02)
            self._woken.clear()
        return found

    def wake(self) -> None:
        self._woken.set()

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        admin = AdminClient({"bootstrap.servers": self._log.bootstrap})
        (made,) = admin.create_partitions([NewPartitions(topic, partitions)]).values()
        made.result(PATIENCE_S)
        self._wait_led(topic, partitions)

    def _wait_led(self, topic: str, partitions: int) -> None:
        """A client that has asked for a topic does not know partitions that it got later."""
        wait_led(self._log.bootstrap, *(Feed(topic, p) for p in range(partitions)))

    def delete_before(self, feed: Feed, offset: int) -> None:
        delete_before(self._log.bootstrap, feed, offset)

    def segment_bytes(self, topic: str) -> int:
        return segment_bytes(self._log.bootstrap, topic)

    def close(self) -> None:
        self._admin.close()
        self._patch.undo()
