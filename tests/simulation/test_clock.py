"""Simulated time: order, and no surprises at the edges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from borealis_py.simulation.clock import Scheduler


@given(st.lists(st.integers(0, 20)))
def test_events_run_by_time_and_then_in_the_order_they_were_asked_for(times: list[int]) -> None:
    scheduler, ran = Scheduler(), []
    for i, time in enumerate(times):
        scheduler.at(time, lambda i=i, time=time: ran.append((scheduler.now_us, time, i)))
    scheduler.run_until(20)
    assert [(t, i) for t, _, i in ran] == sorted((t, i) for i, t in enumerate(times))
    assert all(now == asked for now, asked, _ in ran)
    assert scheduler.now_us == 20
    assert scheduler.next_us is None


def test_run_until_runs_what_events_ask_for_on_the_way_and_stops_at_its_time() -> None:
    scheduler, ran = Scheduler(100), []

    def again() -> None:
        ran.append(scheduler.now_us)
        scheduler.after(10, again)

    scheduler.at(0, again)  # in the past: now
    scheduler.run_until(125)
    assert ran == [100, 110, 120]
    assert (scheduler.now_us, scheduler.next_us) == (125, 130)
    assert scheduler.step()
    assert ran[-1] == scheduler.now_us == 130
    assert not Scheduler().step()
