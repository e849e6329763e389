"""What a partition that catches up holds up elsewhere, and what it does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from borealis_py.ingress import catch_up
from borealis_py.ingress.catch_up import AHEAD_US, STEP_ROWS, STEP_US, BacklogFronts, TopicFronts
from borealis_py.ingress.inputs import InputLogs
from borealis_py.log.base import Feed, TopicSpec
from borealis_py.simulation.ingress.process import SimIngress
from sunion.model import FOREVER
from tests.ingress.worlds import AHEAD_MAX_US, T0, TOPIC, TopicWorld

ELSEWHERE = "a partition of another topic"


def limit(world: TopicWorld) -> int:
    """How far another topic may copy its backlog."""
    return world.catch_up.limit(ELSEWHERE)


def with_backlog() -> TopicWorld:
    """A world whose topic has a row of T0 that waits for another topic's backlog."""
    world = TopicWorld(partitions=1, start="earliest")
    world.send(0)
    world.run(5)
    world.catch_up.note(ELSEWHERE, T0 - 2 * AHEAD_US)
    world.copying()
    assert world.numbers() == []
    assert limit(world) == T0 + AHEAD_US
    return world


def test_live_rows_do_not_wait_for_the_backlog_of_another_topic() -> None:
    world = TopicWorld(partitions=1)
    world.copying()
    world.catch_up.note(ELSEWHERE, T0 - 3_600_000_000)
    world.send(0)
    world.run(0.01)
    assert world.numbers() == [1]


def test_an_owner_that_is_cut_off_from_its_topic_holds_up_no_other() -> None:
    world = with_backlog()
    world.memory.cut("a", [TOPIC])
    world.run(4)
    assert limit(world) == FOREVER + AHEAD_US


def test_an_owner_that_waits_for_the_log_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_backlog()
    monkeypatch.setattr(InputLogs, "full", True)
    world.run(2)
    assert limit(world) == FOREVER + AHEAD_US


def test_rows_that_wait_for_partitions_of_their_own_topic_hold_up_no_other() -> None:
    world = TopicWorld(partitions=2, by="shop", values=("berlin",), inputs=2)
    world.copying()
    world.memory.depose_partition(Feed(TOPIC, 0))
    world.run(AHEAD_MAX_US / 1_000_000 + 5)
    world.send(1)
    world.run(0.5)
    assert world.numbers() == []  # readers would refuse it
    assert limit(world) == FOREVER + AHEAD_US
    world.memory.elect_partition(Feed(TOPIC, 0))
    world.run(0.5)
    assert world.numbers() == [1]
    assert limit(world) == FOREVER + AHEAD_US


def test_two_sources_that_copy_one_topic_stand_for_themselves() -> None:
    world = with_backlog()
    other = twice(world, "b")
    world.run(1)
    assert other.session is not None
    other.session.close()
    assert limit(world) == T0 + AHEAD_US


