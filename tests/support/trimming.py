"""Deleting a topic's oldest records, as its retention would."""

from __future__ import annotations

from contextlib import closing

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from borealis_py.log.base import Feed


def delete_before(bootstrap: str, feed: Feed, offset: int) -> None:
    """Kafka's DeleteRecords: everything of the feed below this offset."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.delete_records({TopicPartition(*feed): offset})
