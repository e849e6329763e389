"""librdkafka properties that users may not set, because the guarantees rest on them; with all aliases.

Silently ignoring such a property would mislead the user; obeying it would lose rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from borealis_py.log.base import LogError

_GAPLESS = "no record may follow one that the log refused: readers rely on streams without holes (B2)"
_TAKEN = "every send must be retried until it is acknowledged or refused: rows would be lost silently"
_ORDER = "a repeated request must neither double nor reorder records"
_FENCE = "all replicas of a node share one transactional id, so that one fences the other: rows would be duplicated"
_COMMITTED = "reads must be of committed records, from the offsets this program chooses: it would use aborted rows"
_TOPICS = "`borealis up` creates topics, with settings that keep records by offset and not by event time"
_BROKER = "the broker's address is set by `bootstrap:`, --bootstrap or BOREALIS_BOOTSTRAP, for all parts alike"

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
"""Property -> why users may not set it."""


class ReservedProperty(LogError):
    """A property that may not be set. The message names it and says why."""


def refuse_reserved(properties: Mapping[str, str]) -> None:
    """Raises ReservedProperty."""
    found = [f"{name} ({RESERVED[name]})" for name in sorted(properties) if name in RESERVED]
    if found:
        raise ReservedProperty(
            f"`kafka:` may not set {'; '.join(found)}. Remove it from borealis.yaml, or from kafka={{}}"
        )
