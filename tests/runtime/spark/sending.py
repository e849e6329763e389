"""Rows sent to an app on Spark, and what its redos ran on."""

from __future__ import annotations

import time

from borealis_py.app.state import put_settings
from borealis_py.client.publisher import Publisher
from borealis_py.log.messages import SourceFailure
from tests.runtime.spark.driven import Driven
from tests.support.running import until


def send(publishers: tuple[Publisher, Publisher], first: int, end: int) -> None:
    """Even numbers to a, odd ones to b."""
    for n in range(first, end):
        publishers[n % 2].send({"n": n})


def lose_b(app: Driven, until_us: int) -> None:
    put_settings(app.log, app.name, {"fail/b": SourceFailure(until_us)})


def redo_of(app: Driven, a: Publisher, b: Publisher) -> None:
    """Lose b while 200 rows come, and heal; until a redo was done on Spark."""
    lose_b(app, time.time_ns() // 1000 + 120_000_000)
    until(lambda: app.last(0).state == "UPSTREAM_FAILURE", "UPSTREAM_FAILURE")
    send((a, b), 0, 200)
    until(lambda: app.last(0).tentative_rows >= 100, "the rows of a, tentative")
    lose_b(app, 0)
    until(lambda: "spark" in engines(app), "a redo on Spark")


def engines(app: Driven) -> set[str]:
    """What redos ran on so far."""
    return {s.redo.engine for s in app.statuses() if s.redo is not None}
