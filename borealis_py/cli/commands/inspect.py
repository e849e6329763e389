"""`borealis inspect`: a topic of other programs, from a sample of it, and the call that reads it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.shared.console import out, print_json, print_table, say
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.options import Bootstrap, Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from borealis_py.config.config import Config
    from borealis_py.log.base import Record
    from borealis_py.observe.topic_formats import SampledFormat
    from borealis_py.observe.topic_survey import TopicSurvey

Cluster = Annotated[
    str | None,
    typer.Option("--cluster", help="Name of the topic's cluster, under `clusters:`.", show_default="the app's own"),
]


def inspect(
    topic: Annotated[str, typer.Argument(help="The topic's full name in Kafka.", show_default=False)],
    cluster: Cluster = None,
    bootstrap: Bootstrap = None,
    records: Annotated[
        int, typer.Option("--records", min=1, max=1_000_000, help="How many of its newest records to look at.")
    ] = 10_000,
    json: Json = False,
) -> None:
    """Show the format, fields, rate, lateness and gaps of a topic that other programs write, and how an app reads it.

    Reads its newest records, and changes nothing. Of Avro, Protobuf and JSON Schema, the fields are those of their
    schemas, which the registry of the topic's cluster has (`schema_registry:`).
    """
    from borealis_py.config.kafka import cluster_of
    from borealis_py.observe.topic_formats import in_registry, recognised
    from borealis_py.observe.topic_sample import sample
    from borealis_py.observe.topic_survey import survey
    from borealis_py.query.errors import did_you_mean

    context = open_context(bootstrap)
    if cluster is not None and cluster not in context.config.clusters:
        hint = did_you_mean(cluster, context.config.clusters) or ";"
        known = ", ".join(context.config.clusters) or "none"
        raise typer.BadParameter(f"{cluster!r}{hint} `clusters:` has {known}", param_hint="--cluster")
    if cluster is None:
        context.check_broker()
    partitions, found = sample(cluster_of(context.config, context.log, cluster), topic, records)
    form = recognised(found)
    if in_registry(form):
        form = _by_registry(form, found, context.config, cluster)
    seen = survey(topic, partitions, found, form)
    if json:
        print_json({**asdict(seen), "suggested_lateness_us": seen.lateness_us, "call": seen.call(cluster)})
        return
    show(seen, cluster)


def _by_registry(form: SampledFormat, records: Sequence[Record], config: Config, cluster: str | None) -> SampledFormat:
    """What the schemas of the cluster's registry say; the same `form`, if it has none or does not say."""
    from contextlib import closing

    from borealis_py.config.config import ConfigError
    from borealis_py.config.kafka import registry_of
    from borealis_py.kafka.schema_registry import ConfluentRegistry, RegistryUnusable
    from borealis_py.observe.registered_sample import SchemasUnknown, by_registry
    from borealis_py.observe.topic_formats import JSON_SCHEMA
    from borealis_py.query.errors import QueryError

    try:
        with closing(ConfluentRegistry(registry_of(config, cluster))) as registry:
            return by_registry(records, registry)
    except (ConfigError, RegistryUnusable, SchemasUnknown, QueryError) as exc:
        instead = "; the fields are those that the records show" if form.name == JSON_SCHEMA else ""
        say(f"{exc}{instead}", "yellow")
    return form


def show(seen: TopicSurvey, cluster: str | None) -> None:
    """Print what a survey has found, and the call that reads the topic; `cluster`: as the command has it."""
    from borealis_py.cli.shared.replica_table import duration, per_second
    from borealis_py.observe.topic_formats import REGISTERED
    from borealis_py.query.ingress_spec import FORMATS

    def us(value: int) -> str:
        return f"{value / 1e6:.3g} s" if value < 120_000_000 else duration(value / 1e6)

    gap = "too few records" if seen.gap_us is None else f"{us(seen.gap_us)}; a shorter expect= would call it missing"
    late, time = seen.lateness, f"{seen.stime}, in {seen.unit}" if seen.stime else "Kafka's timestamp"
    print_table(
        f"topic {seen.topic}: the newest {seen.records} records",
        ["", ""],
        [
            ["partitions", str(seen.partitions)],
            ["format", seen.format],
            ["not in this format", str(seen.unusable)],
            ["records", "too few records" if seen.rate is None else per_second(seen.rate)],
            ["time of a record", time],
            *(
                [
                    [
                        "come after that time",
                        f"50% within {us(late.p50_us)}, 99% within {us(late.p99_us)}, all within {us(late.most_us)}",
                    ]
                ]
                if late is not None
                else []
            ),
            ["longest gap of a partition", gap],
        ],
    )
    if seen.fields:
        print_table(
            "",
            ["field", "type", "in records>", "null>", "left out because"],
            [[f.name, f.type or "", str(f.present), str(f.null or ""), f.why] for f in seen.fields],
            ("null>", "in records>"),
        )
    call = seen.call(cluster)
    for field in seen.passed_over:
        say(f"the time of a record is taken from Kafka; a field looks like one: {field}", "yellow")
    if seen.too_late:
        say(seen.too_late, "yellow")
    if call:
        out().print(call, markup=False, soft_wrap=True)
    elif seen.format.startswith(REGISTERED):
        say(f'it is {seen.format}: read it with format="avro" or "protobuf", and take its fields from there', "yellow")
    else:
        say(f"no app can read it: it is {seen.format}, and formats are: {', '.join(FORMATS)}", "yellow")
