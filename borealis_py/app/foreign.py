"""What must hold of an app's foreign topics before it starts: that they are there, how many inputs they make, and that
what they say about waiting fits the queries that read them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing

from borealis_py.app.errors import LaunchError
from borealis_py.app.topics import topics_of
from borealis_py.ingress.decoders import check_format, decoder_for
from borealis_py.ingress.first_stime import TimesMisread, first_stime
from borealis_py.ingress.heartbeat import check_condition
from borealis_py.log.base import Log, LogUnreachable
from borealis_py.log.schema_registry import SchemaRegistry
from borealis_py.protocol.settings import Timing, budget
from borealis_py.query.errors import QueryError, nearest
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.query.spec import AppSpec
from borealis_py.query.units import format_duration

ClusterLog = Callable[[str | None], Log]
"""The log of a cluster by its name in the configuration; None: the app's own."""
ClusterRegistry = Callable[[str | None], SchemaRegistry]
"""The schema registry of a cluster, likewise."""
LOOKS, LOOK_S = 50, 0.1
"""How often a topic is asked for, and the pause between, before it counts as absent: a program that was started just
now may be about to create it, and a broker may not know yet of one that was."""
Sleep = Callable[[float], None]


def with_inputs(
    spec: AppSpec, log_of: ClusterLog, before: AppSpec | None, sleep: Sleep = time.sleep
) -> tuple[AppSpec, list[str]]:
    """The app with the number of inputs of each ingress: that of its description, else what the topic has.

    Args:
        before: the app as described on the broker; None: it is not there.

    Returns:
        The app, and what people should know: topics that are gone, or cannot be reached now. A running app goes on
        without them, a new one does not begin.

    Raises:
        LaunchError: a topic does not exist, or has another number of partitions than the app's file says.
        LogUnreachable: a cluster that must be asked does not answer.
    """
    counts: dict[str, int] = {}
    told: list[str] = []
    for name, ingress in spec.ingresses.items():
        old = None if before is None else before.ingresses.get(name)
        known = old is not None and old.determining() == ingress.determining()
        if old is not None and known and not ingress.inputs:
            counts[name] = old.inputs
        try:
            partitions = _partitions(log_of(ingress.cluster), ingress.topic, sleep)
        except LogUnreachable as exc:
            if not known:
                raise
            told.append(f"topic {ingress.topic} cannot be read now, so source {name} is missing until it can: {exc}")
            continue
        if partitions:
            if not known:
                _refuse_other_number(name, ingress, partitions)
                counts[name] = partitions
        elif known:
            told.append(f"topic {ingress.topic} does not exist, so source {name} is missing until it does")
        else:
            where = f"cluster {ingress.cluster}" if ingress.cluster else "the app's own cluster"
            raise LaunchError(
                f"app {spec.name!r}: source {name!r} reads topic {ingress.topic!r}, which does not exist in {where}"
                f"{_others(log_of(ingress.cluster), ingress.topic)} Create it, or correct topic= or cluster= in the "
                "app's file"
            )
    return spec.with_partitions(counts), told


def earliest_foreign_us(spec: AppSpec, log_of: ClusterLog, timing: Timing, registry_of: ClusterRegistry) -> int | None:
    """The time of the first row in those topics that are read from their beginning; None: there is none.

    Raises:
        LogError: one of them cannot be read.
        LaunchError: the times of one are in another unit than it is said to have.
    """
    firsts = []
    for name, ingress in spec.ingresses.items():
        if ingress.start == "earliest":
            log = log_of(ingress.cluster)
            with ExitStack() as stack:
                lookup = stack.enter_context(closing(log.lookup()))
                registry = None
                if ingress.needs_registry:
                    registry = stack.enter_context(closing(registry_of(ingress.cluster)))
                decoder = decoder_for(name, ingress, spec.sources[name], timing.row_max_bytes, registry=registry)
                partitions = _partitions(log, ingress.topic, time.sleep)
                try:
                    firsts.append(first_stime(lookup, ingress.topic, partitions, decoder))
                except TimesMisread as exc:
                    raise LaunchError(
                        f"app {spec.name!r}: source {name!r}: {exc}, or begin at start='latest'"
                    ) from None
    return min((first for first in firsts if first is not None), default=None)


def ask_inputs(spec: AppSpec, log_of: ClusterLog, sleep: Sleep = time.sleep) -> AppSpec:
    """The app with those numbers of inputs that it does not say, for `check` and `explain`: from the topics.

    Raises:
        LaunchError: no broker tells them, or a topic does not exist.
    """
    unknown = {name: ingress for name, ingress in spec.ingresses.items() if not ingress.inputs}
    try:
        counts = {name: _partitions(log_of(one.cluster), one.topic, sleep) for name, one in unknown.items()}
    except LogUnreachable as exc:
        raise LaunchError(
            f"app {spec.name!r}: how many inputs {_names(unknown)} make{'s' if len(unknown) == 1 else ''} depends on "
            f"the topic's partitions. Without a broker, say it: partitions=3. ({exc})"
        ) from exc
    for name, count in counts.items():
        if not count:
            topic, log = unknown[name].topic, log_of(unknown[name].cluster)
            raise LaunchError(
                f"app {spec.name!r}: topic {topic!r} of source {name!r} does not exist{_others(log, topic)}"
            )
    return spec.with_partitions(counts)


