"""This machine's clocks, in whole microseconds."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from borealis_py.log.clock import ClockWatch, SystemClock, least_ahead


def test_both_are_whole_microseconds_of_the_clocks_they_are_named_after() -> None:
    clock = SystemClock()
    for read, source in ((clock.now_us, time.monotonic_ns), (clock.wall_us, time.time_ns)):
        before, now, after = source(), read(), source()
        assert type(now) is int
        assert before // 1000 <= now <= after // 1000


TIMES = st.integers(0, 4 * 10**15)


@given(
    sent_us=TIMES,
    there_us=st.integers(0, 10**6),
    back_us=st.integers(0, 10**7),
    ahead_us=st.integers(-(10**14), 10**14),
)
def test_a_difference_is_never_told_larger_than_it_is(sent_us: int, there_us: int, back_us: int, ahead_us: int) -> None:
    """However long the record and its answer were under way. The log's times are whole milliseconds."""
    appended_ms = (sent_us - ahead_us + there_us) // 1_000
    found = least_ahead(sent_us, sent_us + there_us + back_us, appended_ms)
    assert min(0, ahead_us) <= found <= max(0, ahead_us)
    assert abs(found) >= abs(ahead_us) - max(there_us, back_us) - 1_000


def test_a_difference_is_reported_when_it_begins_changes_and_ends() -> None:
    watch = ClockWatch()
    found = [watch.changed(ahead) for ahead in (None, 0, 999_999, 1_500_000, 1_600_000, None, 3_700_000_000)]
    assert found == [
        *[None] * 3,
        "this machine's clock is 1.5 s ahead of the broker's",
        *[None] * 2,
        "this machine's clock is 3700.0 s ahead of the broker's",
    ]
    assert watch.changed(-3_700_000_000) == "this machine's clock is 3700.0 s behind the broker's"
    assert watch.changed(-100_000) == "this machine's clock agrees with the broker's again"
    assert watch.changed(0) is None
