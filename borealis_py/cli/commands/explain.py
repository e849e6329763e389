"""`borealis explain`: what an app will be at run time, and the effect of losing an input. Needs no broker; of one that
answers, it tells how fast the app's streams grow, and what surviving a crash costs at the rates that it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from borealis_py.cli.commands.check import AppFile
from borealis_py.cli.shared.console import print_json, print_table, say
from borealis_py.cli.shared.context import Context, open_context
from borealis_py.cli.shared.foreign import check_clusters, print_topics, say_remarks, with_asked_inputs
from borealis_py.cli.shared.options import Bootstrap, Json
from borealis_py.cli.shared.recovery_table import given_rates, print_recovery, rates, recovery_json, recovery_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from borealis_py.app.explain import ExplainedNode, Explanation, LossEffect, QueryPlan
    from borealis_py.observe.growth import Growth
    from borealis_py.observe.source_rows import SourceRows
    from borealis_py.protocol.settings import Delays, NodeDelays
    from borealis_py.query.recovery import RecoveryPlan
    from borealis_py.query.spec import AppSpec


Rate = Annotated[
    list[str] | None,
    typer.Option(
        "--rate",
        metavar="SOURCE=ROWS",
        help="Rows a second of a source, instead of those that it has now; once for each source.",
        show_default=False,
    ),
]


def explain(file: AppFile, rate: Rate = None, bootstrap: Bootstrap = None, json: Json = False) -> None:
    """Show nodes, delay budgets, topics, and the effect on each result while a source or node is lost.

    Needs no broker. If one answers, also how much each stream grows a day, measured by the newest 200 records of each
    partition (more if these have one time): the bytes of keys, values and headers that came in the time between,
    before Kafka compresses and copies them.

    With rates, of options or of an app that runs, also what it would cost to survive a crash, for each node and each
    way: what it guarantees, how long the node's stream stands still and what its readers see of that, and what it adds
    to one replica. Each node is tried here, on rows of its sources or made-up ones. The way that the
    node has is marked (now): of an app that runs the one that `borealis recovery` has set.
    """
    from borealis_py.app.loader import load_spec
    from borealis_py.node.checkpoint_topic import KAFKA
    from borealis_py.runtime.lean_imports import hidden

    context = open_context(bootstrap)
    spec = load_spec(file)  # first: the file may want pandas
    with hidden("pandas"):  # the engine would load it, for 0.2 s, and has no use for it here
        from borealis_py.app.explain import explain as explained

        spec, timing = with_asked_inputs(spec, context.config), context.config.protocol_timing()
    check_clusters(spec, context.config)
    given = given_rates(rate or [], spec)
    found = explained(spec, timing)
    say_remarks(spec, timing)
    seen = _measured(context, spec)
    grows, live, why = seen.grows, seen.live, seen.why
    by = rates(given, live, found.spec)
    kafka_keeps_state = context.config.checkpoints == KAFKA
    costs = None if by is None else recovery_of(found, timing, by, grows, seen.plans, kafka_keeps_state)
    if json:
        growth = None if grows is None else _growth_json(grows)
        recovery = None if by is None or costs is None else recovery_json(costs, by)
        print_json({**as_json(found), "growth": growth, "recovery": recovery})
    else:
        _print(found)
        print_topics(spec)
        if grows is not None:
            _print_growth(grows)
        if by is not None and costs is not None:
            print_recovery(costs.ways, by, _bytes_shown)
    if live and by is None:
        say("what it would cost to survive a crash is not known: some source has no rows yet; give --rate", "yellow")
    if why:
        say(f"how fast streams grow is not known: {why}", "yellow")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a broker tells of an app: growth by topic (None: it could not be measured), rows of sources, how nodes
    recover now (None: as the file says), and why not, in words; nothing where no broker is to be expected."""

    grows: dict[str, Growth] | None = None
    live: dict[str, SourceRows] = field(default_factory=dict)
    plans: dict[str, RecoveryPlan] | None = None
    why: str = ""


def _measured(context: Context, spec: AppSpec) -> _Seen:
    from borealis_py.app.recovery_in_force import plans_in_force
    from borealis_py.kafka.client import listens
    from borealis_py.log.base import LogError
    from borealis_py.observe.growth import growth
    from borealis_py.observe.source_rows import source_rows

    address = context.log.bootstrap
    if not listens(address):
        configured = "bootstrap" in context.config.model_fields_set
        return _Seen(why=f"no broker answers at {address}" if configured else "")
    try:
        plans = plans_in_force(context.log, spec)
        return _Seen(growth(context.log, spec), source_rows(context.log, spec), plans)
    except LogError as exc:
        return _Seen(why=str(exc))


def _growth_json(grows: Mapping[str, Growth]) -> dict[str, Any]:
    return {
        topic: {
            "bytes_a_day": None if of.bytes_a_day is None else round(of.bytes_a_day),
            "records": of.records,
            "seconds": of.seconds,
            "unknown": of.unknown or None,
        }
        for topic, of in grows.items()
    }


