"""What commands do about an app's foreign topics before anything starts: ask how many inputs they have, and tell."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from borealis_py.cli.console import print_table, say

if TYPE_CHECKING:
    from borealis_py.cli.context import Context
    from borealis_py.config.config import Config
    from borealis_py.protocol.settings import Timing
    from borealis_py.query.ingress_spec import IngressSpec
    from borealis_py.query.spec import AppSpec


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
    from borealis_py.app.foreign import earliest_foreign_us
    from borealis_py.config.kafka import cluster_of, registry_of
    from borealis_py.kafka.schema_registry import ConfluentRegistry

    return earliest_foreign_us(
        spec,
        partial(cluster_of, context.config, context.log),
        timing,
        lambda name: ConfluentRegistry(registry_of(context.config, name)),
    )


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


def say_remarks(spec: AppSpec, timing: Timing) -> None:
    """Print what a user should know about silence of the app's topics."""
    if spec.ingresses:
        from borealis_py.app.foreign import remarks

        for line in remarks(spec, timing):
            say(line, "yellow")


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
                f"{ingress.stime} in {ingress.stime_unit}" if ingress.stime else "Kafka's timestamp",
                format_duration(ingress.lateness_us),
                _silence(ingress),
            ]
            for name, ingress in spec.ingresses.items()
        ],
    )


def _silence(ingress: IngressSpec) -> str:
    from borealis_py.query import format_duration

    if ingress.boundary == "data":
        return "is missing"
    if ingress.expect_us is None:
        return "has nothing to say"
    return f"is missing after {format_duration(ingress.expect_us)}"
