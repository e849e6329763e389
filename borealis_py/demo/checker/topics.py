"""Reading whole topics with kafka-python, the client that the product does not carry data with."""

from __future__ import annotations

import time

from kafka import KafkaConsumer, TopicPartition

from borealis_py.demo.checker.history import Raw

STALL_S = 30.0


class CannotRead(Exception):
    """A topic is not there or could not be read to its end."""


def read_all(bootstrap: str, topic: str) -> list[Raw]:
    """As `read_whole`, with a client of its own and committed records only. Raises CannotRead."""
    consumer = open_consumer(bootstrap)
    try:
        return read_whole(consumer, topic)
    finally:
        consumer.close()


def open_consumer(bootstrap: str, isolation: str = "read_committed") -> KafkaConsumer:
    """A client that belongs to no group; the caller closes it."""
    return KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level=isolation,
    )


def read_whole(consumer: KafkaConsumer, topic: str, partition: int = 0) -> list[Raw]:
    """Every record of one partition of the topic that the consumer may see, from its beginning to its end now.

    Raises:
        CannotRead: no such topic, or nothing came for `STALL_S` seconds before the end was reached.
    """
    if topic not in consumer.topics():
        raise CannotRead(f"topic {topic} does not exist: did the app run on this broker?")
    feed = TopicPartition(topic, partition)
    consumer.assign([feed])
    consumer.seek_to_beginning(feed)
    end = consumer.end_offsets([feed])[feed]
    out: list[Raw] = []
    deadline = time.monotonic() + STALL_S
    while (position := consumer.position(feed)) < end:
        for record in consumer.poll(timeout_ms=500, max_records=10_000).get(feed, ()):
            out.append(Raw(record.offset, record.value, tuple(record.headers)))
        if consumer.position(feed) > position:
            deadline = time.monotonic() + STALL_S
        elif time.monotonic() > deadline:
            raise CannotRead(f"topic {topic}: stuck at offset {position} of {end} for {STALL_S:.0f} s")
    return out
