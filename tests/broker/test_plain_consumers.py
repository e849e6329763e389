"""The corrected stream is an ordinary topic: two independent clients read the same rows, each once, in order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from borealis_py.log import topics
from borealis_py.query import App
from tests.harness.running import RunningApp, running
from tests.harness.waiting import until

pytestmark = pytest.mark.broker

Read = list[tuple[bytes, bytes, bytes]]
ROWS = 300


def with_kafka_python(bootstrap: str, topic: str, isolation: str) -> Read:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
    feed = KafkaPythonPartition(topic, 0)
    consumer.assign([feed])
    consumer.seek_to_beginning(feed)
    (end,) = consumer.end_offsets([feed]).values()
    found = []
    while consumer.position(feed) < end:
        records = consumer.poll(500).get(feed, ())
        found += [(dict(r.headers)["id"], dict(r.headers)["stime"], r.value) for r in records]
    consumer.close()
    return found


def with_confluent(bootstrap: str, topic: str) -> Read:
    settings = {"group.id": "plain", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        record = consumer.poll(60)
        assert record is not None
        if (error := record.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            break
        headers = dict(record.headers())
        found.append((headers["id"], headers["stime"], record.value()))
    consumer.close()
    return found


def at_its_end(app: RunningApp) -> bool:
    """The source has ended, and all there is of the query is published."""
    status = app.newest(0)
    return status is not None and all(i.ended for i in status.inputs) and status.progress >= status.f_s


def test_both_clients_find_the_same(bootstrap: str, tmp_path: Path) -> None:
    it = App("plain", bucket="50ms")
    source = it.source("src", schema={"n": "int64", "x": "double"})
    it.query("all", source.filter("n >= 0"), delay_threshold="1s", replicas=1)
    with running(bootstrap, it, tmp_path) as app:
        app.start(0)
        app.wait_ready(0)
        with app.publisher("src") as publisher:
            for n in range(ROWS):
                publisher.send({"n": n, "x": n / 3})
            publisher.close(end=True)
        until(lambda: at_its_end(app), "everything is published")
        until(lambda: len(app.corrected("all")) == ROWS, "its transactions have ended")
        topic = topics.stream("plain", "all")
        first = with_kafka_python(bootstrap, topic, "read_committed")
        assert first == with_confluent(bootstrap, topic)
        assert first == with_kafka_python(bootstrap, topic, "read_uncommitted"), "no transaction was given up here"
    assert [json.loads(value) for _, _, value in first] == [{"n": n, "x": n / 3} for n in range(ROWS)]
    ids = [tuple(map(int, i.decode().split(":"))) for i, _, _ in first]
    assert ids == sorted(set(ids))
    assert [int(s) for _, s, _ in first] == sorted(int(s) for _, s, _ in first)
