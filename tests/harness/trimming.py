"""Deleting a topic's oldest records, as its retention would; and how large a segment of it may grow."""

from __future__ import annotations

from contextlib import closing

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from borealis_py.log.base import Feed
from tests.harness.waiting import PATIENCE_S


def delete_before(bootstrap: str, feed: Feed, offset: int) -> None:
    """Kafka's DeleteRecords: everything of the feed below this offset."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.delete_records({TopicPartition(*feed): offset})


def segment_bytes(bootstrap: str, topic: str) -> int:
    return int(setting(bootstrap, topic, "segment.bytes"))


def setting(bootstrap: str, topic: str, name: str) -> str:
    """A setting of a topic, the broker's own if it has none."""
    asked = ConfigResource(ResourceType.TOPIC, topic)
    client = AdminClient({"bootstrap.servers": bootstrap})  # it must outlive its answer
    (answer,) = client.describe_configs([asked]).values()
    return str(answer.result(PATIENCE_S)[name].value)
