"""What an app will be, and what its inputs are worth: from its description alone."""

from __future__ import annotations

from typing import Any

import pytest

from borealis_py.app.explain import Explanation, LossEffect, LossOutcome, effects, explain
from borealis_py.app.topics import topics_of
from borealis_py.protocol.input_state import InputState
from borealis_py.protocol.settings import DelayPolicy, SettingsError, Timing
from borealis_py.protocol.turn import Turn
from borealis_py.query import App
from sunion.model import Input, Output, SourceRecord, StableRange, StreamRecord, TentativeBucket
from tests.sunion.lists import AHEAD_US, BUCKETS
from tests.support.managers import toy_config

STABLE = LossEffect(LossOutcome.STABLE, 1.0)
ALL = ("a", "b", "c")


def described(**policies: Any) -> App:
    """a, b -> ab -> q; ab, c -> abc -> p. The policies are p's; q has the usual ones."""
    app = App("x", bucket="100ms")
    a, b, c = (app.source(s, schema={"k": "string", "v": "int"}) for s in ALL)
    ab = app.union(a, b).filter("v > 0").node("ab")
    app.query("q", ab.window("1s").agg(n="count(*)"), "3s", replicas=1)
    app.query("p", app.union(ab, c).node("abc", replicas=3).filter("v > 1"), "2s", **policies)
    return app


def explained(**policies: Any) -> Explanation:
    return explain(described(**policies).describe(), Timing())


def test_what_is_lost_spreads_by_the_share_of_each_input() -> None:
    losses = explained().losses
    assert list(losses) == [*ALL, "ab", "abc"]
    for source in ("a", "b"):
        half = LossEffect(LossOutcome.TENTATIVE, 0.5, (source,))
        most = LossEffect(LossOutcome.TENTATIVE, 0.75, (source,))
        assert losses[source] == {"ab": half, "q": half, "abc": most, "p": most}
    half = LossEffect(LossOutcome.TENTATIVE, 0.5, ("c",))
    assert losses["c"] == {"ab": STABLE, "q": STABLE, "abc": half, "p": half}


def test_who_has_no_input_left_says_nothing_and_others_lack_all_its_sources() -> None:
    losses = explained().losses
    half = LossEffect(LossOutcome.TENTATIVE, 0.5, ("a", "b"))
    assert losses["ab"] == {
        "ab": LossEffect(LossOutcome.LOST, 0.0, ("a", "b")),
        "q": LossEffect(LossOutcome.SILENT, 0.0, ("a", "b")),
        "abc": half,
        "p": half,
    }
    assert losses["abc"]["p"] == LossEffect(LossOutcome.SILENT, 0.0, ALL)
    assert losses["abc"]["q"] == STABLE


def test_a_query_of_one_source_stands_still_without_it() -> None:
    app = App("x")
    app.query("q", app.source("s", schema={"v": "int"}), "3s")
    assert explain(app.describe(), Timing()).losses == {"s": {"q": LossEffect(LossOutcome.SILENT, 0.0, ("s",))}}


def test_who_suspends_says_nothing_and_who_delays_is_tentative_all_the_same() -> None:
    assert explained(on_failure="delay").losses["c"]["p"] == LossEffect(LossOutcome.TENTATIVE, 0.5, ("c",))
    suspended = explained(on_failure="suspend").losses
    assert suspended["c"] == {
        "ab": STABLE,
        "q": STABLE,
        "abc": LossEffect(LossOutcome.SILENT, 0.0, ("c",)),
        "p": LossEffect(LossOutcome.SILENT, 0.0, ALL),
    }
    assert suspended["a"]["q"] == LossEffect(LossOutcome.TENTATIVE, 0.5, ("a",)), "ab obeys q, which processes"


def test_budgets_are_what_the_replicas_will_have() -> None:
    found = explained(on_failure="delay")
    nodes = {plan.report.name: plan for plan in found.nodes}
    assert {name: (p.report.delays.wait_us, p.delta_us, p.report.delays.failure) for name, p in nodes.items()} == {
        "ab": (1_425_000, 125_000, DelayPolicy.PROCESS),
        "abc": (1_525_000, 225_000, DelayPolicy.DELAY),
        "q": (2_725_000, 225_000, DelayPolicy.PROCESS),
        "p": (1_625_000, 325_000, DelayPolicy.DELAY),
    }
    for query in found.queries:
        assert query.wait_us + query.hops_us + query.slack_us == query.declared.threshold_us
    assert [(q.name, q.nodes, q.least_us) for q in found.queries] == [
        ("q", ("ab", "q"), 500_000),
        ("p", ("ab", "abc", "p"), 700_000),
    ]


