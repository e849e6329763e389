"""Rows sent to an app of sources a and b, and b lost meanwhile."""

from __future__ import annotations

import time

from borealis_py.client.publisher import Publisher
from tests.harness.launching import cut_off
from tests.harness.running import RunningApp
from tests.harness.waiting import until


def send(publishers: tuple[Publisher, Publisher], first: int, end: int) -> None:
    """Even numbers to a, odd ones to b."""
    for n in range(first, end):
        publishers[n % 2].send({"n": n})


def lose_b(app: RunningApp, until_us: int) -> None:
    cut_off(app.log, app.name, ["b"], until_us)


def rows_without_b(app: RunningApp, publishers: tuple[Publisher, Publisher], first: int = 0) -> int:
    """Lose b, and send rows until 100 of a were tentative at replica 0: one that comes late is not. Returns the end of
    those sent, from `first` on."""
    before, end = app.last(0).tentative_rows, first
    lose_b(app, time.time_ns() // 1000 + 120_000_000)
    until(lambda: app.last(0).state == "UPSTREAM_FAILURE", "UPSTREAM_FAILURE")

    def enough() -> bool:
        nonlocal end
        if app.last(0).tentative_rows >= before + 100:
            return True
        send(publishers, end, end + 20)
        end += 20
        return False

    until(enough, "the rows of a, tentative")
    return end
