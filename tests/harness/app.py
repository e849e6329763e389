"""The drills' query as an app of the product; `network` has it as plain functions."""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.query import App, Stream
from tests.harness.foreign import EXPECT, LATENESS, topic_of
from tests.harness.network import BUCKET_US, FOREIGN, NODE, NODE_BY, QUERY, QUERY_BY, SOURCES, WINDOW_US

REPLICAS = 2
USABLE = "v IS NOT NULL AND abs(CAST(v AS INTEGER)) >= 0 AND sqrt(v) >= 0 AND NOT json_valid(origin)"
"""True of every row with a `v` that a feeder makes; each of the last three fails on a kind of poison. Of a bare cast
that is compared with a constant the optimiser would make a cast of the constant, which fails on nothing."""


def drill_app(
    name: str,
    chain: bool,
    threshold: str,
    replicas: int = REPLICAS,
    partitions: int | None = None,
    sources: Sequence[str] = SOURCES,
    retain: str = "all",
    recovery: Sequence[str] = ("active",),
) -> App:
    """Sums of three sources, in one node or in two, each of these in partitions or not. An input `c.0` among `sources`
    is a foreign topic. Of the replicas' streams, `retain` is kept. `recovery`: way of each node, the query's last.
    """
    app = App(name, bucket=f"{BUCKET_US // 1000}ms", retain=retain)
    schema = {"origin": "string", "k": "int64", "v": "int64"}

    def source(name_: str) -> Stream:
        if name_ != FOREIGN:
            return app.source(name_, schema=schema)
        of = name_.partition(".")[0]
        topic = topic_of(name, name_)
        return app.topic(of, topic, schema, lateness=LATENESS, expect=EXPECT, start="earliest", partitions=1)

    cleaned = app.union(*map(source, sources)).filter(USABLE)
    if chain:
        by_key = NODE_BY if partitions else None
        cleaned = cleaned.node(NODE, replicas, partitions, by_key, recovery=recovery[0])
    sums = cleaned.window(f"{WINDOW_US // 1000}ms").group_by("origin", "k")
    aggregates = sums.agg(n="count(*)", total="sum(v)", latest="last(v)")
    by = QUERY_BY if partitions else None
    app.query(
        QUERY,
        aggregates,
        delay_threshold=threshold,
        replicas=replicas,
        partitions=partitions,
        by=by,
        recovery=recovery[-1],
        guarantee="gap" if recovery[-1] == "amnesia" else None,
    )
    return app
