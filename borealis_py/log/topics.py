"""Names and settings of an app's topics. The only place that spells them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType

from borealis_py.log.base import Feed, TopicSpec
from borealis_py.query.names import base_name, part_index
from sunion.model import Input

ENVELOPE_BYTES_MAX = 900_000
"""Larger batches are split, to stay below common broker limits."""
RECORD_BYTES_MAX = 8_388_608

_ANY = "9223372036854775807"
ANY_TIME = (
    ("message.timestamp.type", "CreateTime"),
    ("message.timestamp.before.max.ms", _ANY),
    ("message.timestamp.after.max.ms", _ANY),
)
"""Records of any time are taken: of rows of any stime, and of writers whose clock is not the broker's. Kafka would
refuse what lies an hour ahead of the broker's clock, and with one refusal the writer's whole producer."""
TAKES_ALL = (*ANY_TIME, ("max.message.bytes", str(RECORD_BYTES_MAX)))
"""What all topics of an app have: no record is refused for its time, and none of a size that ours may have."""
BROKERS_TIME = (*TAKES_ALL, ("message.timestamp.type", "LogAppendTime"))
"""The same of topics whose records get the broker's time: by it writers learn by how much their own clock differs."""
# Event time is the record timestamp, so Kafka's own time-based retention and rolling must not act on it.
EVENT_TIME = (("retention.ms", "-1"), ("segment.ms", "1000000000000"), *TAKES_ALL)
COMPACTED = (("cleanup.policy", "compact"), ("segment.ms", "600000"), ("min.compaction.lag.ms", "600000"), *TAKES_ALL)
SEGMENT_BYTES = "segment.bytes"
MIN_INSYNC, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
SOURCE_SEGMENT, STREAM_SEGMENT = ((SEGMENT_BYTES, "67108864"),), ((SEGMENT_BYTES, "16777216"),)
"""Of topics that are trimmed: only whole segments are freed, and these roll by size."""
KEPT_FILES = (
    ("cleanup.policy", "compact"),
    ("segment.bytes", "16777216"),
    ("segment.ms", "60000"),
    ("min.cleanable.dirty.ratio", "0.1"),
    ("delete.retention.ms", "60000"),
    *TAKES_ALL,
)
"""Checkpoints are replaced all the time, and read whole by the next start: what was replaced is to go soon."""
SHORT = (("retention.ms", "3600000"), ("segment.ms", "600000"), *TAKES_ALL)
RPC = (("retention.ms", "600000"), ("segment.ms", "60000"), *TAKES_ALL)
"""Messages about redos are useless after seconds, and may be large: they carry states."""


def stream(app: str, name: str) -> str:
    """A source, or a query's corrected stream."""
    return f"{app}.{name}"


def source(app: str, name: str) -> Feed:
    """A source, or one partition of it."""
    return Feed(stream(app, base_name(name)), part_index(name))


def corrected(app: str, query: str) -> Feed:
    """The corrected stream of a query, or of one partition of it."""
    return Feed(stream(app, base_name(query)), part_index(query))


def replica(app: str, name: str, index: int) -> str:
    """The topic of replica `index` of stream `name`."""
    return f"{app}.{name}.r{index}"


def input_feeds(app: str, of: Input) -> tuple[Feed, ...]:
    """The topics from which a node reads one input: a source's, or one per replica of a stream."""
    if not of.replicas:
        return (source(app, of.name),)
    return tuple(Feed(replica(app, of.name, k), of.partition) for k in range(of.replicas))


def own_feeds(app: str, name: str, index: int, partitions: int) -> tuple[Feed, ...]:
    """The partitions that replica `index` of a node writes: one for each partition of its readers."""
    return tuple(Feed(replica(app, name, index), p) for p in range(partitions))


def kept_files(app: str, directory: str) -> str:
    """The topic of a directory of checkpoints, `<node>.r<k>`, or of ends of audits, `<query>.audit`."""
    return f"{app}.{directory}.files"


def keeper_of(app: str, topic: str) -> str | None:
    """The directory that a topic of `kept_files` is for; None: it is not one, or another app's."""
    found = re.fullmatch(rf"{re.escape(app)}\.([^.]+(?:\.\d+)?\.(?:r\d+|audit))\.files", topic)
    return None if found is None else found[1]


def redo(app: str, name: str, index: int) -> str:
    """The topic by which replica `index` of a node, running as a Spark task, and its driver exchange redo messages."""
    return f"{app}.{name}.r{index}.redo"


def redo_feeds(app: str, name: str, index: int) -> tuple[Feed, Feed]:
    """Partitions for the task's requests and the driver's replies, so that neither reads its own messages."""
    topic = redo(app, name, index)
    return Feed(topic, 0), Feed(topic, 1)


def progress(app: str, name: str) -> str:
    return f"{app}.{name}.progress"


def control(app: str) -> str:
    return f"{app}.control"


def settings(app: str) -> str:
    return f"{app}.settings"


def transactional_id(app: str, node: str) -> str:
    """The same for all replicas of a node and all lives of the app: whoever takes it fences the others."""
    return f"{app}.{node}"


def status(app: str) -> str:
    return f"{app}.status"


def acks(app: str) -> str:
    """What replicas may still read, compacted."""
    return f"{app}.acks"


def deadletter(app: str) -> str:
    return f"{app}.deadletter"


def of_redos(app: str, replicas: Mapping[str, int]) -> list[TopicSpec]:
    """Topics between tasks and drivers, for the Spark host only. `replicas`: number per node and query."""
    return [TopicSpec(redo(app, n, k), 2, RPC) for n, count in replicas.items() for k in range(count)]


_NONE: Mapping[str, int] = MappingProxyType({})


def of_app(
    app: str,
    sources: list[str],
    queries: dict[str, int],
    nodes: Mapping[str, int] = _NONE,
    exchanges: Mapping[str, int] = _NONE,
    trimmed: Collection[str] = (),
) -> list[TopicSpec]:
    """Every topic of an app as it runs, with each partition of a partitioned node as a node.

    Args:
        queries: name to number of replicas. nodes: likewise, for nodes that are not queries and have no corrected
            stream. exchanges: number of partitions that a node writes if its readers are all partitioned alike.
        trimmed: sources and nodes that are not kept whole, by name as they run.
    """
    parts = Counter(base_name(name) for name in (*sources, *queries))
    small = {base_name(name) for name in trimmed} & {base_name(name) for name in sources}
    specs = [
        TopicSpec(stream(app, name), count, EVENT_TIME + (SOURCE_SEGMENT if name in small else ()))
        for name, count in parts.items()
    ]
    for node, replicas in {**nodes, **queries}.items():
        count = exchanges.get(node, 1)
        config = EVENT_TIME + (STREAM_SEGMENT if node in trimmed else ())
        specs += [TopicSpec(replica(app, node, k), count, config) for k in range(replicas)]
        specs.append(TopicSpec(progress(app, node), config=COMPACTED))
    specs.append(TopicSpec(control(app), partitions=max(1, len(nodes) + len(queries)), config=SHORT))
    specs.append(TopicSpec(settings(app), config=COMPACTED))
    specs.append(TopicSpec(acks(app), config=COMPACTED))
    specs.append(TopicSpec(status(app), config=SHORT + BROKERS_TIME))
    specs.append(TopicSpec(deadletter(app), config=(("retention.ms", "-1"), *TAKES_ALL)))
    return specs
