"""What commands do about an app's foreign topics before anything starts: ask how many inputs they have, and tell."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from borealis_py.cli.console import print_table, say

if TYPE_CHECKING:
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
