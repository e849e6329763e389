"""What all our Kafka clients share: settings, quiet logs, and translation of errors."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from borealis_py.kafka.access import refusals
from borealis_py.kafka.access.rights import missing_right
from borealis_py.log.base import Feed, LogError, LogUnreachable, Record
from borealis_py.log.topics import RECORD_BYTES_MAX

log = logging.getLogger(__package__)
events = structlog.get_logger(__package__)

PORT = 9092
"""Of an address that names none, as librdkafka takes it."""
UNREACHABLE = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._RESOLVE,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
LEADER_MOVES = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
)
"""What a broker answers for a partition whose leader is being elected or has just changed."""
READ_WAIT_MS, LOOK_UP_WAIT_MS = 100, 10
"""How long the broker may hold a fetch (ms). Records are returned at once either way. A long wait makes an idle reader
cheap, but also delays feeds that it opens next to others, and the "no more" that ends a look-up.
"""
REST_WAIT_MS, REST_BYTES = 500, 1_000_000
"""The same for a reader that may learn late of what comes, and the bytes that are answered at once."""
FENCED_SAID = ("fenced by a newer", "fenced by newer")
"""librdkafka's words for a fenced producer, in a log line without an error code."""
NO_SUCH_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


def base_config(bootstrap: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Settings of every client. `properties` are the user's, and take precedence.

    librdkafka would write to the user's standard error; its errors go to the logger `borealis_py.kafka` instead.
    """
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "borealis",
        "log_level": 0,
        "error_cb": partial(refusals.note, bootstrap),
        # Half of it also passes before a new client connects to a partition's leader (sparse connections): with 250 ms
        # take-overs took 0.6 s longer. So where no broker answers, librdkafka 2.16.0, which makes its broker objects
        # anew after each failed connect, begins some 40 threads a second for each client.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "allow.auto.create.topics": False,
        **properties,
    }


def consumer_config(
    bootstrap: str, properties: Mapping[str, str], wait_ms: int = READ_WAIT_MS, least_bytes: int = 1
) -> dict[str, Any]:
    """A consumer with assigned partitions, never in a group, that sees committed records only.

    Args:
        wait_ms: how long the broker waits for so many bytes (`least_bytes`) before it answers with what there is.
    """
    defaults = {
        "fetch.wait.max.ms": str(wait_ms),
        "fetch.min.bytes": str(least_bytes),
        "fetch.queue.backoff.ms": "5",
    }
    return {
        **base_config(bootstrap, {**defaults, **properties}),
        "group.id": "borealis",  # librdkafka requires one; nothing is ever committed to it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    }


def producer_config(bootstrap: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """An idempotent producer that sends at once, with records as large as our topics allow."""
    defaults = {"linger.ms": "0", "compression.type": "zstd", "message.max.bytes": str(RECORD_BYTES_MAX)}
    return {
        **base_config(bootstrap, {**defaults, **properties}),
        "enable.idempotence": True,
        "acks": "all",
        "logger": ClientLog(),
    }


class ClientLog:
    """Receives librdkafka's own log lines while a producer is polled: only the gravest (`log_level`), which it would
    otherwise print to standard error.
    """

    def log(self, level: int, form: str, *parts: str) -> None:
        """Like `logging.Logger.log`. A producer being fenced by its successor is normal in a take-
        over, not an error.
        """
        facility, client, text = (*parts, "", "", "")[:3]
        if any(word in text for word in FENCED_SAID):  # without its words: "FATAL" alarms whoever reads the log
            events.info("Kafka producer fenced: its successor has taken over, which is normal", client=client)
        else:
            said = events.bind(client=client, facility=facility, said=text)
            said.error("Kafka client failed with an unrecoverable error")


def unreachable(bootstrap: str) -> LogUnreachable:
    return LogUnreachable(
        refusals.refusal(bootstrap)
        or f"no Kafka broker answers at {bootstrap}. `borealis broker up` starts a local one; "
        "another one's address goes into --bootstrap."
    )


def error_of(exc: KafkaException) -> KafkaError:
    error: KafkaError = exc.args[0]
    return error


def translated(bootstrap: str, doing: str, error: KafkaError) -> LogError:
    """Our error for a client's.

    Args:
        doing: the operation and its topic: "read flights.ewr[0]".
    """
    if error.code() in UNREACHABLE:
        return unreachable(bootstrap)
    if error.code() in NO_SUCH_TOPIC:
        return LogError(f"cannot {doing}: no such topic at {bootstrap}. `borealis up` creates the topics of an app.")
    if (right := missing_right(error.code(), doing)) is not None:
        return LogError(f"cannot {doing}: the brokers at {bootstrap} do not allow it: the ACLs lack {right}")
    return LogError(f"cannot {doing}: {error.str()} ({error.name()}, from {bootstrap})")


@contextmanager
def translating(bootstrap: str, doing: str, listen: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Translate the client's errors to ours.

    Args:
        listen: called before that where no broker answers, so that the client tells of a refusal (`refusals.listen`).
    """
    try:
        yield
    except KafkaException as exc:
        if error_of(exc).code() in UNREACHABLE:
            listen()
        raise translated(bootstrap, doing, error_of(exc)) from exc


def listens(bootstrap: str, timeout_s: float = 1.0) -> bool:
    """Whether anything takes connections at one of these addresses. Where nothing does this tells it at once, a client
    only after its time-out."""
    for address in _addresses(bootstrap):
        with suppress(OSError, OverflowError), socket.create_connection(address, timeout_s):
            return True
    return False


def refuse(bootstrap: str, timeout_s: float = 0.4) -> bool:
    """Whether all of these addresses refuse connections, so that there is nothing to wait for. One that takes them, is
    not known, or does not answer within the time: False, as a client may reach it yet."""
    for address in _addresses(bootstrap):
        try:
            socket.create_connection(address, timeout_s).close()
        except ConnectionRefusedError:
            continue
        except (OSError, OverflowError):
            return False
        return False
    return True


def _addresses(bootstrap: str) -> Iterator[tuple[str, int]]:
    for text in bootstrap.split(","):
        host, colon, port = text.strip().rpartition("://")[2].rpartition(":")
        if not colon or not port.isdigit():
            host, port = host + colon + port, str(PORT)
        yield host.strip("[]"), int(port)


def ask_cluster_id(bootstrap: str, timeout_s: float) -> str | None:
    """The id of the cluster that answers there; None: no answer in time.

    Uses a new client each time: one that has met a broker before it was ready waits before it retries.
    """
    try:
        cluster_id: str | None = AdminClient(base_config(bootstrap, {})).list_topics(timeout=timeout_s).cluster_id
    except KafkaException:
        return None
    return cluster_id


def _bytes(value: str | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else (value or "").encode()


def record_of(feed: Feed, message: Message) -> Record:
    """Our record of a consumed message."""
    headers = message.headers()
    return Record(
        feed,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),
        message.value(),
        () if not headers else tuple((h[0], _bytes(h[1])) for h in headers),
    )
