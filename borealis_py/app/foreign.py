"""What must hold of an app's foreign topics before it starts: that they are there, how many inputs they make, and that
what they say about waiting fits the queries that read them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from borealis_py.app.errors import LaunchError
from borealis_py.app.topics import topics_of
from borealis_py.app.waits import check_waits
from borealis_py.ingress.decoders import check_format
from borealis_py.ingress.heartbeat import check_condition
from borealis_py.ingress.sql_times import check_times
from borealis_py.log.base import Log, LogUnreachable
from borealis_py.protocol.settings import Timing
from borealis_py.query.errors import QueryError, nearest
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.query.spec import AppSpec

ClusterLog = Callable[[str | None], Log]
"""The log of a cluster by its name in the configuration; None: the app's own."""
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
            partitions = partitions_of(log_of(ingress.cluster), ingress.topic, sleep)
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


def ask_inputs(spec: AppSpec, log_of: ClusterLog, sleep: Sleep = time.sleep) -> AppSpec:
    """The app with those numbers of inputs that it does not say, for `check` and `explain`: from the topics.

    Raises:
        LaunchError: no broker tells them, or a topic does not exist.
    """
    unknown = {name: ingress for name, ingress in spec.ingresses.items() if not ingress.inputs}
    names = ", ".join(map(repr, unknown))
    try:
        counts = {name: partitions_of(log_of(one.cluster), one.topic, sleep) for name, one in unknown.items()}
    except LogUnreachable as exc:
        raise LaunchError(
            f"app {spec.name!r}: how many inputs {names} make{'s' if len(unknown) == 1 else ''} "
            f"depends on the topic's partitions. Without a broker, say it: partitions=3. ({exc})"
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
        if ingress.stime_sql is not None:
            check_times(spec.sources[name], ingress.stime_sql, f"topic {name!r}")
    check_waits(spec, timing, spec.queries)


def partitions_of(log: Log, topic: str, sleep: Sleep = time.sleep) -> int:
    """How many partitions a topic has; 0: it does not exist. One that was made just now is waited for."""
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
