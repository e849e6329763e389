"""The apps that `make bench NAME=ingress` measures, and the foreign topics that they read. Pure but for `create`."""

from __future__ import annotations

from typing import Any, Literal

from borealis_py import App, Avro
from borealis_py.bench import events
from borealis_py.bench.stage import Stage
from borealis_py.log.base import TopicSpec

Form = Literal["json", "avro"]
Way = Literal["ours", "plain"]
"""Where a query's rows come from: a source that our publisher writes, or a topic that a plain producer writes."""
PLAIN = "plain"
NUMBERED = {"n": "int64", "feed": "string"}
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": name, "type": {"int64": "long"}.get(kind, kind)} for name, kind in events.SCHEMA.items()],
}
"""Schema of the events."""
APPENDED = (("message.timestamp.type", "LogAppendTime"),)
"""The broker says when a record came, so that none is late although lateness is 0."""


def create(stage: Stage, *names: str, appended: bool = False) -> None:
    """Make topics of one partition. `appended`: the broker sets the records' timestamps."""
    admin = stage.log.admin()
    try:
        admin.create([TopicSpec(name, config=APPENDED if appended else ()) for name in names])
    finally:
        admin.close()


def one_way(way: Way, name: str, topic: str) -> App:
    """Count and sum per customer and second, of a source `s0` or of a topic."""
    built = App(name, bucket="100ms")
    rows = (
        built.source("s0", schema=events.SCHEMA)
        if way == "ours"
        else built.topic("t0", topic=topic, schema=events.SCHEMA, lateness="0s", start="earliest", partitions=1)
    )
    built.query(way, rows.window("1s").group_by("customer").agg(n="count(*)", total="sum(amount)"))
    return built


def copy(name: str, topic: str, form: Form) -> App:
    """Reads a topic of events in either format; the measurement is of its ingress alone."""
    built = App(name, bucket="100ms")
    read = built.topic(
        "t0",
        topic=topic,
        schema=events.SCHEMA,
        format=Avro(AVRO) if form == "avro" else form,
        stime="at",
        lateness="0s",
        start="earliest",
        partitions=1,
    )
    built.query(PLAIN, read.filter("amount >= 0"), replicas=1)
    return built


def union(name: str, topics: list[str]) -> App:
    """Count and sum per customer and second over several topics."""
    built = App(name, bucket="100ms")
    streams = [
        built.topic(
            f"t{i}", topic=topic, schema=events.SCHEMA, stime="at", lateness="0s", start="earliest", partitions=1
        )
        for i, topic in enumerate(topics)
    ]
    result = built.union(*streams).window("1s").group_by("customer").agg(n="count(*)", total="sum(amount)")
    built.query(PLAIN, result)
    return built


def numbered(name: str, topic: str) -> App:
    """A result for each row of a topic, X = 3 s."""
    built = App(name, bucket="100ms")
    rows = built.topic("t0", topic=topic, schema=NUMBERED, lateness="0s", start="earliest", partitions=1)
    built.query(PLAIN, rows.filter("feed IS NOT NULL"), delay_threshold="3s")
    return built