def test_every_topic_of_the_app_is_there_with_what_it_holds() -> None:
    spec, found = described().describe(), explained()
    assert [(t.name, t.partitions) for t in found.topics] == [(t.name, t.partitions) for t in topics_of(spec)]
    assert all(t.holds for t in found.topics)
    nodes = {plan.report.name: plan for plan in found.nodes}
    assert nodes["abc"].reads == {"ab": ("x.ab.r0", "x.ab.r1"), "c": ("x.c",)}
    assert nodes["p"].reads == {"abc": ("x.abc.r0", "x.abc.r1", "x.abc.r2")}


def test_a_threshold_that_cannot_hold_is_refused() -> None:
    app = described()
    app.query("r", app.source("d", schema={"v": "int"}), "300ms")
    with pytest.raises(SettingsError, match="query 'r': delay threshold 300 ms is too small"):
        explain(app.describe(), Timing())


def test_partitions_are_nodes_and_fail_with_their_source() -> None:
    app = App("x", bucket="100ms")
    a, b = (app.source(s, schema={"k": "string", "v": "int"}) for s in ("a", "b"))
    cut = app.union(a, b).filter("v > 0").node("cut", partitions=2, by="k")
    app.query("q", cut.filter("v > 1"), "3s")
    found = explain(app.describe(), Timing())
    parts = [plan.report.name for plan in found.nodes][:-1]
    assert len(parts) == 2
    half = LossEffect(LossOutcome.TENTATIVE, 0.5, ("a",))
    assert found.losses["a"] == dict.fromkeys((*parts, "q"), half)
    assert found.losses[parts[0]]["q"] == LossEffect(LossOutcome.TENTATIVE, 0.5, ("a", "b"))


@pytest.mark.parametrize("lost", [*ALL, "ab"])
def test_the_share_is_the_one_that_a_replica_computes(lost: str) -> None:
    """The reading side of a replica of each node, fed bucket 0 as its inputs have it during the loss, agrees."""
    spec = described().describe()
    expected = effects(spec, lost, dict.fromkeys(spec.all_nodes, DelayPolicy.PROCESS))
    nodes = [name for name, effect in expected.items() if effect.outcome in (LossOutcome.STABLE, LossOutcome.TENTATIVE)]
    assert "abc" in nodes
    for name in nodes:
        intake = InputState(toy_config(*spec.inputs_of(name), timing=Timing(ahead_max_us=AHEAD_US)), 0, None)
        intake.read(_bucket_0(spec.inputs_of(name), lost, expected), 0, 1_000)
        assert (intake.completeness(0), intake.missing_sources(0)) == (
            expected[name].completeness,
            expected[name].missing_sources,
        )


def _bucket_0(inputs: tuple[Input, ...], lost: str, said: dict[str, LossEffect]) -> Turn:
    sources: dict[int, list[SourceRecord]] = {}
    streams: dict[int, list[tuple[int, StreamRecord]]] = {}
    for index, i in enumerate(inputs):
        effect = said.get(i.name, STABLE)
        if i.name == lost or effect.outcome is LossOutcome.SILENT:
            continue
        if not i.replicas:
            sources[index] = [SourceRecord(0, 1, "u", claim=True), SourceRecord(1, 1, "u", boundary=BUCKETS.end(0))]
        elif effect.outcome is LossOutcome.STABLE:
            streams[index] = [(0, StableRange(1, 0, 1))]
        else:
            streams[index] = [
                (
                    0,
                    TentativeBucket(
                        inc=1,
                        bucket=0,
                        output=Output(),
                        missing_sources=effect.missing_sources,
                        missing=effect.missing_sources,
                        waited_us=0,
                        completeness=effect.completeness,
                        diverged_from=0,
                    ),
                )
            ]
    return Turn(0, inputs=sources, streams=streams)