def test_an_input_without_a_backlog_opens_no_buckets_beyond_those_that_catch_up_until_it_has_been_live() -> None:
    world = TopicWorld(partitions=1, start="earliest")
    world.run(20)
    front = T0 + 5 * AHEAD_US
    world.catch_up.note(ELSEWHERE, front)
    world.copying()
    world.run(2)
    assert front < world.copied().boundary <= front + AHEAD_US
    world.catch_up.note(ELSEWHERE, None)
    world.run(1)
    live = world.copied().boundary
    assert live > T0 + 20 * AHEAD_US
    world.catch_up.note(ELSEWHERE, front)
    world.run(2)
    assert world.copied().boundary > live + AHEAD_US


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows there are."""
    monkeypatch.setattr(catch_up, "STEP_US", AHEAD_US)


def steps(fronts: BacklogFronts, rows: Iterable[int]) -> list[int]:
    """How far a partition may run ahead of two that have so many rows in each second, after each second."""
    found = []
    for second, number in enumerate(rows):
        for key in ("a", "b"):
            fronts.note(key, T0 + second * AHEAD_US)
        fronts.copied(number)
        found.append(fronts.limit("a") - T0 - second * AHEAD_US)
    return found


def test_the_fewer_rows_a_backlog_has_the_longer_are_its_steps() -> None:
    assert set(steps(BacklogFronts(), [50_000] * 9)) == {AHEAD_US}
    assert steps(BacklogFronts(), [2_500] * 12)[-1] == 4 * AHEAD_US
    assert steps(BacklogFronts(), [1] * 30)[-1] == STEP_US


def test_where_they_become_many_nobody_runs_further_ahead_than_a_second() -> None:
    fronts = BacklogFronts()
    assert steps(fronts, [10] * 20)[-1] == STEP_US
    fronts.copied(2 * STEP_ROWS)
    assert fronts.limit("a") == T0 + 19 * AHEAD_US + AHEAD_US


def test_a_new_backlog_begins_with_short_steps() -> None:
    fronts = BacklogFronts()
    assert steps(fronts, [10] * 20)[-1] == STEP_US
    for key in ("a", "b"):
        fronts.note(key, None)
    fronts.copied(1)
    assert steps(fronts, [10])[-1] == AHEAD_US


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("seed", range(4))
def test_no_log_runs_further_ahead_of_another_whatever_appends_take(seed: int) -> None:
    seconds, every_us = 12, 50_000
    world = TopicWorld(partitions=2, seed=seed, start="earliest")
    world.run(seconds + 5)
    stimes = range(T0, T0 + seconds * 1_000_000, every_us)
    for stime in stimes:
        world.send(0, at=stime)
        world.send(1, at=stime)
    world.ingress()
    leads = []
    for _ in range(4_000):
        world.run(0.002)
        rows = [[row["at"] for row in world.copied(i).rows] for i in (0, 1)] if world.processes[0].owner else [[], []]
        if all(0 < len(one) < len(stimes) for one in rows):
            leads.append(max(max(one) for one in rows) - min(stimes[len(one)] for one in rows))
        if all(len(one) == len(stimes) for one in rows):
            break
    assert sorted(world.numbers()) == list(range(1, world.sent + 1))
    assert 0 < max(leads) <= AHEAD_US


def test_what_is_stored_of_a_partition_that_nobody_waits_for_is_forgotten() -> None:
    writer: Any = SimpleNamespace(made=0, stored=0)
    fronts = TopicFronts(BacklogFronts(), "t")
    for n in range(100):
        fronts.copied(0, n, 1, [writer])
        fronts.hold_up_nobody([0])
        writer.made = writer.stored = n + 1
    assert len(fronts._under_way[0]) == 1


@pytest.mark.parametrize("cut_s", [0.4, 3.0])
def test_a_backlog_waits_a_second_for_a_topic_whose_session_has_just_begun(cut_s: float) -> None:
    world = TopicWorld(partitions=1, start="earliest")
    world.send(0)
    world.run(5)
    twice(world, "b")
    world.memory.cut("b", ["shop.twice", "shop.settings"])
    world.copying()
    world.run(cut_s)
    assert world.numbers() == ([] if cut_s < 1 else [1])


def test_a_backlog_does_not_wait_for_a_topic_that_another_process_copies() -> None:
    world = TopicWorld(partitions=1, start="earliest")
    world.send(0)
    elsewhere = twice(world, "b")
    world.run(5)
    assert elsewhere.owner
    twice(world, "c")
    world.copying()
    assert world.numbers() == [1]


def twice(world: TopicWorld, name: str) -> SimIngress:
    """Another source that copies the topic, with an ingress in the world's process."""
    world.admin.create([TopicSpec("shop.twice", 1)])
    targets = tuple(replace(target, source="twice.0") for target in world.plan.targets)
    return SimIngress(world.scheduler, world.memory, replace(world.plan, targets=targets), name, 0, world.catch_up)
