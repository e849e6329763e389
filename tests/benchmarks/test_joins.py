"""`make bench NAME=join`: both kinds are measured, over as many rows as were asked for. No speeds."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from benchmarks.experiments import join
from benchmarks.measure.kernel.joins import JoinFigures, JoinOptions, measure
from borealis_py.bench.console import bars_on
from borealis_py.bench.figures import BenchError, Percentiles

SMALL = JoinOptions(rows_per_s=400, within_s=2, keys=50, buckets=10)


def measured(how: str, options: JoinOptions) -> JoinFigures:
    with bars_on(Console(file=io.StringIO())) as bars:
        return measure(how, options, bars)


def test_both_kinds_of_join_are_measured() -> None:
    inner, left = (measured(how, SMALL) for how in join.HOWS)
    assert (inner.how, left.how) == ("inner", "left")
    assert inner.bucket.count == left.bucket.count == 10
    assert left.pairs >= inner.pairs > 0
    assert left.kept > inner.kept >= 400, "an inner join within (0s, ...) keeps its left side only"


def test_a_join_without_pairs_is_no_figure() -> None:
    with pytest.raises(BenchError, match="the inner join gave no pairs"):
        measured("inner", JoinOptions(rows_per_s=20, within_s=1, keys=10**9, buckets=1))


def test_the_usual_size_is_that_of_the_goal() -> None:
    how, case = join.cases("usual")[-1]
    assert (how, case.rows_per_s, case.within_s, case.keys) == ("left", 10_000, 60, 100_000)


def test_the_report_tells_what_misses_the_goal_and_what_keeping_rows_costs() -> None:
    cases = join.cases("usual")
    fast = JoinFigures(
        "inner", Percentiles(300, 9.0, 15.0, 20.0), Percentiles(300, 8.0, 14.0, 19.0), 50.0, 1_000, 54_000
    )
    cheap = replace(fast, cpu=Percentiles(300, 6.0, 7.0, 9.0))
    slow = replace(fast, how="left", bucket=Percentiles(300, 30.0, 41.0, 60.0))
    found = join.outcome(cases, [cheap, fast, replace(cheap, how="left"), slow])
    assert found.worse == "Above the goal: left join, p99 41 ms."
    assert found.rows[1][:4] == ["inner", "60 s", "9.0", "15.0"]
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert found.ratios["inner join, a tenth of the rows kept to all"] == pytest.approx(6 / 8)
    assert [panel.bound for panel in found.panels] == [40.0, 40.0]
