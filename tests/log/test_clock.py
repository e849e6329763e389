"""This machine's clocks, in whole microseconds."""

from __future__ import annotations

import time

from borealis_py.log.clock import SystemClock


def test_both_are_whole_microseconds_of_the_clocks_they_are_named_after() -> None:
    clock = SystemClock()
    for read, source in ((clock.now_us, time.monotonic_ns), (clock.wall_us, time.time_ns)):
        before, now, after = source(), read(), source()
        assert type(now) is int
        assert before // 1000 <= now <= after // 1000
