"""`make bench NAME=memory`: when memory counts as flat, and what counts as lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.experiments.memory import (
    COLUMNS,
    CORRECTING,
    HOURS,
    LIVE,
    Look,
    Replayed,
    WindowAnswer,
    flatness,
    outcome,
)

BUDGET = 1_000_000
GOOD = WindowAnswer(expected=100, right=100, wrong=0, counted=4_000_000, dead_letters=0)


def look(rows: int, mb: float, phase: str = LIVE, at: int = 0) -> Look:
    return Look(replica=0, at_s=rows / 1e5, phase=phase, rows_read=rows, live=at, stable=at, pss_mb=mb)


def replayed(*looks: Look, answer: WindowAnswer = GOOD) -> Replayed:
    return Replayed(
        host="process",
        budget=BUDGET,
        seconds=3600,
        rows=(2_000_000, 2_000_000),
        looks=list(looks),
        live_s=1.0,
        corrected_s=2.0,
        restarts=0,
        tentative_buckets=36_000,
        buckets=36_000,
        answer=answer,
    )


FLAT = (
    look(0, 100.0),
    look(1_000_000, 300.0, at=0),
    look(2_000_000, 310.0, at=100),
    look(4_000_000, 320.0, CORRECTING, at=0),
    look(4_000_000, 330.0, CORRECTING, at=50),
    look(4_000_000, 340.0, CORRECTING, at=51),
    look(4_000_000, 315.0, CORRECTING, at=100),
)


def test_what_is_flat_and_lost_nothing() -> None:
    found = outcome(replayed(*FLAT))
    assert found.rows == [["0", "100", "300", "300", "310", "330", "340", "315", "1.03", "200", "10"]]
    assert len(found.columns) == len(COLUMNS) == len(found.rows[0])
    assert found.worse == "nothing was lost: 100 results, each right"
    assert found.ratios == {
        "memory in the first half to the second": pytest.approx(300 / 310),
        "final results that are right": 1.0,
        "rows that are counted": 1.0,
        "buckets that ran live": 1.0,
    }


@pytest.mark.parametrize(("phase", "growth"), [(LIVE, 2.0), (CORRECTING, 600 / 330)])
def test_memory_that_goes_on_growing_is_told_in_either_phase(phase: str, growth: float) -> None:
    found = outcome(replayed(*FLAT, look(3_000_000, 600.0, phase, at=100)))
    assert f"not flat: in the second half of a phase up to {growth:.2f} times" in found.worse
    assert found.ratios["memory in the first half to the second"] == pytest.approx(1 / growth)


def test_what_corrections_always_take_is_no_growth() -> None:
    busy = [replace(each, pss_mb=900.0) if each.phase == CORRECTING else each for each in FLAT]
    worse = outcome(replayed(*busy)).worse
    assert "not flat" not in worse
    assert worse.endswith(f"; correcting takes {900 / 310:.2f} times the memory of running live")


def test_the_worst_replica_counts() -> None:
    other = [replace(each, replica=1) for each in (*FLAT, look(4_000_000, 495.0, CORRECTING, at=100))]
    assert "up to 1.50 times" in outcome(replayed(*FLAT, *other)).worse


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (replace(GOOD, right=99), "1 of 100 results are missing or wrong"),
        (replace(GOOD, wrong=1), "1 results are none"),
        (replace(GOOD, counted=3_999_999), "3999999 of 4000000 rows are counted"),
        (replace(GOOD, dead_letters=2), "2 dead letters"),
    ],
)
def test_whatever_is_lost_is_told(answer: WindowAnswer, said: str) -> None:
    found = outcome(replayed(*FLAT, answer=answer))
    assert found.worse == f"LOST: {said}"


def test_restarts_and_buckets_that_did_not_run_live_are_told() -> None:
    found = outcome(replace(replayed(*FLAT), restarts=1, tentative_buckets=35_000))
    assert "replicas started again 1 times" in found.worse
    assert "1,000 of 36,000 buckets never ran live" in found.worse


@pytest.mark.parametrize("rows", [999_999, 1_000_000])
def test_a_budget_that_was_never_full_has_no_figure(rows: int) -> None:
    with pytest.raises(ValueError, match="was not seen live with"):
        flatness([look(rows, 100.0), look(rows, 100.0, CORRECTING)][: 2 if rows < BUDGET else 1], 0, BUDGET)


def test_a_replica_that_jumped_is_as_high_as_before() -> None:
    found = flatness([look(BUDGET, 100.0), look(BUDGET, 120.0, CORRECTING, at=7)], 0, BUDGET)
    assert (found.live_mb, found.correcting_mb) == ((100.0, 100.0), (120.0, 120.0))


@pytest.mark.parametrize("hour", HOURS.values())
def test_the_first_source_alone_is_more_than_the_budget(hour) -> None:
    rows = hour.input
    assert rows.per_bucket[0] * rows.buckets > 1.5 * hour.budget
    assert rows.buckets == 10 * hour.seconds
