"""Creates what a broker leaves that loses the ends of a transaction: open records unknown to its coordinator.

They are written as the last producer of the id would, without telling the coordinator; Kafka checks for that since 3.6,
so the broker must be configured not to (`unverified`).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka.record.default_records import DefaultRecordBatchBuilder

from borealis_py.log.base import Feed, NewRecord
from tests.harness.waiting import PATIENCE_S, until

_INIT_PRODUCER_ID, _PRODUCE = (22, 1), (0, 7)
_INVALID_TXN_STATE = 48


@contextmanager
def unverified(bootstrap: str) -> Iterator[None]:
    """Make the broker accept records of a transaction without asking whether there is one."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    _verify(admin, "false")
    try:
        yield
    finally:
        _verify(admin, "true")


def _verify(admin: AdminClient, value: str) -> None:
    entry = ConfigEntry("transaction.partition.verification.enable", value)
    entry.incremental_operation = AlterConfigOpType.SET
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(PATIENCE_S)


def hang(bootstrap: str, transactional_id: str, records: Sequence[NewRecord]) -> None:
    """Write records whose transaction never ends. Fences like a producer that begins; needs `unverified`."""
    Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id}).init_transactions(30)
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        told = _ask(connection, _INIT_PRODUCER_ID, _string(transactional_id) + struct.pack(">i", 10_000))
        _, error, producer, epoch = struct.unpack(">ihqh", told)
        assert error == 0, error
        for feed, some in groupby(sorted(records, key=_feed), _feed):
            batch = _batch(list(some), producer, epoch)
            body = _string(transactional_id) + struct.pack(">hii", -1, 30_000, 1) + _string(feed.topic)
            body += struct.pack(">iii", 1, feed.partition, len(batch)) + batch

            def stored(feed: Feed = feed, body: bytes = body) -> bool:
                told = _ask(connection, _PRODUCE, body)
                (error,) = struct.unpack_from(">h", told, 4 + 2 + len(feed.topic) + 4 + 4)
                assert error in (0, _INVALID_TXN_STATE), (feed, error)
                return bool(error == 0)

            until(stored, "the broker obeys, a moment after it has taken the setting")


def _feed(record: NewRecord) -> Feed:
    return record.feed


def _batch(records: Sequence[NewRecord], producer: int, epoch: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, True, producer, epoch, 0, 1 << 20)
    for i, record in enumerate(records):
        builder.append(i, record.timestamp_ms or 1_700_000_000_000, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _ask(connection: socket.socket, what: tuple[int, int], body: bytes) -> bytes:
    request = struct.pack(">hhi", *what, 1) + _string("hanging") + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, length)[4:]


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = connection.recv(count - len(found))
        assert more, "the broker hung up"
        found += more
    return found
