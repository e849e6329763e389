"""Shrinking: what is left fails the same way, is as small as that allows, and is repeated by what is printed."""

from __future__ import annotations

from borealis_py.simulation.runner.generator import draw
from borealis_py.simulation.runner.shrink import Edits, shrink
from borealis_py.simulation.scenario import Scenario


def rough() -> Scenario:
    return next(w for w in map(draw, range(1, 100)) if len(w.faults) >= 6 and max(n.replicas for n in w.nodes) == 3)


def test_only_the_faults_that_matter_are_left() -> None:
    scenario = rough()
    needed = {scenario.faults[1], scenario.faults[4]}
    starts = {(f.kind, f.at_us) for f in needed}
    edits = shrink(scenario, lambda s: starts <= {(f.kind, f.at_us) for f in s.faults})
    assert edits.keep == (1, 4)
    assert edits.replicas == 1
    assert edits.apply(scenario).replicas == len(scenario.nodes)
    assert "--keep 1,4" in edits.options()


def test_what_always_fails_is_left_without_faults() -> None:
    scenario = rough()
    edits = shrink(scenario, lambda _: True)
    small = edits.apply(scenario)
    assert small.faults == ()
    assert small.heal_us < scenario.heal_us
    assert "--keep none" in edits.options()


def test_what_fails_only_as_it_is_stays_as_it_is() -> None:
    scenario = rough()
    edits = shrink(scenario, lambda s: s == scenario)
    assert edits.apply(scenario) == scenario


def test_edits_of_edits_go_on_from_there() -> None:
    scenario = rough()
    edits = shrink(scenario, lambda s: len(s.faults) >= 1, Edits(keep=(0, 2, 3)))
    assert edits.keep is not None
    assert len(edits.keep) == 1
    assert set(edits.keep) <= {0, 2, 3}