def _print_growth(grows: Mapping[str, Growth]) -> None:
    rows: list[list[str | Text]] = []
    for topic, of in grows.items():
        if of.bytes_a_day is None:
            rows.append([topic, "", of.unknown])
        else:
            rows.append([topic, _bytes_shown(of.bytes_a_day), f"{of.records} records of {of.seconds:.1f} s"])
    print_table("", ["topic", "grows a day>", "measured by"], rows, ("measured by",))


def _bytes_shown(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.1f} {unit}" if size < 9.95 else f"{size:.0f} {unit}"
        size /= 1_000
    return f"{size:.1f} TB"


def as_json(found: Explanation) -> dict[str, Any]:
    """Everything known without a broker, as JSON values."""
    spec = found.spec
    return {
        "app": spec.name,
        "hash": spec.hash,
        "bucket_us": spec.bucket_us,
        "sources": {spec.shown(source): columns for source, columns in spec.sources.items()},
        "nodes": {plan.report.name: _node(plan) for plan in found.nodes},
        "queries": {plan.name: _query(plan) for plan in found.queries},
        "topics": {t.name: {"partitions": t.partitions, "holds": t.holds} for t in found.topics},
        "losses": {
            lost: {
                node: {"outcome": e.outcome.value, "completeness": e.completeness, "missing_sources": e.missing_sources}
                for node, e in effects.items()
            }
            for lost, effects in found.losses.items()
        },
    }


def _node(plan: ExplainedNode) -> dict[str, Any]:
    report = plan.report
    return {
        "reads": plan.reads,
        "sources": plan.sources,
        "columns": dict(report.columns),
        "operator_class": report.operator_class,
        "replicas": plan.replicas,
        "position": report.position,
        "serves": report.serves,
        "wait_us": report.delays.wait_us,
        "delta_us": plan.delta_us,
        "on_failure": plan.report.delays.failure.value,
        "on_stabilization": plan.report.delays.stabilization.value,
    }


def _query(plan: QueryPlan) -> dict[str, Any]:
    return {
        "nodes": plan.nodes,
        "threshold_us": plan.declared.threshold_us,
        "least_threshold_us": plan.least_us,
        "slack_us": plan.slack_us,
        "hops_us": plan.hops_us,
        "wait_us": plan.wait_us,
        "on_failure": plan.declared.failure.value,
        "on_stabilization": plan.declared.stabilization.value,
    }


def _print(found: Explanation) -> None:
    from borealis_py.query import format_duration as shown

    print_table(
        f"app {found.spec.name}: bucket {shown(found.spec.bucket_us)}",
        ["node", "of query", "reads", "replicas>", "waits for an input>", "for a late one>", "on failure"],
        [
            [
                plan.report.name,
                ", ".join(plan.report.serves),
                ", ".join(plan.reads),
                str(plan.replicas),
                shown(plan.report.delays.wait_us),
                shown(plan.delta_us),
                _policies(plan.report.delays),
            ]
            for plan in found.nodes
        ],
        least=("of query", "for a late one>", "replicas>", "on failure"),
    )
    print_table(
        "",
        ["query", "nodes", "threshold>", "= wait>", "+ hops>", "+ slack>", "least>", "on failure"],
        [
            [
                plan.name,
                ", ".join(plan.nodes),
                *(shown(plan.declared.threshold_us), shown(plan.wait_us)),
                *(shown(plan.hops_us) if plan.hops_us else "", shown(plan.slack_us), shown(plan.least_us)),
                _policies(plan.declared),
            ]
            for plan in found.queries
        ],
        least=("nodes", "on failure", "least>", "+ slack>", "+ hops>", "= wait>"),
    )
    print_table("", ["without", "tentative (completeness)", "nothing new", "stable"], _losses(found), ("stable",))
    kept = [[t.name, str(t.partitions), t.holds] for t in found.topics]
    print_table("", ["topic", "partitions>", "holds"], kept, ("partitions>",))


def _losses(found: Explanation) -> list[list[str | Text]]:
    rows: list[list[str | Text]] = []
    for lost, effects in found.losses.items():
        said = _by_outcome(effects)
        what = f"node {lost}" if lost in found.spec.nodes else f"source {lost}"
        what += f" ({found.fed_by[lost]})" if lost in found.fed_by else ""
        cells = [Text(", ".join(said.get(kind, [])), style) for kind, style in _SHOWN]
        rows.append([what, *cells])
    return rows


_SHOWN = (("tentative", "yellow"), ("silent", "red"), ("stable", "green"))


def _by_outcome(effects: Mapping[str, LossEffect]) -> dict[str, list[str]]:
    said: dict[str, list[str]] = {}
    for node, effect in effects.items():
        shown = f"{node} ({effect.completeness:.2f})" if effect.outcome.value == "tentative" else node
        said.setdefault(effect.outcome.value, []).append(shown)
    return said


def _policies(delays: Delays | NodeDelays) -> str:
    failure, stabilization = delays.failure.value, delays.stabilization.value
    return failure if failure == stabilization else f"{failure}, then {stabilization}"
