"""`borealis explain`: what an app will be at run time, and the effect of losing an input. Needs no broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from borealis_py.cli.commands.check import AppFile
from borealis_py.cli.console import print_json, print_table
from borealis_py.cli.foreign import check_clusters, print_topics, say_remarks, with_asked_inputs
from borealis_py.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from borealis_py.app.explain import ExplainedNode, Explanation, LossEffect, QueryPlan
    from borealis_py.protocol.settings import Delays, NodeDelays


def explain(file: AppFile, json: Json = False) -> None:
    """Show nodes, delay budgets, topics, and the effect on each result while a source or node is lost."""
    from borealis_py.app.explain import explain as explained
    from borealis_py.app.loader import load_spec
    from borealis_py.config.config import load

    config = load()
    spec, timing = with_asked_inputs(load_spec(file), config), config.protocol_timing()
    check_clusters(spec, config)
    found = explained(spec, timing)
    say_remarks(spec, timing)
    if json:
        print_json(as_json(found))
    else:
        _print(found)
        print_topics(spec)


def as_json(found: Explanation) -> dict[str, Any]:
    """Everything known, as JSON values."""
    spec = found.spec
    return {
        "app": spec.name,
        "hash": spec.hash,
        "bucket_us": spec.bucket_us,
        "sources": spec.sources,
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
                ", ".join(plan.report.inputs),
                str(plan.replicas),
                shown(plan.report.delays.wait_us),
                shown(plan.delta_us),
                _policies(plan.report.delays),
            ]
            for plan in found.nodes
        ],
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
    )
    print_table("", ["without", "tentative (completeness)", "nothing new", "stable"], _losses(found))
    print_table("", ["topic", "partitions>", "holds"], [[t.name, str(t.partitions), t.holds] for t in found.topics])


def _losses(found: Explanation) -> list[list[str | Text]]:
    rows: list[list[str | Text]] = []
    for lost, effects in found.losses.items():
        said = _by_outcome(effects)
        what = f"source {lost}" if lost in found.spec.sources else f"node {lost}"
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
