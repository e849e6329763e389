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


ROUNDS = 5


def redo_of(app: Driven, a: Publisher, b: Publisher) -> int:
    """Lose b while rows come, and heal, again until a redo was done on Spark: one that a busy driver takes too late is
    done inline. Returns how many rows were sent: 0, 1, ..."""
    sent = 0
    for _ in range(ROUNDS):
        before = _redos(app)
        sent = rows_without_b(app, a, b, sent)
        lose_b(app, 0)
        until(lambda known=before: _redos(app) > known, "a redo")
        if "spark" in engines(app):
            return sent
    raise AssertionError(f"no redo on Spark in {ROUNDS} failures")


def rows_without_b(app: Driven, a: Publisher, b: Publisher, first: int) -> int:
    """Lose b, and send rows until 100 of a were tentative: one that comes late is not. Returns the end of those sent,
    from `first` on."""
    before, end = app.last(0).tentative_rows, first
    lose_b(app, time.time_ns() // 1000 + 120_000_000)
    until(lambda: app.last(0).state == "UPSTREAM_FAILURE", "UPSTREAM_FAILURE")

    def enough() -> bool:
        nonlocal end
        if app.last(0).tentative_rows >= before + 100:
            return True
        send((a, b), end, end + 20)
        end += 20
        return False

    until(enough, "the rows of a, tentative")
    return end


def _redos(app: Driven) -> int:
    return len({s.redo.at_wall_us for s in app.statuses() if s.redo is not None})


def engines(app: Driven) -> set[str]:
    """What redos ran on so far."""
    return {s.redo.engine for s in app.statuses() if s.redo is not None}
