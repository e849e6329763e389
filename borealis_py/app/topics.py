"""Creates the topics of an app: `up` those of its streams, a driver those of redos. Of those that are trimmed it keeps
segments small."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing

from borealis_py.app.state import AppState
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, LogUnreachable, TopicSpec
from borealis_py.query.partitions import physical
from borealis_py.query.spec import AppSpec, count_of

LOOK_S = 0.1
SERVED_TIMEOUT_S = 15.0


def create_topics(log: Log, specs: list[TopicSpec]) -> None:
    """Create topics, and wait until each partition is served: a newly elected leader may not know it yet."""
    deadline = time.monotonic() + SERVED_TIMEOUT_S
    with closing(log.admin()) as admin, closing(log.lookup()) as lookup:
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


def topics_of(spec: AppSpec) -> list[TopicSpec]:
    """Every topic of the app."""
    runs = physical(spec)
    queries, nodes = ({name: n.replicas for name, n in kind.items()} for kind in (runs.queries, runs.nodes))
    exchanges = {name: count_of(n.exchange) for name, n in runs.nodes.items()}
    trimmed = [name for name in (*runs.sources, *runs.all_nodes) if runs.keeps(name) is not None]
    return topics.of_app(spec.name, list(runs.sources), queries, nodes, exchanges, trimmed)


def fit_segments(log: Log, state: AppState) -> Mapping[str, str]:
    """Let topics that are trimmed, but were made when they were not, have segments that can be freed (R16).

    Returns:
        The topics whose segments stay larger, and why, in words. Trimming goes on, but frees the disk late.
    """
    spec = state.spec
    kept = {name: state.keeps(name) for name in (*spec.sources, *spec.all_nodes)}
    made = topics_of(spec.model_copy(update={"retain": kept}))
    most_bytes = {t.name: int(size) for t in made if (size := dict(t.config).get(topics.SEGMENT_BYTES)) is not None}
    if not most_bytes:
        return {}
    try:
        with closing(log.admin()) as admin:
            return admin.limit_segments(most_bytes)
    except LogError as exc:
        return dict.fromkeys(most_bytes, str(exc))


def redo_topics_of(spec: AppSpec) -> list[TopicSpec]:
    """The topics between tasks and drivers, created by a driver that starts."""
    return topics.of_redos(spec.name, {name: node.replicas for name, node in physical(spec).all_nodes.items()})
