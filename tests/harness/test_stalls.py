"""What came late is excused by stalls that a witness saw, and by nothing else."""

from __future__ import annotations

from tests.harness.machine import STALL_US, Stalls

BUCKET_US, LATE_US = 100_000, 3_000_000


class Clock:
    """Says the time that it was set to."""

    def __init__(self) -> None:
        self.at_us = 0

    def __call__(self) -> int:
        return self.at_us


def looking(*at_us: int) -> Stalls:
    """A witness that has looked at these times, the last of which is now."""
    clock = Clock()
    stalls = Stalls(clock)
    for clock.at_us in at_us:
        stalls.look()
    return stalls


def test_where_nothing_stalled_nothing_is_excused() -> None:
    stalls = looking(*range(0, 20_000_000, STALL_US))
    assert stalls.unexcused(range(150), BUCKET_US, LATE_US) == list(range(150))


def test_a_stall_excuses_the_buckets_whose_results_were_due_while_it_lasted() -> None:
    stalls = looking(*range(0, 7_000_001, 200_000), 7_500_000, *range(7_600_000, 20_000_000, 200_000))
    assert stalls.seen == [(7_000_000, 7_500_000)]
    found = stalls.unexcused(range(150), BUCKET_US, LATE_US)
    assert sorted(set(range(150)) - set(found)) == list(range(40, 75))  # due from 7.1 s on, begun before 7.5 s


def test_one_that_goes_on_counts_already() -> None:
    clock = Clock()
    stalls = Stalls(clock)
    clock.at_us = 5_000_000
    assert stalls.between(4_000_000, 4_100_000) == [(0, 5_000_000)]
