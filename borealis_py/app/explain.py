"""A static view of an app as it will run: its nodes and topics, how long each node may wait, and the effect of losing
an input on every result. Computed from the description alone: no broker, no clock.

Losses follow R1, R3 and R5: a node's completeness is the mean over its inputs of 1 (stable), 0 (missing) or the
tentative input's own. A node without any input left creates no buckets, so it is silent rather than tentative. A source
counts as lost if it is missing for longer than its nodes wait; one that has ended is not lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from borealis_py.app.check import NodeReport, check
from borealis_py.app.foreign import check_foreign
from borealis_py.app.topics import topics_of
from borealis_py.log import topics
from borealis_py.node.delays import declared, first_wait_us
from borealis_py.protocol.settings import DelayPolicy, Delays, Timing, grow_delta
from borealis_py.query.names import base_name
from borealis_py.query.partitions import physical
from borealis_py.query.spec import AppSpec


class LossOutcome(Enum):
    """The state of a node's stream during a loss."""

    STABLE = "stable"
    TENTATIVE = "tentative"
    SILENT = "silent"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class LossEffect:
    """One node during a loss: the `outcome` for its stream, and the `completeness` of its inputs, 0 to 1 (0: it emits
    nothing). `missing_sources`: the sources missing in its output, or in what it would emit; empty: none."""

    outcome: LossOutcome
    completeness: float
    missing_sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainedNode:
    """One node: the result of `check` (`report`), and its share of the delay.

    `sources`: all that its rows come from, directly or through other nodes. `replicas`: how many it has. `delta_us`:
    how long past a bucket's end it waits for an input that is late already. `reads`: topics by input.
    """

    report: NodeReport
    sources: tuple[str, ...]
    replicas: int
    delta_us: int
    reads: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How the delay threshold X of the query `name` is spent: X = `slack_us` + `hops_us` (a hop for each node after the
    first) + `wait_us` (the first node's wait). `least_us`: the smallest valid X.

    `nodes`: those that give the result, the query last. `declared`: X and the policies as the app's file has them.
    """

    name: str
    nodes: tuple[str, ...]
    declared: Delays
    slack_us: int
    hops_us: int
    wait_us: int
    least_us: int


@dataclass(frozen=True, slots=True)
class Topic:
    """One Kafka topic, with its number of `partitions`. `name`: in full, as Kafka has it. `holds`: its content, in a
    few words."""

    name: str
    partitions: int
    holds: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """An app as it runs, with each partition as a node (`spec`). `nodes`: each after those that it reads. `queries`: in
    the app's order. `topics`: all that it uses. `losses`: lost source, or node that others read (all its replicas) ->
    node -> effect on that node. `fed_by`: source that is an input of a foreign topic -> what of the topic it is."""

    spec: AppSpec
    nodes: tuple[ExplainedNode, ...]
    queries: tuple[QueryPlan, ...]
    topics: tuple[Topic, ...]
    losses: Mapping[str, Mapping[str, LossEffect]]
    fed_by: Mapping[str, str]


def explain(app: AppSpec, timing: Timing) -> Explanation:
    """Explain an app. Raises QueryError, SettingsError: see `check.check`."""
    check_foreign(app, timing)
    spec = physical(app)
    nodes = tuple(_node(spec, report, timing) for report in check(spec, timing))
    obeyed = {plan.report.name: plan.report.delays.failure for plan in nodes}
    return Explanation(
        spec,
        nodes,
        tuple(_query(spec, name, timing) for name in spec.queries),
        tuple(Topic(t.name, t.partitions, _held(spec)[t.name]) for t in topics_of(spec)),
        {spec.shown(lost): effects(spec, lost, obeyed) for lost in (*spec.sources, *spec.nodes)},
        {spec.shown(name): fed for name, fed in app.fed_by().items()},
    )


def effects(spec: AppSpec, lost: str, policies: Mapping[str, DelayPolicy]) -> dict[str, LossEffect]:
    """The effect on each node while a source, or every replica of a node, cannot be read.

    Args:
        policies: each node's policy on failure.
    """
    found: dict[str, LossEffect] = {}
    for name in spec.all_nodes:
        if name == lost:
            found[name] = LossEffect(LossOutcome.LOST, 0.0, _sources_of(spec, name))
            continue
        inputs = [_input(spec, i, lost, found) for i in spec.node(name).inputs]
        missing_sources = tuple(dict.fromkeys(source for i in inputs for source in i.missing_sources))
        completeness = sum(i.completeness for i in inputs) / len(inputs)
        if all(i.outcome is LossOutcome.STABLE for i in inputs):
            found[name] = LossEffect(LossOutcome.STABLE, 1.0)
        elif policies[name] is DelayPolicy.SUSPEND or all(i.outcome is LossOutcome.LOST for i in inputs):
            found[name] = LossEffect(LossOutcome.SILENT, 0.0, missing_sources)
        else:
            found[name] = LossEffect(LossOutcome.TENTATIVE, completeness, missing_sources)
    return found


def _input(spec: AppSpec, name: str, lost: str, found: Mapping[str, LossEffect]) -> LossEffect:
    """An input as its reader sees it: LOST or not (R5.2: a missing stream lacks all its sources)."""
    if name in spec.sources:
        lacks = LossEffect(LossOutcome.LOST, 0.0, (spec.shown(name),))
        return lacks if name == lost else LossEffect(LossOutcome.STABLE, 1.0)
    said = found[name]
    gone = said.outcome in (LossOutcome.SILENT, LossOutcome.LOST)
    return LossEffect(LossOutcome.LOST, 0.0, _sources_of(spec, name)) if gone else said


def _sources_of(spec: AppSpec, name: str) -> tuple[str, ...]:
    """The sources of a node as people call them."""
    return tuple(map(spec.shown, spec.sources_of(name)))


def _node(spec: AppSpec, report: NodeReport, timing: Timing) -> ExplainedNode:
    name = report.name
    return ExplainedNode(
        report=report,
        sources=_sources_of(spec, name),
        replicas=spec.node(name).replicas,
        delta_us=grow_delta(timing, report.position),
        reads={i.shown: tuple(f.topic for f in topics.input_feeds(spec.name, i)) for i in spec.inputs_of(name)},
    )


def _query(spec: AppSpec, name: str, timing: Timing) -> QueryPlan:
    depth, delays = spec.position(name), declared(spec.query(name))
    slack_us, hops_us = timing.slack_of(depth), (depth - 1) * timing.hop_us
    return QueryPlan(
        name=name,
        nodes=spec.upstream_of(name),
        declared=delays,
        slack_us=slack_us,
        hops_us=hops_us,
        wait_us=first_wait_us(spec, name, timing, delays.threshold_us),
        least_us=timing.least_threshold_us(depth),
    )


def _held(spec: AppSpec) -> dict[str, str]:
    """The content of each topic."""
    app = spec.name
    held = {topics.source(app, name).topic: f"source {base_name(name)}" for name in spec.sources}
    for name in spec.queries:
        corrected = topics.corrected(app, name).topic
        held[corrected] = f"corrected stream of {base_name(name)}: stable rows as JSON"
    for name, node in spec.all_nodes.items():
        for k in range(node.replicas):
            held[topics.replica(app, name, k)] = f"stream of replica {k} of {name}, tentative and stable"
        held[topics.progress(app, name)] = f"publishing progress of {name}"
    return held | {
        topics.control(app): "heartbeats; one partition per node",
        topics.settings(app): "description, thresholds, policies",
        topics.status(app): "statuses, kept for an hour",
        topics.deadletter(app): "dead letters, with the reason",
        topics.acks(app): "what replicas may still read",
    }
