"""Reads raw topics with kafka-python. The product carries its data with another client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from borealis_py.verify.envelope import Raw

STALL_S = 30.0
POLL_MS = 500
POLL_RECORDS = 10_000

Told = Callable[[str, int, int], None]
"""Called while a topic is read and once at its end: its name, offsets read, offsets in all."""


class CannotRead(Exception):
    """A topic is not there or could not be read to its end. The message says which, and what to do."""


class TopicReader:
    """Whole partitions of topics, as they lie.

    Args:
        bootstrap: host:port of the brokers.
        properties: of kafka-python's clients, as `kafka_properties.translated` gives them.

    Raises:
        CannotRead: no broker answers.
    """

    def __init__(self, bootstrap: str, properties: Mapping[str, Any] | None = None) -> None:
        self._seen: set[str] = set()
        with _said(f"the brokers at {bootstrap}"):
            self._committed = _consumer(bootstrap, "read_committed", properties or {})
            try:
                self._written = _consumer(bootstrap, "read_uncommitted", properties or {})
            except BaseException:
                self._committed.close()
                raise

    def read(self, topic: str, partition: int = 0, committed: bool = True) -> list[Raw]:
        """Every record of one partition, from its beginning to its end now; `committed`: to its first open transaction.

        Raises:
            CannotRead: no such topic, or nothing came for `STALL_S` seconds before the end was reached.
        """
        consumer = self._committed if committed else self._written
        return list(self._records(consumer, consumer, topic, partition, _nobody))

    def stream(self, topic: str, partition: int = 0, committed: bool = True, told: Told | None = None) -> Iterator[Raw]:
        """The same one by one, to what is written now: transactions that are open now are waited for.

        So whatever was committed anywhere before this was called is among it, if it lies in this partition.

        Raises:
            CannotRead: as `read`, or a transaction stays open.
        """
        consumer = self._committed if committed else self._written
        return self._records(consumer, self._written, topic, partition, told or _nobody)

    def partitions(self, topic: str) -> int:
        """The number of the topic's partitions. Raises CannotRead."""
        with _said(f"topic {topic}"):
            self._there(self._committed, topic)
            return len(self._committed.partitions_for_topic(topic) or ())

    def beginning(self, topic: str, partition: int = 0) -> int:
        """Offset of the first record that was not deleted. Raises CannotRead."""
        feed = TopicPartition(topic, partition)
        with _said(f"topic {topic}"):
            self._there(self._committed, topic)
            return int(self._committed.beginning_offsets([feed])[feed])

    def first_at(self, topic: str, timestamp_ms: int) -> int:
        """Offset of the first record of that time or later. Raises CannotRead."""
        feed = TopicPartition(topic, 0)
        found = self._committed.offsets_for_times({feed: timestamp_ms})[feed]
        if found is None:
            raise CannotRead(f"topic {topic} has no record at {timestamp_ms} ms or later")
        return int(found.offset)

    def close(self) -> None:
        """Let go of the clients."""
        self._committed.close()
        self._written.close()

    def _there(self, consumer: KafkaConsumer, topic: str) -> None:
        if topic not in self._seen:  # an answer names every topic of the cluster, and one topic is read many times
            self._seen |= consumer.topics()
        if topic not in self._seen:
            raise CannotRead(f"topic {topic} does not exist: did the app run on this broker? `borealis up` makes it")

    def _records(
        self, consumer: KafkaConsumer, ends: KafkaConsumer, topic: str, partition: int, told: Told
    ) -> Iterator[Raw]:
        feed = TopicPartition(topic, partition)
        with _said(f"topic {topic}"):
            self._there(consumer, topic)
            consumer.assign([feed])
            consumer.seek_to_beginning(feed)
            end = ends.end_offsets([feed])[feed]
            first = position = consumer.position(feed)
        deadline = time.monotonic() + STALL_S
        while position < end:
            with _said(f"topic {topic}"):
                found = consumer.poll(timeout_ms=POLL_MS, max_records=POLL_RECORDS).get(feed, ())
            for record in found:
                if record.offset < end:
                    yield Raw(record.offset, record.value, tuple(record.headers or ()))
            before, position = position, consumer.position(feed)
            if position < end:
                told(topic, position - first, end - first)
            if position > before:
                deadline = time.monotonic() + STALL_S
            elif time.monotonic() > deadline:
                raise CannotRead(
                    f"topic {topic}: stuck at offset {position} of {end} for {STALL_S:.0f} s. If the broker is well, a "
                    "transaction is open there: try again when its writer has ended it or its timeout has passed"
                )
        told(topic, end - first, end - first)


def read_all(bootstrap: str, topic: str) -> list[Raw]:
    """As `TopicReader.read`, with clients of its own and committed records only. Raises CannotRead."""
    reader = TopicReader(bootstrap)
    try:
        return reader.read(topic)
    finally:
        reader.close()


def _consumer(bootstrap: str, isolation: str, properties: Mapping[str, Any]) -> KafkaConsumer:
    """A client that belongs to no group."""
    return KafkaConsumer(
        **properties,
        bootstrap_servers=bootstrap.split(","),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level=isolation,
    )


@contextmanager
def _said(what: str) -> Iterator[None]:
    """Turn a client's error, which may be of any class, into one that names what was read."""
    try:
        yield
    except (KafkaError, OSError, ValueError, AssertionError) as exc:
        raise CannotRead(f"{what} cannot be read: {type(exc).__name__}: {exc}") from exc


def _nobody(topic: str, done: int, total: int) -> None:
    """Where nobody wants to be told."""
