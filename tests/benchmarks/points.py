"""What a point of a simulated experiment saw, made by hand."""

from __future__ import annotations

from typing import Any

from benchmarks.experiments.points.simulated import PointOutcome, SimulatedPoint

SMALL = SimulatedPoint(depth=1, failure_s=4, threshold_s=3.0, rate=50)


def seen(point: SimulatedPoint = SMALL, added_ms: float = 2_000.0, **about: Any) -> PointOutcome:
    """As if it had been lived through."""
    usual = {"usual_ms": 15.0, "added_at_s": 0.0, "silent": 0, "tentative_rows": 100, "tentative_buckets": 10}
    return PointOutcome(**{  # type: ignore[arg-type]
        "point": point, "added_ms": added_ms, "corrected_s": 2.0, "over_time": [(0.1, added_ms)], "broken": None,
        **usual, **about,
    })  # fmt: skip
