"""By when a replica must have emitted a bucket, and must have finished starting (PROTOCOL R3, R11): no wait is endless.

Applies to a process that is alone on its machine, takes its turns, and reaches the logs of all its inputs.
"""

from __future__ import annotations

from collections.abc import Callable

from borealis_py.simulation.violation import Violation

LOOK_US = 700_000
"""Time within which a due bucket is emitted: a query for the ends takes up to 0.2 s, and its records must be read."""
START_US = 2_500_000
"""Time within which a replica that has caught up is READY: the first query may take a second (B14)."""


class Overdue:
    """The obligations of one process.

    Args:
        well: (from, until) -> whether it was alone, and reached its inputs, all that time.
    """

    def __init__(self, name: str, well: Callable[[int, int], bool]) -> None:
        self._name, self._well = name, well
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
