"""Worlds in which the app is begun anew: what each life is, what lives on, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py.log.records import unpack_source
from borealis_py.simulation.cluster.resets import MODES, split
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.fault_kinds import KINDS
from borealis_py.simulation.runner.run import run_scenario
from borealis_py.simulation.runner.simulation import lives
from borealis_py.simulation.scenario import SECOND, Fault, Scenario
from tests.simulation.calm import calm

pytestmark = pytest.mark.sim


def reset(detail: str = "all", since: float = 4, until: float = 7) -> Fault:
    return Fault("reset", 0, int(since * SECOND), int(until * SECOND), detail)


def begun_anew(*faults: Fault) -> Scenario:
    return replace(calm(), faults=tuple(sorted(faults, key=lambda f: f.at_us)), latecomer=True)


def lived(scenario: Scenario) -> list[SimulatedWorld]:
    found = []
    for life in lives(scenario):
        found.append(life.world)
        life.run()
    return found


def test_each_life_has_its_share_of_the_faults_and_all_but_the_first_begin_with_their_reset() -> None:
    before, across = Fault("crash", 0, SECOND, 2 * SECOND), Fault("source_cut", 1, 3 * SECOND, 9 * SECOND)
    after = Fault("pause", 1, 6 * SECOND, 8 * SECOND)
    first, second = split(replace(begun_anew(before, across, reset("writer"), after), lost=(0,)))
    assert first.faults == (before, replace(across, until_us=4 * SECOND))
    assert second.faults == (reset("writer", 0, 3), replace(after, at_us=2 * SECOND, until_us=4 * SECOND))
    assert (first.heal_us, second.heal_us) == (4 * SECOND, 8 * SECOND)
    assert (first.reset, second.reset) == ("writer", "")
    assert (first.lost, second.lost) == ((), (0,))


def test_a_world_without_resets_is_what_it_was() -> None:
    scenario = begun_anew(Fault("crash", 0, SECOND, 2 * SECOND))
    assert split(scenario) == [scenario]


@pytest.mark.parametrize("mode", MODES)
def test_what_lives_on_ends_by_name_and_the_next_life_keeps_every_promise(mode: str) -> None:
    cut = Fault("source_cut", 0, 8 * SECOND, 10 * SECOND)
    first, second = lived(begun_anew(reset(f"all/{mode}"), cut))
    assert second.past is not None
    assert {one.mode for one in second.past.survivors} == {mode}
    processes = [one.machine for one in second.past.survivors if one.machine is not first.clients]
    assert processes
    assert all("begun anew" in (machine.given_up or "") for machine in processes)
    assert first.latecomer is not None
    assert "begun anew" in (first.latecomer.lost or "")
    assert (first.wiring.app_uid, second.wiring.app_uid) == ("first", "second")
    assert second.picture.tentative_seen > 0
    assert [machine.given_up for machine in second.replicas] == [None, None]


def test_what_the_life_before_had_on_its_way_lands_in_the_topics_of_the_next() -> None:
    _, second = lived(begun_anew(reset("publisher/deaf")))
    said = [record.value for machine in second.sources for record in second.log.committed(machine.feed)]
    assert {unpack_source(value)[0].app_uid for value in said} == {"first", "second"}


def test_three_lives_follow_each_other() -> None:
    found = lived(begun_anew(reset("replica", 3, 5), reset("all", 6, 9)))
    assert [world.wiring.app_uid for world in found] == ["first", "second", "third"]
    assert {world.neighbour for world in found} == {None}


def test_who_slept_through_a_reset_may_learn_of_it_as_late_as_a_life_may_have_nothing_to_say() -> None:
    short = begun_anew(reset("all/asleep", 4, 4.1), reset("all/asleep", 5, 5.1))
    late = replace(short, rate=5, lateness_us=1_500_000, by_data=frozenset({0, 1}), bad=0.2)
    result = run_scenario(late, digest=False)
    assert result.ok, result.failure()


def test_another_app_on_the_same_log_notices_no_reset() -> None:
    result = run_scenario(replace(begun_anew(reset()), neighbour="si"), digest=False)
    assert result.ok, result.failure()


@pytest.mark.parametrize("detail", KINDS["reset"].details)
def test_a_world_with_a_reset_is_the_same_history_each_time(detail: str) -> None:
    once, again = (run_scenario(begun_anew(reset(detail))) for _ in range(2))
    assert once.ok, once.failure()
    assert once.digest == again.digest
