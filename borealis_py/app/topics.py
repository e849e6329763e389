"""Creates the topics of an app: `up` those of its streams, a driver those of redos. Of those that are trimmed it keeps
segments small."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from functools import cached_property

from borealis_py.app.errors import LaunchError
from borealis_py.app.state import AppState
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, LogUnreachable, Replication, TopicSpec
from borealis_py.log.record_size import MAX_MESSAGE_BYTES, needed_bytes, row_max_that_fits
from borealis_py.query.names import base_name
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
    """Let topics that are trimmed, but were made when they were not, have segments that can be freed (R16.9).

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


class AppTopics:
    """The topics of an app that are there, as the log tells of them when that is needed first.

    Args:
        beside: further topics of this cluster.

    Raises:
        LogUnreachable: no broker.
    """

    def __init__(self, log: Log, spec: AppSpec, beside: Collection[str] = ()) -> None:
        self._log = log
        self._spec = spec
        self._beside = beside

    @property
    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """Of the app's own topics, as far as they may be read."""
        own, of_all, _ = self._asked
        return {name: of_all[name] for name in own if name in of_all}

    @property
    def of_all(self) -> Mapping[str, Mapping[str, str]]:
        """Of those beside, too."""
        return self._asked[1]

    @property
    def replication(self) -> Replication:
        """Of all of them."""
        return self._asked[2]

    @cached_property
    def _asked(self) -> tuple[Collection[str], Mapping[str, Mapping[str, str]], Replication]:
        """The names of its own, then what is there of all of them."""
        with closing(self._log.admin()) as admin:
            there = admin.topics()
            own = _all_topics(there, self._spec)
            names = sorted({*own, *(name for name in self._beside if name in there)})
            return own, admin.settings(names), admin.replication(names)


def accept_all_times(log: Log, spec: AppSpec, known: AppTopics | None = None) -> Mapping[str, str]:
    """Let the app's topics take records of any time, also those that others made, or earlier versions.

    Args:
        known: its topics, if they have been asked for already.

    Returns:
        The topics that may refuse records for their time, and why they keep their settings, in words.

    Raises:
        LogUnreachable: no broker.
    """
    own = {topic.name: dict(topic.config) for topic in (*topics_of(spec), *redo_topics_of(spec))}
    changed: dict[str, dict[str, str]] = {}
    for name, found in (known or AppTopics(log, spec)).settings.items():
        wanted = {one: own.get(name, {}).get(one, value) for one, value in topics.ANY_TIME}
        other = {one: value for one, value in wanted.items() if one in found and found[one] != value}
        if other:
            changed[name] = other
    if not changed:
        return {}
    with closing(log.admin()) as admin:
        return admin.set(changed)


def _all_topics(there: Collection[str], spec: AppSpec) -> list[str]:
    """The app's topics that are there: of its streams, of redos, of checkpoints."""
    own = {topic.name for topic in (*topics_of(spec), *redo_topics_of(spec))}
    return sorted(name for name in there if name in own or topics.keeper_of(spec.name, name) is not None)


def refuse_small_topics(log: Log, spec: AppSpec, row_max_bytes: int, known: AppTopics | None = None) -> None:
    """Check that the app's topics that are there, by their own settings or their cluster's, take a row of `row_max`.

    Args:
        known: its topics, if they have been asked for already.

    Raises:
        LaunchError: one does not; the message says what to set. LogUnreachable: no broker.
    """
    columns = _columns(spec)
    needed, rows = needed_bytes(row_max_bytes, columns), set(_with_rows(spec))
    found = (known or AppTopics(log, spec)).settings
    sizes = {name: int(some[MAX_MESSAGE_BYTES]) for name, some in found.items() if some.get(MAX_MESSAGE_BYTES)}
    least = {name: needed if name in rows else needed_bytes(0, 1) for name in sizes}
    small = {name: size for name, size in sorted(sizes.items()) if size < least[name]}
    if not small:
        return
    lines = [f"  topic {name}: {MAX_MESSAGE_BYTES} is {size}, {least[name]} are needed" for name, size in small.items()]
    fits = row_max_that_fits(min(small.values()), columns)
    lower = "" if fits is None else f", or set `timing: row_max` to {fits} or less (only with `--reset`)"
    raise LaunchError(
        f"app {spec.name!r}: topics take smaller records than it writes, with rows of up to row_max, {row_max_bytes} "
        "bytes:\n"
        + "\n".join(lines)
        + f"\nSet {MAX_MESSAGE_BYTES} of these to {topics.RECORD_BYTES_MAX}, as in `kafka-configs --alter --topic "
        f"{next(iter(small))} --add-config {MAX_MESSAGE_BYTES}={topics.RECORD_BYTES_MAX}`{lower}"
    )


def _with_rows(spec: AppSpec) -> Iterator[str]:
    """The topics with rows."""
    runs = physical(spec)
    yield from (topics.stream(spec.name, base_name(name)) for name in (*runs.sources, *runs.queries))
    for name, node in runs.all_nodes.items():
        yield from (topics.replica(spec.name, name, k) for k in range(node.replicas))


def _columns(spec: AppSpec) -> int:
    """The most columns of a source; results rarely have so many more that it shows."""
    return max((len(columns) for columns in spec.sources.values()), default=1)


def redo_topics_of(spec: AppSpec) -> list[TopicSpec]:
    """The topics between tasks and drivers, created by a driver that starts."""
    return topics.of_redos(spec.name, {name: node.replicas for name, node in physical(spec).all_nodes.items()})
