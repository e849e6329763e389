"""Creates the topics of an app: `up` those of its streams, a driver those of redos."""

from __future__ import annotations

import time

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, LogUnreachable, TopicSpec
from borealis_py.query.partitions import physical
from borealis_py.query.spec import AppSpec, count_of

LOOK_S = 0.1
SERVED_TIMEOUT_S = 15.0


def create_topics(log: Log, specs: list[TopicSpec]) -> None:
    """Create topics, and wait until each partition is served: a newly elected leader may not know it yet."""
    admin, lookup = log.admin(), log.lookup()
    deadline = time.monotonic() + SERVED_TIMEOUT_S
    try:
        admin.create(specs)
        waiting = [Feed(spec.name, partition) for spec in specs for partition in range(spec.partitions)]
        while waiting:
            try:
                lookup.bounds(waiting[-1])
                waiting.pop()
            except LogUnreachable:
                raise
            except LogError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_S)
    finally:
        lookup.close()
        admin.close()


def topics_of(spec: AppSpec) -> list[TopicSpec]:
    """Every topic of the app."""
    runs = physical(spec)
    queries, nodes = ({name: n.replicas for name, n in kind.items()} for kind in (runs.queries, runs.nodes))
    exchanges = {name: count_of(n.exchange) for name, n in runs.nodes.items()}
    trimmed = [name for name in (*runs.sources, *runs.all_nodes) if runs.retain_us(name) is not None]
    return topics.of_app(spec.name, list(runs.sources), queries, nodes, exchanges, trimmed)


def redo_topics_of(spec: AppSpec) -> list[TopicSpec]:
    """The topics between tasks and drivers, created by a driver that starts."""
    return topics.of_redos(spec.name, {name: node.replicas for name, node in physical(spec).all_nodes.items()})
