"""Tuples a second, out of statuses as they come."""

from __future__ import annotations

import pytest

from borealis_py.log.messages import InputStatus, Status
from borealis_py.observe.rates import Rates
from tests.support.statuses import WALL_US, status


def said(at_s: float, *tuples: int, **changes: object) -> Status:
    inputs = tuple(InputStatus(f"s{i}", 0, False, True, False, 0, count) for i, count in enumerate(tuples))
    return status(at_wall_us=WALL_US + round(at_s * 1e6), inputs=inputs, **changes)


def rates(*statuses: Status) -> dict[tuple[str, int], tuple[float, ...]]:
    it = Rates()
    it.add_statuses(statuses)
    return dict(it.per_second())


def test_each_input_has_its_own() -> None:
    assert rates(said(0, 100, 7), said(1, 400, 7), said(2, 900, 9)) == {("q", 0): (400.0, 1.0)}


def test_one_reading_or_two_close_together_tell_nothing() -> None:
    assert rates(said(0, 100)) == rates(said(0, 100), said(0.4, 200)) == {}
    assert rates(said(0, 100), said(0.4, 200), said(0.5, 300)) == {("q", 0): (400.0,)}


def test_what_is_long_ago_does_not_count() -> None:
    assert rates(*(said(s, 1_000 * min(s, 5)) for s in range(10))) == {("q", 0): (0.0,)}
    assert rates(*(said(s, 1_000 * s * s) for s in range(7))) == {("q", 0): ((36_000 - 9_000) / 3,)}


def test_a_status_after_a_long_silence_counts_since_the_one_before_it() -> None:
    assert rates(said(0, 0), said(1, 100), said(21, 2_100)) == {("q", 0): (100.0,)}


@pytest.mark.parametrize(
    "anew", [[said(2, 10, uid="next"), said(3, 30, uid="next")], [said(-60, 10), said(-59, 30)]], ids=["inc", "clock"]
)
def test_a_new_incarnation_and_a_clock_set_back_start_over(anew: list[Status]) -> None:
    assert rates(said(0, 5_000), said(1, 6_000), anew[0]) == {}
    assert rates(said(0, 5_000), said(1, 6_000), *anew) == {("q", 0): (20.0,)}


def test_replicas_are_told_apart() -> None:
    assert rates(said(0, 0), said(0, 0, replica=1), said(1, 10), said(1, 30, replica=1)) == {
        ("q", 0): (10.0,),
        ("q", 1): (30.0,),
    }
