"""Names and settings of an app's topics (design 2.4). The only place that spells them."""

from __future__ import annotations

from borealis_py.log.base import TopicSpec

ENVELOPE_BYTES_MAX = 900_000
"""A batch over this is split (design 2.4), so that common broker limits hold."""
RECORD_BYTES_MAX = 8_388_608

# Event time is the record timestamp, so Kafka's own time-based retention and rolling must not act on it (platform 4).
EVENT_TIME = (
    ("retention.ms", "-1"),
    ("segment.ms", "1000000000000"),
    ("message.timestamp.type", "CreateTime"),
    ("message.timestamp.after.max.ms", "9223372036854775807"),
    ("max.message.bytes", str(RECORD_BYTES_MAX)),
)
COMPACTED = (("cleanup.policy", "compact"), ("segment.ms", "600000"), ("min.compaction.lag.ms", "600000"))
SHORT = (("retention.ms", "3600000"), ("segment.ms", "600000"))


def stream(app: str, name: str) -> str:
    """A source, or a query's corrected stream."""
    return f"{app}.{name}"


def replica(app: str, name: str, index: int) -> str:
    """What replica `index` says about stream `name`."""
    return f"{app}.{name}.r{index}"


def progress(app: str, name: str) -> str:
    return f"{app}.{name}.progress"


def control(app: str) -> str:
    return f"{app}.control"


def settings(app: str) -> str:
    return f"{app}.settings"


def status(app: str) -> str:
    return f"{app}.status"


def deadletter(app: str) -> str:
    return f"{app}.deadletter"


def of_app(app: str, sources: list[str], queries: dict[str, int]) -> list[TopicSpec]:
    """Every topic of an app; `queries` maps a name to its number of replicas."""
    specs = [TopicSpec(stream(app, s), config=EVENT_TIME) for s in sources]
    for query, replicas in queries.items():
        specs.append(TopicSpec(stream(app, query), config=EVENT_TIME))
        specs += [TopicSpec(replica(app, query, k), config=EVENT_TIME) for k in range(replicas)]
        specs.append(TopicSpec(progress(app, query), config=COMPACTED))
    specs.append(TopicSpec(control(app), partitions=max(1, len(queries)), config=SHORT))
    specs.append(TopicSpec(settings(app), config=COMPACTED))
    specs.append(TopicSpec(status(app), config=SHORT))
    specs.append(
        TopicSpec(deadletter(app), config=(("retention.ms", "-1"), ("max.message.bytes", str(RECORD_BYTES_MAX))))
    )
    return specs
