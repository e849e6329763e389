"""An app that reads a topic of other programs, and that topic, for tests of commands on a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from borealis_py.kafka.log import KafkaLog
from tests.harness.waiting import PATIENCE_S, until

TEXT = """
from borealis_py import App

app = App("{name}")
orders = app.topic("orders", topic="{topic}", schema={{"shop": "string", "euros": "double", "at": "int64"}},
                   stime="at", stime_unit="ms", lateness="{lateness}", {arguments})
app.query("sales", orders.window("1s").group_by("shop").agg(euros="sum(euros)"), replicas=1)
"""


def app_text(name: str, topic: str, arguments: str = "", lateness: str = "500ms") -> str:
    return TEXT.format(name=name, topic=topic, arguments=arguments, lateness=lateness)


class Topic:
    """A topic that this test writes."""

    def __init__(self, bootstrap: str, name: str, partitions: int) -> None:
        self.name = name
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = self._new_producer()
        for made in self._admin.create_topics([NewTopic(name, partitions, 1)]).values():
            made.result()

    def _new_producer(self) -> Producer:
        return Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 0})

    def send(self, *values: object, partition: int = 0) -> None:
        for value in values:
            raw = value if isinstance(value, bytes) else json.dumps(value).encode()
            self._producer.produce(self.name, raw, partition=partition)
        assert self._producer.flush(PATIENCE_S) == 0

    def grow(self, partitions: int) -> None:
        """Add partitions, and write with a producer that knows them: one that has written keeps what it knew."""
        for made in self._admin.create_partitions([NewPartitions(self.name, partitions)]).values():
            made.result()
        producer = self._producer = self._new_producer()
        until(lambda: len(producer.list_topics(self.name).topics[self.name].partitions) == partitions, "it has grown")

    def close(self) -> None:
        self._admin.delete_topics([self.name])


@pytest.fixture
def topic(
    here: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Topic]:
    """Two partitions, under a name of the test's own; commands find the broker."""
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    made = Topic(bootstrap, f"prod.{request.node.name.replace('_', '-')[:60]}", 2)
    until(lambda: KafkaLog(bootstrap).admin().partitions(made.name) == 2, "clients see the topic")
    yield made
    made.close()
