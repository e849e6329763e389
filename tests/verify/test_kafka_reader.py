from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from borealis_py.verify.kafka_reader import CannotRead, TopicReader, read_all
from tests.harness.waiting import PATIENCE_S


def test_a_topic_is_read_to_its_end_without_what_was_aborted(bootstrap: str) -> None:
    topic = f"checked-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "compression.type": "gzip"})
    producer.init_transactions(PATIENCE_S)
    for value, commit in ((b"one", True), (b"aborted", False), (b"two", True), (b"aborted too", False)):
        producer.begin_transaction()
        producer.produce(topic, value, headers=[("id", b"7:0")])
        producer.flush(PATIENCE_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_S)
    found = read_all(bootstrap, topic)
    assert [r.value for r in found] == [b"one", b"two"]
    assert found[0].headers == (("id", b"7:0"),)
    assert found[0].offset < found[1].offset


def test_a_topic_that_is_not_there_is_named(bootstrap: str) -> None:
    with pytest.raises(CannotRead, match=r"flights\.nowhere does not exist"):
        read_all(bootstrap, "flights.nowhere")


def test_open_transactions_are_waited_for_and_told_where_they_stay_open(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"checked-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2)])[topic].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    assert producer.flush(PATIENCE_S) == 0
    topics, told = TopicReader(bootstrap), list[tuple[str, int, int]]()
    try:
        assert (topics.partitions(topic), topics.beginning(topic, 1)) == (2, 0)
        assert topics.read(topic, 1) == []  # up to where it is open
        monkeypatch.setattr("borealis_py.verify.kafka_reader.STALL_S", 0.0)
        with pytest.raises(CannotRead, match=f"{topic}: stuck at offset 0 of 1.* a transaction is open"):
            list(topics.stream(topic, 1))
        monkeypatch.setattr("borealis_py.verify.kafka_reader.STALL_S", 30.0)
        producer.commit_transaction(PATIENCE_S)
        found = list(topics.stream(topic, 1, told=lambda *progress: told.append(progress)))
        assert [r.value for r in found] == [b"open"]
        assert told[-1][1] == told[-1][2] > 0
    finally:
        topics.close()


def test_a_broker_that_is_not_there_is_told() -> None:
    with pytest.raises(CannotRead, match="the brokers at localhost:1 cannot be read"):
        TopicReader("localhost:1", {"bootstrap_timeout_ms": 500})
