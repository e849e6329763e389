"""How long a job is waited for, whatever jobs took before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from borealis_py.protocol.job_time import KEPT, SPARE, JobTime
from borealis_py.protocol.settings import Timing

JOBS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**8)), max_size=6)
TIMINGS = st.builds(
    lambda redo_us, more_us: Timing(redo_deadline_us=redo_us, stagger_us=redo_us + more_us),
    st.integers(1, 10**8),
    st.integers(1, 10**8),
)


def told(timing: Timing, jobs: list[tuple[int, int]]) -> JobTime:
    time = JobTime(timing)
    for rows, us in jobs:
        time.took(rows, us)
    return time


@given(TIMINGS, JOBS, st.integers(0, 10**6))
def test_it_lies_between_the_setting_and_t_and_the_old_are_forgotten(
    timing: Timing, jobs: list[tuple[int, int]], rows: int
) -> None:
    found = told(timing, jobs).deadline_us(rows)
    assert timing.redo_deadline_us <= found < timing.stagger_us
    assert found == told(timing, jobs[-KEPT:]).deadline_us(rows)
    assert found >= min(SPARE * max((us for _, us in jobs[-KEPT:]), default=0), timing.redo_deadline_most_us)


@given(TIMINGS, JOBS, st.integers(0, 10**6), st.integers(0, 10**6))
def test_more_rows_are_waited_for_longer_never_shorter(
    timing: Timing, jobs: list[tuple[int, int]], rows: int, more: int
) -> None:
    time = told(timing, jobs)
    assert time.deadline_us(rows) <= time.deadline_us(rows + more)


def test_rows_beyond_those_of_the_first_job_count_by_their_number() -> None:
    timing = Timing(redo_rows=1_000, redo_deadline_us=1_000_000, stagger_us=60_000_000)
    time = told(timing, [(0, 250_000)])
    assert [time.deadline_us(rows) for rows in (0, 1_000, 4_000)] == [3_000_000, 3_000_000, 12_000_000]
    time = told(timing, [(4_000, 1_000_000)])
    assert [time.deadline_us(rows) for rows in (0, 4_000, 6_000)] == [12_000_000, 12_000_000, 18_000_000]
