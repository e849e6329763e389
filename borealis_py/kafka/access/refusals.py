"""Why a broker lets nobody in: it refuses the credentials, or speaks no TLS.

librdkafka lets calls time out then, as if there were no broker. It gives the cause to the error callback of a client
alone, and that is called only while the client is polled.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from enum import Enum

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

log = logging.getLogger(__package__)

RECENT_S = 60.0
"""For how long a cause counts: while it lasts it is given again with each attempt to connect."""


class _Cause(Enum):
    CREDENTIALS = "the broker refuses the credentials"
    TLS = "the TLS handshake fails"


_lock = threading.Lock()
_heard: dict[tuple[str, _Cause], tuple[float, str]] = {}
"""By address and cause: when the client library gave it last, and its words."""


def note(bootstrap: str, error: KafkaError) -> None:
    """Take an error of a client of these brokers. A cause that lasts is logged once."""
    cause = _cause(error)
    if cause is None:
        log.debug("kafka client: %s", error)
        return
    now = time.monotonic()
    with _lock:
        before, _heard[bootstrap, cause] = _heard.get((bootstrap, cause)), (now, error.str())
    if before is None or now - before[0] > RECENT_S:
        log.warning("%s", _said(bootstrap, cause, error.str()))


def refusal(bootstrap: str) -> str | None:
    """The newest cause, in words for people; None: these brokers have refused nobody of late."""
    with _lock:
        found = [(*heard, cause) for (at, cause), heard in _heard.items() if at == bootstrap]
    if not found:
        return None
    when, words, cause = max(found, key=lambda one: one[0])
    return _said(bootstrap, cause, words) if time.monotonic() - when < RECENT_S else None


def listen(client: AdminClient | Consumer) -> None:
    """Let a client that nobody polls call its error callback. A consumer must have no partitions: a record would be
    lost.
    """
    with suppress(KafkaException, RuntimeError):  # the latter: it was closed meanwhile
        client.poll(0)


def _cause(error: KafkaError) -> _Cause | None:
    if error.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
        return _Cause.CREDENTIALS
    # A listener without TLS hangs up, which the code calls a lost connection.
    if error.code() == KafkaError._SSL or "SSL_HANDSHAKE" in error.str():
        return _Cause.TLS
    return None


def _said(bootstrap: str, cause: _Cause, words: str) -> str:
    return f"no access to Kafka at {bootstrap}: {cause.value} ({words}). Check `kafka:` in borealis.yaml."
