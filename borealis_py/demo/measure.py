"""Added delay: how much later than without a failure each bucket was spoken for. Pure arithmetic.

The demo publishes in step with the wall clock, so a bucket's end in stime is also the wall time at which it ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

STARTUP_US = 3_000_000
"""Left out at the beginning: clients connect and code is compiled then, whatever fails or not."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """At `wall_us` a record that speaks for `bucket` reached the live subscriber. `kind`: "STABLE" or "TENTATIVE"."""

    bucket: int
    wall_us: int
    kind: str


@dataclass(frozen=True, slots=True)
class AddedDelay:
    """One bucket: what spoke for it first, its raw delay, and how much of it the failure added. Microseconds."""

    bucket: int
    kind: str
    raw_us: int
    added_us: int


@dataclass(frozen=True, slots=True)
class AddedDelays:
    """Delays of one query. `median_us`, `p50_ms` and `p99_ms` are of raw delays before the failure.

    `silent` are buckets that nothing spoke for: they are later than any bound. `max_added_us` leaves start-up out.
    """

    buckets: tuple[AddedDelay, ...]
    median_us: int
    p50_ms: float
    p99_ms: float
    max_added_us: int
    silent: tuple[int, ...]

    def within(self, threshold_us: int) -> bool:
        """Every bucket was spoken for, none later than the threshold."""
        return not self.silent and self.max_added_us <= threshold_us


class NothingMeasured(ValueError):
    """There is no bucket between start-up and failure, so nothing to compare with."""


def measure(
    arrivals: Iterable[Arrival], bucket_us: int, first: int, end: int, failure_us: int, startup_us: int = STARTUP_US
) -> AddedDelays:
    """Added delay of every bucket of [first, end).

    Args:
        arrivals: in any order, several for a bucket allowed: only the first counts, corrections are no new results.
        bucket_us: width of a bucket.
        first: the first bucket of the run, where start-up begins.
        end: the bucket after the last one to judge.
        failure_us: wall time at which the failure began; what ended before it is failure-free.
        startup_us: how long after the beginning of bucket `first` delays are not judged.

    Raises:
        NothingMeasured: no failure-free bucket lies between start-up and failure.
    """
    earliest: dict[int, Arrival] = {}
    for arrival in arrivals:
        if first <= arrival.bucket < end:
            best = earliest.get(arrival.bucket)
            if best is None or arrival.wall_us < best.wall_us:
                earliest[arrival.bucket] = arrival
    raw = {b: a.wall_us - (b + 1) * bucket_us for b, a in earliest.items()}
    judged_from = -(-(first * bucket_us + startup_us) // bucket_us)  # the first bucket that starts after start-up
    clean = [us for b, us in raw.items() if b >= judged_from and (b + 1) * bucket_us <= failure_us]
    if not clean:
        raise NothingMeasured(
            "no bucket arrived between start-up and failure: let the run go on longer before it fails"
        )
    usual = round(median(clean))
    buckets = tuple(AddedDelay(b, earliest[b].kind, raw[b], raw[b] - usual) for b in sorted(raw))
    return AddedDelays(
        buckets=buckets,
        median_us=usual,
        p50_ms=percentile(clean, 50) / 1000,
        p99_ms=percentile(clean, 99) / 1000,
        max_added_us=max((d.added_us for d in buckets if d.bucket >= judged_from), default=0),
        silent=tuple(b for b in range(first, end) if b not in raw),
    )


def percentile(values: Sequence[int], percent: float) -> int:
    """The smallest of `values` that at least `percent` of them do not exceed (nearest rank).

    Raises:
        ValueError: no values, or `percent` outside (0, 100].
    """
    if not values or not 0 < percent <= 100:
        raise ValueError(f"percentile {percent} of {len(values)} values")
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]
