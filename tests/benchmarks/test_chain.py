"""`make bench NAME=chain` and `policies`: which worlds, and what their tables, ratios and figures say of them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from benchmarks.experiments import chain, policies
from benchmarks.experiments.points.simulated import SUSPEND, VARIANTS, PointOutcome, PointResults, SimulatedPoint
from benchmarks.report.outcome import Outcome
from tests.benchmarks.points import seen

AUTHORS = PointResults([seen(point, 1_500.0) for point, _ in chain.AUTHORS.values()])


def told(points: list[SimulatedPoint], late: tuple[SimulatedPoint, ...] = ()) -> tuple[Outcome, Outcome]:
    """What both experiments would say: 2.5 s everywhere, 5 s in the `late` ones."""

    def one(point: SimulatedPoint) -> PointOutcome:
        return seen(point, 5_000.0 if point in late else 2_500.0)

    def of(wanted: Callable[[SimulatedPoint], bool]) -> PointResults:
        return PointResults([one(p) for p in points if wanted(p)])

    def for_real(module: ModuleType) -> PointResults:
        return PointResults([one(p) for p in module.real_points("usual") if p in points])

    return (
        chain.outcome(
            PointResults([one(p) for p in points if p.rate != policies.RATE]), AUTHORS, for_real(chain), "process"
        ),
        policies.outcome(
            PointResults([one(p) for p in points if p.rate == policies.RATE]), for_real(policies), "process"
        ),
    )


def all_of(size: str) -> list[SimulatedPoint]:
    return [*chain.points(size), *policies.points(size)]  # type: ignore[arg-type]


def test_each_size_has_the_worlds_of_the_smaller_ones() -> None:
    short, usual, full = (set(all_of(size)) for size in ("short", "usual", "full"))
    assert short < usual < full


@pytest.mark.parametrize("module", [chain, policies])
def test_all_variants_depths_and_lengths_are_there(module: type) -> None:
    points = module.points("usual")  # type: ignore[attr-defined]
    assert len(points) == len(set(points))
    assert {p.variant for p in points} == set(VARIANTS)
    assert {p.depth for p in points} == ({1, 2, 3, 4} if module is chain else {1})
    assert {p.failure_s for p in points} >= {15, 30, 60}
    if module is chain:
        assert {p.threshold_s for p in points} == {3.0, 6.0, 12.0}
        assert all(p.threshold_s == 3 * p.depth for p in points if p.threshold_s > 3)


@pytest.mark.parametrize("size", ["short", "usual", "full"])
def test_every_size_tells_the_same_ratios(size: str) -> None:
    for one, short in zip(told(all_of(size)), told(all_of("short")), strict=True):
        assert one.ratios == short.ratios
        assert all(len(row) == len(one.columns) for row in one.rows)
        assert all(panel.curves for panel in one.panels if size != "short")


def test_ratios_fall_when_results_come_later() -> None:
    points = all_of("short")
    slow = tuple(p for p in points if p.failure_s == chain.SHOWN_S)
    for before, after in zip(told(points), told(points, slow), strict=True):
        named = [name for name in before.ratios if name.startswith("X over delay")]
        assert named
        assert all(after.ratios[name] == pytest.approx(before.ratios[name] / 2) for name in named)


def test_what_was_too_late_is_marked_and_named() -> None:
    points = all_of("usual")
    alone = tuple(p for p in points if p.variant[1] is SUSPEND and p.replicas == 1 and p.failure_s == 60)
    of_chain, of_policies = told(points, alone)
    marked = [row for row in of_chain.rows if any("!" in cell for cell in row)]
    assert [tuple(row[1:4]) for row in marked] == [("process & suspend", "1", str(depth)) for depth in chain.ENDS]
    assert "one replica that suspends is 5.0 s late" in of_chain.worse
    assert [row[:2] for row in of_policies.rows if any("!" in cell for cell in row)] == [["1", "60"]]
    assert "process & suspend with 1 replica is 5.0 s late after 60 s" in of_policies.worse
    assert sum(not point["within_x"] for point in of_policies.data["points"]) == 2


def test_what_is_late_in_a_chain_is_named_for_real_too_and_what_breaks_in_the_paper_is_told_of() -> None:
    points = all_of("usual")
    told_of = "process & suspend, which breaks X in the paper, keeps it here"
    in_time = told(points)[0].worse
    assert told_of in in_time
    assert "breaks X:" not in in_time
    late = told(points, (chain.real_points("short")[0],))[0].worse
    assert "process & process breaks X: 5.0 s (4 nodes, 15 s, 2 replicas)" in late
    assert "process & process, real breaks X: 5.0 s (4 nodes, 15 s, 2 replicas)" in late
    suspending = next(p for p in points if p.variant == chain.PS and p.threshold_s == 3.0 and p.rate != policies.RATE)
    assert told_of not in told(points, (suspending,))[0].worse


def test_a_policy_that_breaks_x_for_real_is_named() -> None:
    points = all_of("usual")
    assert "real breaks" not in told(points)[1].worse
    assert (
        "process & process, real breaks X: 5.0 s with 2 replicas"
        in told(points, (policies.real_points("short")[0],))[1].worse
    )


def test_the_authors_own_figures_stand_beside_ours() -> None:
    of_chain, _ = told(all_of("short"))
    for _, published_s in chain.AUTHORS.values():
        assert f"{published_s:.2f} s, here 1.50 s" in of_chain.published
