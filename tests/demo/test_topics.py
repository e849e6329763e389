from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from borealis_py.demo.checker.topics import CannotRead, read_all


def test_a_topic_is_read_to_its_end_without_what_was_aborted(bootstrap: str) -> None:
    topic = f"checked-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "compression.type": "gzip"})
    producer.init_transactions(30)
    for value, commit in ((b"one", True), (b"aborted", False), (b"two", True), (b"aborted too", False)):
        producer.begin_transaction()
        producer.produce(topic, value, headers=[("id", b"7:0")])
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    found = read_all(bootstrap, topic)
    assert [r.value for r in found] == [b"one", b"two"]
    assert found[0].headers == (("id", b"7:0"),)
    assert found[0].offset < found[1].offset


def test_a_topic_that_is_not_there_is_named(bootstrap: str) -> None:
    with pytest.raises(CannotRead, match=r"flights\.nowhere does not exist"):
        read_all(bootstrap, "flights.nowhere")
