"""Tuples per second of each input of each replica, computed from the counts in successive statuses.

Pure: knows no log, and no clock other than the wall times in the statuses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from borealis_py.app.state import ReplicaKey
from borealis_py.log.messages import Status

SPAN_US = 3_000_000
"""A rate covers the last three seconds: statuses come once a second, and tuples in buckets."""
LEAST_US = 500_000
"""Minimum span of a rate: statuses of events may be close together."""


@dataclass(frozen=True, slots=True)
class _Reading:
    uid: str
    at_wall_us: int
    tuples: tuple[int, ...]


class Rates:
    """Takes statuses in the order in which each replica wrote them."""

    def __init__(self) -> None:
        self._readings: dict[ReplicaKey, deque[_Reading]] = {}

    def add_statuses(self, statuses: Iterable[Status]) -> None:
        """Counts restart with an incarnation, and also after a clock was set back."""
        for s in statuses:
            reading = _Reading(s.uid, s.at_wall_us, tuple(i.tuples for i in s.inputs))
            kept = self._readings.setdefault((s.node, s.replica), deque())
            if kept and (kept[-1].uid != reading.uid or kept[-1].at_wall_us > reading.at_wall_us):
                kept.clear()
            kept.append(reading)
            while len(kept) > 2 and kept[1].at_wall_us <= reading.at_wall_us - SPAN_US:
                kept.popleft()

    def per_second(self) -> Mapping[ReplicaKey, tuple[float, ...]]:
        """The rate of each input, for every replica with two readings."""
        found = {}
        for key, kept in self._readings.items():
            first, last = kept[0], kept[-1]
            us = last.at_wall_us - first.at_wall_us
            if us >= LEAST_US:
                pairs = zip(first.tuples, last.tuples, strict=True)
                found[key] = tuple((after - before) * 1e6 / us for before, after in pairs)
        return found
