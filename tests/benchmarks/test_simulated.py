"""Experiments in the simulator: what a client saw is counted right, and a product that is late is seen to be late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from benchmarks.experiments.points import simulated
from benchmarks.experiments.points.simulated import (
    PROCESS,
    SUSPEND,
    CountingPicture,
    PointResults,
    SimulatedPoint,
    see,
    see_all,
)
from borealis_py.bench.figures import BenchError
from borealis_py.log.stream import Encoded
from borealis_py.protocol import delay
from borealis_py.simulation.cluster.world import SimulatedWorld
from sunion.model import Kind, Output
from sunion.view import Change
from tests.benchmarks.points import SMALL, seen


def rows(*values: int) -> Output:
    return Output(Encoded((msgspec.json.encode([[0, "row", value, 0] for value in values]),)))


# What is counted ------------------------------------------------------------------------------------------------------


def test_what_came_tentatively_is_counted_each_time_and_the_end_of_it_is_noted() -> None:
    picture = CountingPicture(7)
    picture.apply(100, [Change(Kind.TENTATIVE, 7, 8, rows(1, 2)), Change(Kind.TENTATIVE, 8, 9, rows(1))])
    picture.apply(200, [Change(Kind.TENTATIVE, 8, 9, rows(1, 2, 3))])
    assert (picture.tentative_rows, picture.tentative_seen, picture.corrected_us) == (6, 3, 0)
    picture.apply(300, [Change(Kind.UNDO, 7, 7), Change(Kind.STABLE, 7, 8, rows(1, 2, 3))])
    assert picture.corrected_us == 0, "bucket 8 is still tentative"
    picture.apply(400, [Change(Kind.STABLE, 8, 9, rows(1, 2, 3))])
    assert (picture.tentative_rows, picture.corrected_us) == (6, 400)
    assert picture.arrival == {7: 100, 8: 100}


@pytest.mark.parametrize(
    ("about", "kept"),
    [({}, True), ({"added_ms": 3_000.1}, False), ({"silent": 1}, False), ({"broken": "the oracle's word"}, False)],
)
def test_a_bound_is_kept_only_if_every_bucket_came_in_time(about: dict[str, Any], kept: bool) -> None:
    assert seen(**about).within is kept


def test_of_seeds_the_worst_delay_counts_and_the_mean_of_the_rest() -> None:
    found = PointResults(
        [seen(added_ms=1_000.0), seen(replace(SMALL, seed=2), 3_500.0, tentative_rows=300, corrected_s=4.0)]
    )
    cell = found.at(SMALL)
    assert (cell.added_s, cell.tentative_rows, cell.corrected_s, cell.within) == (3.5, 200, 3.0, False)
    assert found.broken() == [SMALL]
    assert len(found.data()) == 2
    assert found.get(replace(SMALL, depth=2)) is None


def test_a_curve_has_only_what_was_measured() -> None:
    found = PointResults([seen(), seen(replace(SMALL, depth=3, replicas=1), 2_500.0)])
    lines = [[replace(SMALL, depth=d, replicas=n) for d in (1, 2, 3)] for n in (2, 1, 5)]
    two, one = found.curves(lines, "added_s", lambda point: point.depth)
    assert (two.label, two.x, two.y) == ("process & process", [1], [2.0])
    assert (one.label, one.x, one.y) == ("process & process, one replica", [3], [2.5])


# Worlds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.sim
def test_a_lost_source_is_waited_for_once_and_its_rows_are_corrected() -> None:
    one = see(SMALL)
    assert one.within
    assert 2_500 < one.added_ms < 3_000, "D is X less 250 ms"
    assert 0 <= one.added_at_s <= 0.2, "the first bucket that lacks it waits longest"
    late = {at: ms for at, ms in one.over_time if at > 3}
    assert max(late.values()) < 500, "later ones wait for delta"
    assert one.tentative_buckets >= 35
    assert one.tentative_rows >= one.tentative_buckets
    assert 0 < one.corrected_s < 3
    assert see(SMALL) == one


@pytest.mark.sim
def test_a_failure_shorter_than_what_may_be_waited_shows_nothing_tentative() -> None:
    one = see(replace(SMALL, failure_s=2))
    assert (one.tentative_rows, one.tentative_buckets, one.corrected_s) == (0, 0, 0)
    assert 1_800 < one.added_ms < 2_300


@pytest.mark.sim
def test_a_product_that_waits_too_long_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = delay.ready_at

    def later(*args: Any, **waits: int) -> int | None:
        at = usual(*args, **waits)
        return None if at is None else at + 800_000

    monkeypatch.setattr(delay, "ready_at", later)
    one = see(SMALL)
    assert not one.within
    assert one.added_ms > 3_300
    assert one.broken is not None


@pytest.mark.sim
def test_a_product_that_is_wrong_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = CountingPicture.apply
    monkeypatch.setattr(CountingPicture, "apply", lambda self, now, changes: apply(self, now, [*changes, *changes]))
    with pytest.raises(BenchError, match="oracle 'client'"):
        see(SMALL)


@pytest.mark.sim
def test_who_suspends_is_late_alone_and_not_beside_another() -> None:
    slow = replace(SMALL, failure_s=15, variant=(PROCESS, SUSPEND), replicas=1, rows_per_s=500)
    alone, together = see(slow), see(replace(slow, replicas=2))
    assert not alone.within
    assert alone.added_ms > 4_000, "2 250 rows at 500 a second"
    assert together.within


@pytest.mark.sim
def test_points_are_told_in_their_order_whoever_lives_through_them() -> None:
    points = [replace(SMALL, failure_s=f, rate=10) for f in (2, 1)]
    here = list(see_all(points, processes=1))
    assert [done for done, _ in here] == [1, 2]
    assert [one.point for _, one in here] == points
    assert list(see_all(points, processes=2)) == here


@pytest.mark.sim
def test_a_chain_reads_its_sources_at_its_head_alone() -> None:
    world = SimulatedWorld(replace(SMALL, depth=3).scenario())
    assert [(n.name, n.inputs, n.replicas) for n in world.scenario.nodes] == [
        ("n1", ("s0", "s1", "s2"), 2),
        ("n2", ("n1",), 2),
        ("q", ("n2",), 2),
    ]
    assert world.scenario.heal_us > SMALL.heals_us > simulated.FAILS_US


@pytest.mark.sim
@pytest.mark.parametrize("replicas", [1, 2])
def test_results_stay_in_time_while_a_backlog_of_slow_rows_is_corrected(replicas: int) -> None:
    """Found by `make bench NAME=policies`: a slice of 20 000 rows of 22 us each lasted 0.44 s: an absence."""
    seen = see(SimulatedPoint(depth=1, failure_s=60, threshold_s=3.0, replicas=replicas, rows_per_s=5_000))
    assert (seen.broken, seen.silent) == (None, 0)
    assert seen.added_ms <= 3_000
