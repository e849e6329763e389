"""What the redos of an app on Spark ran on."""

from __future__ import annotations

from borealis_py.client.publisher import Publisher
from tests.harness.waiting import until
from tests.runtime.spark.driven import Driven
from tests.support.without_b import lose_b, rows_without_b

ROUNDS = 5


def redo_of(app: Driven, a: Publisher, b: Publisher) -> int:
    """Lose b while rows come, and heal, again until a redo was done on Spark: one that a busy driver takes too late is
    done inline. Returns how many rows were sent: 0, 1, ..."""
    sent = 0
    for _ in range(ROUNDS):
        before = _redos(app)
        sent = rows_without_b(app, (a, b), sent)
        lose_b(app, 0)
        until(lambda known=before: _redos(app) > known, "a redo")
        if "spark" in engines(app):
            return sent
    raise AssertionError(f"no redo on Spark in {ROUNDS} failures")


def _redos(app: Driven) -> int:
    return len({s.redo.at_wall_us for s in app.statuses() if s.redo is not None})


def engines(app: Driven) -> set[str]:
    """What redos ran on so far."""
    return {s.redo.engine for s in app.statuses() if s.redo is not None}