def check_foreign(spec: AppSpec, timing: Timing) -> None:
    """Check what foreign topics say about their format, waiting, silence and heartbeats.

    Raises:
        QueryError: a query could not use them: it names both numbers; or their records could not be read.
    """
    own = {topic.name.replace("_", ".") for topic in topics_of(spec)}
    for name, ingress in spec.ingresses.items():
        if ingress.cluster is None and ingress.topic.replace("_", ".") in own:
            raise QueryError(
                f"topic {name!r}: {ingress.topic!r} is the name of one of the app's own topics; give the app another "
                "name, or read another topic"
            )
        check_format(name, ingress, spec.sources[name])
        if ingress.heartbeat is not None:
            check_condition(spec.sources[name], ingress.heartbeat, f"topic {name!r}")
    check_waits(spec, timing, spec.queries)


def check_waits(spec: AppSpec, timing: Timing, queries: Iterable[str]) -> None:
    """Check that these queries wait longer than the silences and the differences in lateness of what they read.

    Raises:
        QueryError: one does not; it names both numbers.
    """
    for query in queries:
        read = _read_by(spec, query)
        if read:
            _check_waits(query, read, _wait_us(spec, query, timing))


def remarks(spec: AppSpec, timing: Timing) -> list[str]:
    """What a user should know: queries whose inputs never count as missing, as long as Kafka answers; and topics that
    would be waited for only if publishers of other sources had a lateness, which no app's file says."""
    found = []
    for query in spec.queries:
        read, wait_us = _read_by(spec, query), _wait_us(spec, query, timing)
        published = [name for name in spec.sources_of(query) if name not in read]
        late = [name for name, one in read.items() if published and one.lateness_us > wait_us]
        if late:
            most = max(late, key=lambda name: read[name].lateness_us)
            over = format_duration(read[most].lateness_us - wait_us)
            found.append(
                f"query {query!r}: source {most!r} has lateness {format_duration(read[most].lateness_us)}, and the "
                f"query waits {format_duration(wait_us)} for an input: unless publishers of {_names(published)} have "
                f"a lateness of {over} at least, all its results are tentative at first"
            )
        blind = [name for name, i in read.items() if i.boundary == "clock" and i.expect_us is None]
        if blind and len(blind) == len(spec.sources_of(query)):
            wait = format_duration(wait_us)
            found.append(
                f"query {query!r}: no input of it can be missing unless a broker cannot be read: silence of "
                f"{_names(blind)} means that nothing happened. With expect=, less than {wait}, an input that is silent "
                "for as long is missing, so that its results are tentative until it is heard again"
            )
    return found


def _partitions(log: Log, topic: str, sleep: Sleep) -> int:
    with closing(log.admin()) as admin:
        for _ in range(LOOKS - 1):
            if found := admin.partitions(topic):
                return found
            sleep(LOOK_S)
        return admin.partitions(topic)


def _others(log: Log, topic: str) -> str:
    """The end of a sentence that a topic does not exist: the nearest of its cluster."""
    with closing(log.admin()) as admin:
        said = nearest(topic, admin.topics(), "topics there")
    return said if said.endswith("?") else f"{said}."


def _refuse_other_number(name: str, ingress: IngressSpec, partitions: int) -> None:
    if ingress.inputs and ingress.with_partitions(partitions).inputs != ingress.inputs:
        raise LaunchError(
            f"source {name!r}: topic {ingress.topic!r} has {partitions} partitions, the app's file says "
            f"partitions={ingress.inputs}. Correct it, or leave it out"
        )


def _read_by(spec: AppSpec, query: str) -> dict[str, IngressSpec]:
    return {name: spec.ingresses[name] for name in spec.sources_of(query) if name in spec.ingresses}


def _wait_us(spec: AppSpec, query: str, timing: Timing) -> int:
    """How long the first node of a query waits for an input (D)."""
    depth = spec.position(query)
    return budget(timing, spec.query(query).threshold_us, depth - 1, depth)


def _check_waits(query: str, read: Mapping[str, IngressSpec], wait_us: int) -> None:
    wait = format_duration(wait_us)
    for name, ingress in read.items():
        if ingress.expect_us is not None and ingress.expect_us >= wait_us:
            raise QueryError(
                f"query {query!r}: source {name!r} has expect {format_duration(ingress.expect_us)}, but the query "
                f"waits {wait} for an input: its results would never be in time. Choose an expect below {wait}, or "
                "raise the query's delay_threshold"
            )
    least, most = (pick(read, key=lambda name: read[name].lateness_us) for pick in (min, max))
    if read[most].lateness_us - read[least].lateness_us > wait_us:
        ours, theirs = (format_duration(read[name].lateness_us) for name in (most, least))
        raise QueryError(
            f"query {query!r}: source {most!r} has lateness {ours}, source {least!r} {theirs}, and the query waits "
            f"{wait} for an input: it would never wait for {most!r}. Bring the latenesses closer together, or raise "
            "the query's delay_threshold"
        )


def _names(names: Mapping[str, object] | list[str]) -> str:
    return ", ".join(map(repr, names))
