"""What commands do about an app's foreign topics before anything starts: ask how many inputs they have, and tell."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from borealis_py.cli.shared.console import print_table, say

if TYPE_CHECKING:
    from borealis_py.app.beginning import ClusterRegistry
    from borealis_py.app.foreign import ClusterLog
    from borealis_py.cli.shared.context import Context
    from borealis_py.config.config import Config
    from borealis_py.protocol.settings import Timing
    from borealis_py.query.ingress_spec import IngressSpec
    from borealis_py.query.spec import AppSpec, Beginning

SAMPLE_RECORDS = 1_000
"""So many of a topic's newest records are looked at for columns that none of them has."""


def with_asked_inputs(spec: AppSpec, config: Config) -> AppSpec:
    """The app with all its inputs, for commands that otherwise need no broker. Raises LaunchError, ConfigError."""
    if all(ingress.inputs for ingress in spec.ingresses.values()):
        return spec
    from borealis_py.app.foreign import ask_inputs
    from borealis_py.config.kafka import cluster_of, log_of

    return ask_inputs(spec, partial(cluster_of, config, log_of(config)))


def with_described_inputs(spec: AppSpec, context: Context, anew: bool) -> AppSpec:
    """The app with the inputs that its description has, else its topics; says which topics are gone.

    Args:
        anew: it is begun anew, so that its description does not count.

    Raises:
        LaunchError, ConfigError, LogUnreachable: see `app.foreign.with_inputs`.
    """
    if not spec.ingresses:
        return spec
    context.check_broker()
    from borealis_py.app.foreign import with_inputs
    from borealis_py.app.launch import described
    from borealis_py.config.kafka import cluster_of

    before = None if anew else described(context.log, spec.name)
    found, told = with_inputs(
        spec, partial(cluster_of, context.config, context.log), None if before is None else before.spec
    )
    for line in told:
        say(line, "yellow")
    return found


def first_foreign_us(spec: AppSpec, context: Context, timing: Timing) -> int | None:
    """The time of the first row in topics that are read from their beginning.

    Raises:
        LogError, ConfigError, RegistryUnusable: they cannot be read.
    """
    if not spec.ingresses:
        return None
    from borealis_py.app.beginning import earliest_foreign_us

    return earliest_foreign_us(spec, *_clusters(context, timing))


def foreign_beginnings(spec: AppSpec, context: Context, timing: Timing) -> Mapping[str, Beginning]:
    """Where the app begins to read the topics that are read from their end.

    Raises:
        LogError, ConfigError, RegistryUnusable: they cannot be read.
    """
    if not spec.ingresses:
        return {}
    from borealis_py.app.beginning import beginnings

    return beginnings(spec, *_clusters(context, timing), lambda: time.time_ns() // 1000)


def _clusters(context: Context, timing: Timing) -> tuple[ClusterLog, Timing, ClusterRegistry]:
    from borealis_py.config.kafka import cluster_of, registry_of
    from borealis_py.kafka.schema_registry import ConfluentRegistry

    return (
        partial(cluster_of, context.config, context.log),
        timing,
        lambda name: ConfluentRegistry(registry_of(context.config, name)),
    )


def say_left_out(spec: AppSpec) -> None:
    """Print which results an app leaves out since rows of theirs came before it began to read."""
    from borealis_py.app.waits import left_out

    for line in left_out(spec):
        say(line, "yellow")


def check_clusters(spec: AppSpec, config: Config) -> None:
    """Check that the clusters of the app's topics, and their registries, are configured. Asks them nothing.

    Raises:
        ConfigError: one is not. RegistryUnusable: no client can be made.
    """
    if not spec.ingresses:
        return
    from borealis_py.config.kafka import cluster_of, log_of, registry_of
    from borealis_py.kafka.schema_registry import ConfluentRegistry

    own = log_of(config)
    for ingress in spec.ingresses.values():
        cluster_of(config, own, ingress.cluster)
        if ingress.needs_registry:
            ConfluentRegistry(registry_of(config, ingress.cluster)).close()


def check_topics(spec: AppSpec, config: Config, row_max_bytes: int) -> None:
    """Check that topics of the app that are there take its records. Without a broker, `up` does.

    Raises:
        LaunchError: one is too small. ConfigError.
    """
    from contextlib import suppress

    from borealis_py.app.topics import refuse_small_topics
    from borealis_py.config.kafka import log_of
    from borealis_py.kafka.client import listens
    from borealis_py.log.base import LogError

    own = log_of(config)
    if listens(own.bootstrap, 0.4):
        with suppress(LogError):
            refuse_small_topics(own, spec, row_max_bytes)


def say_remarks(spec: AppSpec, timing: Timing, checked: bool = False) -> None:
    """Print what a user should know about waits for the app's topics; when the file is `checked`, also which inputs
    cannot be missing."""
    if spec.ingresses:
        from borealis_py.app.waits import remarks, silence_remarks

        for line in remarks(spec, timing) + (silence_remarks(spec, timing) if checked else []):
            say(line, "yellow")


def say_absent_columns(spec: AppSpec, context: Context, timing: Timing) -> None:
    """Print which columns none of the newest records of the app's topics has, with the nearest field.

    Raises:
        LogError, ConfigError, RegistryUnusable: a topic cannot be read.
    """
    if not spec.ingresses:
        return
    from borealis_py.app.beginning import decoder_of
    from borealis_py.log.ingress_status import AbsentField
    from borealis_py.observe.ingress_overview import absent_text
    from borealis_py.observe.topic_sample import absent_in

    log_of, _, registry_of = _clusters(context, timing)
    for name, ingress in spec.ingresses.items():
        with decoder_of(spec, name, timing, registry_of) as decoder:
            for one in absent_in(log_of(ingress.cluster), ingress.topic, decoder, SAMPLE_RECORDS):
                say(absent_text(name, ingress.topic, AbsentField(*one)), "yellow")


def print_topics(spec: AppSpec) -> None:
    """Print the topics of other programs that the app reads, if there are any."""
    if not spec.ingresses:
        return
    from borealis_py.query import format_duration

    print_table(
        "",
        ["source", "reads topic", "inputs>", "time of a row", "lateness>", "a silent input"],
        [
            [
                name,
                ingress.topic + (f" in {ingress.cluster}" if ingress.cluster else ""),
                f"{ingress.inputs}" + (f" by {ingress.by}" if ingress.by else ""),
                _time_of(ingress),
                format_duration(ingress.lateness_us),
                _silence(ingress),
            ]
            for name, ingress in spec.ingresses.items()
        ],
        ("inputs>", "time of a row", "lateness>"),
    )


def _time_of(ingress: IngressSpec) -> str:
    if ingress.stime_sql is not None:
        return "by stime_sql"
    return f"{ingress.stime} in {ingress.stime_unit}" if ingress.stime else "Kafka's timestamp"


def _silence(ingress: IngressSpec) -> str:
    from borealis_py.query import format_duration

    if ingress.boundary == "data":
        return "is missing"
    if ingress.expect_us is None:
        return "has nothing to say"
    return f"is missing after {format_duration(ingress.expect_us)}"
