"""When a bucket was created, when it may be emitted tentatively, and by when it must be; by when a replica must be
READY (R1, R3, R11.3, R13).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.reading import Known, UpstreamWait
from borealis_py.simulation.witness.settings import Orders

AT_ONCE = -(2**62)
LOOK_US = 700_000
"""Time within which a due bucket is emitted: a query for the ends takes up to 0.2 s, and its records must be read."""
START_US = 2_500_000
"""Time within which a replica that has caught up is READY: the first query may take a second (B14)."""


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
    """When a bucket that is not complete may be emitted tentatively (R3.3 a to c). None: not at all."""
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


class Overdue:
    """What one process must have emitted, and when it must be READY (R3, R11.3): no wait is endless.

    Applies to a process that is alone on its machine, takes its turns, and reaches the logs of all its inputs.

    Args:
        well: (from, until) -> whether it was alone, and reached its inputs, all that time.
    """

    def __init__(self, name: str, well: Callable[[int, int], bool]) -> None:
        self._name = name
        self._well = well
        self._due: tuple[int, int] | None = None  # (bucket, since when)
        self._caught_up_since: int | None = None

    def bucket(self, now_us: int, bucket: int, due: bool, gap: bool) -> None:
        """Called after each turn, with the next bucket to emit, and whether anything allows it to wait.

        Raises:
            Violation: nothing has for `LOOK_US`.
        """
        if gap or not due or self._due is None or self._due[0] != bucket:
            self._due = (bucket, now_us) if due else None
            return
        since = self._due[1]
        if now_us - since > LOOK_US and self._well(since, now_us):
            waited = f"{(now_us - since) / 1e6:.3f} s after it was due"
            raise Violation("overdue", f"{self._name}: bucket {bucket} is not said {waited}", bucket)

    def check_readiness(self, now_us: int, caught_up: bool, gap: bool) -> None:
        """Called after each turn of a replica that is not READY: whether everything that READY waits for has come
        (B42).

        Raises:
            Violation: it had for `START_US`.
        """
        if gap or not caught_up or self._caught_up_since is None:
            self._caught_up_since = now_us if caught_up else None
            return
        since = self._caught_up_since
        if now_us - since > START_US and self._well(since, now_us):
            said = f"{self._name} has caught up for {(now_us - since) / 1e6:.3f} s, and is not READY"
            raise Violation("ready", said)
