"""What the rows of `very_late` tell of the weather: for the demo's report and picture. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from borealis_py.demo.data import SPEED, START

POOR_MILES = 3.0
"""Below this visibility an airport lands and starts by instruments alone."""


@dataclass(frozen=True, slots=True)
class Sight:
    """Of the very late flights: how many there are, how many have a weather report, how many left in poor visibility.
    `worst`: (seconds since T0, miles) of each interval with such flights, the lowest visibility that one of them has.
    """

    flights: int
    reported: int
    poor: int
    worst: tuple[tuple[float, float], ...]


def sight_of(rows: Sequence[Mapping[str, Any]], bucket_us: int) -> Sight:
    """Rows as a subscriber gets them; intervals are as long as buckets."""
    worst: dict[int, float] = {}
    miles = [row["visibility"] for row in rows if row["visibility"] is not None]
    for row in rows:
        if row["visibility"] is not None:
            at = (datetime.fromisoformat(f"{row['hour']}:00") - START) // timedelta(microseconds=bucket_us * SPEED)
            worst[at] = min(worst.get(at, row["visibility"]), row["visibility"])
    found = tuple((at * bucket_us / 1e6, worst[at]) for at in sorted(worst))
    return Sight(len(rows), len(miles), sum(m < POOR_MILES for m in miles), found)
