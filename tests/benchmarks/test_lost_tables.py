"""`make bench NAME=lost-input`: which cases are measured, and what is told of them."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from benchmarks.experiments import lost_input
from benchmarks.experiments.lost_input import Healing, LostCase, LostFound, Partials
from benchmarks.measure.windows import Finals
from borealis_py.bench.events import BUCKET_US, WINDOW_US
from borealis_py.bench.figures import Percentiles

T0 = 1_800_000_000_000_000
SECOND = 1_000_000


def found_of(case: LostCase, longest_ms: float = 400.0, live_s: float | None = 0.3) -> LostFound:
    usual, during = Percentiles(8, 14.0, 40.0, 40.0), Percentiles(15, 150.0, longest_ms, longest_ms)
    good = Finals(right=100, wrong=0, missing=0, repeated=0, counted=900)
    return LostFound(
        case=case,
        live={"before": usual, "during": during, "after": usual},
        corrected={"before": usual, "during": None, "after": usual},
        unheard=0,
        published=900,
        partials=Partials(windows=10, words=10, labelled=10, tentative=10, whole=1, records=40, finals=30),
        live_finals=good,
        corrected_finals=good,
        dropped=0,
        refused=0,
        healing=Healing(live=live_s, corrected=0.4, replicas=0.5, uncorrected=0, engines={}),
        burst_s=0.1,
        curve=[(0.1, 0.4, 2.2), (1.1, 0.15, 1.2)],
    )


def test_ratios_are_one_where_all_is_kept_and_fall_with_what_is_not() -> None:
    case = LostCase(threshold_s=0.5, silence_s=15)
    key = (900, 0.5, 15)
    name = "900/s, X 0.5 s, silent 15 s: "
    assert lost_input.ratios(key, [found_of(case)]) == {
        name + "X / longest live delay": 1.25,
        name + "partial results that are labelled": 1.0,
        name + "final results that are right": 1.0,
        name + "events that are counted": 1.0,
        name + "goal / time to correct": 1.0,
    }
    bad = replace(
        found_of(case, 1_000.0, 1.0),
        partials=Partials(windows=10, words=10, labelled=5, tentative=10, whole=0, records=40, finals=30),
        corrected_finals=Finals(right=80, wrong=10, missing=10, repeated=0, counted=450),
        dropped=450,
    )
    assert list(lost_input.ratios(key, [bad]).values()) == [0.5, 0.5, 0.8, 0.5, 0.5]


def test_of_several_runs_the_medians_are_told() -> None:
    runs = [found_of(LostCase(threshold_s=3, silence_s=15, run=n), ms, s) for n, ms, s in ((1, 90, 0.3), (2, 70, 0.9))]
    told = lost_input.outcome([*runs, found_of(LostCase(threshold_s=3, silence_s=30), 50, None)], "process")
    assert [row[:4] for row in told.rows] == [
        ["900", "3", "15", "live"],
        ["900", "3", "15", "corrected"],
        ["900", "3", "30", "live"],
        ["900", "3", "30", "corrected"],
    ]
    assert told.rows[0][4:] == ["14/40/40", "150/80/80", "14/40/40", "20 of 20", "0", "", "1.00", "1.33", "0.60"]
    assert told.rows[1][4:] == ["14/40/40", "none", "14/40/40", "", "0", "0", "", "", "0.40"]
    assert told.rows[2][-1] == ""
    assert all(len(row) == len(told.columns) for row in told.rows)
    assert len(msgspec.json.decode(msgspec.json.encode(told.data))["cases"]) == 3
    live_curve = told.panels[-1].curves[0]
    assert (live_curve.x, live_curve.y) == ([15.0], [0.6])
    assert told.panels[0].bound == 3


def test_the_text_counts_what_was_not_kept() -> None:
    case = LostCase(threshold_s=0.5, silence_s=15)
    late = replace(found_of(case, 700.0, 5.0), live_finals=Finals(right=99, wrong=1, missing=0, repeated=0, counted=9))
    said = lost_input.worse([found_of(case), late])
    assert "A result waited longer than X in 1 of 2 cases" in said
    assert "later than the goal in 1: 5.00 s after 15 s at 900/s with X = 0.5 s (0.5)." in said
    assert "1 final results were not as they should be" in said
    assert "not as they should be" not in lost_input.worse([found_of(case)])


def test_what_was_promised_and_not_kept_is_named() -> None:
    good = found_of(LostCase(threshold_s=0.5, silence_s=15))
    assert "labelled" not in lost_input.worse([good])
    partials = Partials(windows=10, words=10, labelled=8, tentative=11, whole=0, records=41, finals=30)
    said = lost_input.worse([good, replace(good, partials=partials, dropped=3, unheard=4)])
    assert said.endswith("2 partial results were not labelled. 3 events were not counted. 4 windows had no result."), (
        "1.05 tentative records for each partial window are the goal"
    )
    many = replace(good, partials=replace(partials, tentative=12))
    assert "1.10 tentative records came for each partial window (goal: 1.05)." in lost_input.worse([good, many])


def test_corrections_are_judged_by_who_gets_the_last_one_and_slow_rates_by_goals_of_their_own() -> None:
    late = found_of(LostCase(threshold_s=3, silence_s=60), live_s=0.3)
    late = replace(late, healing=replace(late.healing, corrected=1.1))
    assert "later than the goal in 1: 1.10 s after 60 s at 900/s with X = 3 s (1)." in lost_input.worse([late])
    fast = replace(late, case=replace(late.case, rate=10_000))
    assert "later than the goal in 0." in lost_input.worse([fast])
    assert [lost_input.goal_s(900, s) for s in (15, 30, 60)] == [0.5, 0.7, 1.0]
    assert [lost_input.goal_s(10_000, s) for s in (15, 30, 60)] == [0.8, 1.1, 1.7]


def test_what_is_compared_is_measured_in_every_size_and_the_usual_one_takes_eight_minutes() -> None:
    short, usual, full = (
        {(c.rate, c.threshold_s, c.silence_s) for c in lost_input.cases(s)} for s in ("short", "", "full")
    )
    assert short < usual < full
    around_s = 14  # starting the broker, replicas and publishers, END, stopping, as measured
    assert sum(case.length_s + around_s for case in lost_input.cases("usual")) <= 480
    apps = [case.app for case in lost_input.cases("full")]
    assert len(set(apps)) == len(apps)


def test_the_silence_begins_a_bucket_before_a_window_ends() -> None:
    plan = LostCase(threshold_s=3, silence_s=15).plan(T0)
    assert (plan.silent_from_us + BUCKET_US) % WINDOW_US == 0
    assert plan.silent_until_us - plan.silent_from_us == 15 * SECOND
    assert plan.seconds == 3 + 7 + 15 + 7
