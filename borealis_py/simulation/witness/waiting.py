"""When a bucket was created, when it may be emitted tentatively, and by when it must be (PROTOCOL R1, R3, R13)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from borealis_py.simulation.witness.reading import Known, UpstreamWait
from borealis_py.simulation.witness.settings import Orders

AT_ONCE = -(2**62)


class Births:
    """created[b]: the first turn in which a bucket could be known, less what upstream had waited with it or with any
    later one."""

    def __init__(self, start: int, width_us: int) -> None:
        self._width_us = width_us
        self._start = start
        self._opened: list[tuple[int, int]] = []  # (the highest so far, when): many may come at once
        self._moved: list[tuple[int, int]] = []
        """(bucket, by when it had been created), both rising: what is said of a bucket holds for those before it."""

    def seen(self, now_us: int, top: int, told: Sequence[UpstreamWait]) -> None:
        if top >= self._start and (not self._opened or top > self._opened[-1][0]):
            self._opened.append((top, now_us))
        for one in told:
            self._move(one.bucket, now_us - one.held_us - self._width_us)
            self._move(one.bucket + 1, now_us - one.held_us)

    def _move(self, bucket: int, at_us: int) -> None:
        """Only existing buckets have waited."""
        known = self._at(bucket)
        if known is None or known <= at_us:
            return
        kept = [(b, at) for b, at in self._moved if b > bucket or at < at_us]
        self._moved = sorted([*kept, (bucket, at_us)])

    def _at(self, bucket: int) -> int | None:
        found = bisect_left(self._opened, (bucket, 0))
        if bucket < self._start or found == len(self._opened):
            return None
        at = self._opened[found][1]
        moved = bisect_left(self._moved, (bucket,))
        return min(at, self._moved[moved][1]) if moved < len(self._moved) else at

    def end_us(self, bucket: int) -> int | None:
        """When it should have been complete; None: it does not exist yet."""
        at = self._at(bucket)
        return None if at is None else at + self._width_us

    def held_us(self, bucket: int, now_us: int) -> int:
        end = self.end_us(bucket)
        return 0 if end is None else max(0, now_us - end)


def earliest_us(end_us: int, bucket: int, inputs: Sequence[Known], orders: Orders, granted: bool) -> int | None:
    """When a bucket that is not complete may be emitted tentatively (R3 a to c). None: not at all."""
    policy = orders.stabilization if granted else orders.failure
    if policy == "suspend":
        return None
    bounds = [end_us + orders.wait_us if policy == "delay" else AT_ONCE]
    open_ = [known for known in inputs if known.closed <= bucket]
    partial = [known for known in open_ if known.partial(bucket) is not None]
    missing = [known for known in open_ if known.partial(bucket) is None]
    if any(voice.awaited(bucket) for known in partial for voice in known.voices):
        bounds.append(end_us + orders.wait_us)
    upstream_waited = any(found is not None and found.missing for found in (known.partial(bucket) for known in partial))
    if missing and not (upstream_waited and all(known.all_late for known in missing)):
        bounds += [end_us + (orders.delta_us if known.all_late else orders.wait_us) for known in missing]
    return max(bounds)
