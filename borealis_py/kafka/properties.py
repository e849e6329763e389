"""What users may not set of librdkafka: what the guarantees rest on. All names, also those that mean the same.

A property of these that were taken and ignored would let somebody believe in it; one that were obeyed would lose rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from borealis_py.log.base import LogError

_GAPLESS = "after a record that the log did not take, none may follow: readers take a stream for whole (B2)"
_TAKEN = "what is sent must be told taken or refused, and be repeated until it is: a row would be lost without a word"
_ORDER = "a repeated request must neither double nor reorder records"
_FENCE = "all replicas of a node write under one name, so that one fences the other: rows would come twice"
_COMMITTED = "what is read must be committed, and read from where this program says: it would use rows that are no more"
_TOPICS = "topics are made by `borealis up`, with settings that keep records by offset and not by their event time"
_BROKER = "where the broker is stands in `bootstrap:`, --bootstrap or BOREALIS_BOOTSTRAP, for all parts alike"

RESERVED: Mapping[str, str] = MappingProxyType(
    {
        "enable.gapless.guarantee": _GAPLESS,
        "message.timeout.ms": _GAPLESS,
        "delivery.timeout.ms": _GAPLESS,
        "enable.idempotence": _ORDER,
        "max.in.flight": _ORDER,
        "max.in.flight.requests.per.connection": _ORDER,
        "queuing.strategy": _ORDER,
        "acks": _TAKEN,
        "request.required.acks": _TAKEN,
        "retries": _TAKEN,
        "message.send.max.retries": _TAKEN,
        "delivery.report.only.error": _TAKEN,
        "transactional.id": _FENCE,
        "group.id": _COMMITTED,
        "group.instance.id": _COMMITTED,
        "isolation.level": _COMMITTED,
        "auto.offset.reset": _COMMITTED,
        "enable.auto.commit": _COMMITTED,
        "auto.commit.enable": _COMMITTED,
        "enable.auto.offset.store": _COMMITTED,
        "enable.partition.eof": _COMMITTED,
        "allow.auto.create.topics": _TOPICS,
        "bootstrap.servers": _BROKER,
        "metadata.broker.list": _BROKER,
    }
)
"""Property -> why it is not the user's."""


class ReservedProperty(LogError):
    """A property that may not be set. The message names it and says why."""


def refuse_reserved(properties: Mapping[str, str]) -> None:
    """Raises ReservedProperty."""
    found = [f"{name} ({RESERVED[name]})" for name in sorted(properties) if name in RESERVED]
    if found:
        raise ReservedProperty(
            f"`kafka:` may not set {'; '.join(found)}. Remove it from borealis.yaml, or from kafka={{}}"
        )
