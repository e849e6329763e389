"""What `borealis verify` takes from an app that runs."""

from __future__ import annotations

from dataclasses import replace

from borealis_py.app.state import AppState
from borealis_py.cli.commands.verify import _described
from borealis_py.log.messages import Description
from borealis_py.query import App
from borealis_py.query.recovery import ACTIVE, RecoveryPlan, RecoveryWay


def test_topics_may_have_holes_where_the_way_of_recovery_was_ever_set() -> None:
    """A standby took over, or one started without a state: that is no anomaly, also once the way is active again."""
    app = App("app")
    source = app.source("s", schema={"x": "int64", "k": "string"})
    app.query("q", source.filter("x > 0"), partitions=2, by="k")
    spec = app.describe()
    state = AppState("app", spec, Description(spec.to_json(), spec.hash, 0, "f", "a1"))
    passive = RecoveryPlan(RecoveryWay.PASSIVE_STANDBY)
    said = [replace(state, recovering=found) for found in ({}, {"q.0": passive}, {"q.0": ACTIVE}, {"other": passive})]
    first = [(node.name, node.one_runs) for one in said for node in _described(one).nodes[:1]]
    assert first == [("q.0", False), ("q.0", True), ("q.0", True), ("q.0", False)]
    assert not any(_described(one).nodes[1].one_runs for one in said)


def test_it_knows_what_labels_call_the_inputs_of_a_topic() -> None:
    app = App("app")
    schema = {"x": "int64", "k": "string"}
    app.query("q", app.topic("s", "prod.s", schema, stime="x", by="k", values=["a"]).filter("x > 0"))
    spec = app.describe()
    found = _described(AppState("app", spec, Description(spec.to_json(), spec.hash, 0, "f", "a1")))
    assert found.called == {"s.0": "s.a", "s.1": "s.other"}
