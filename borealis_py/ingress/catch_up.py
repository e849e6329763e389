"""Keeps partitions in step while they catch up: rows that run far ahead of others only wait in their readers' memory,
and their buckets run without the others. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from sunion.model import FOREVER

AHEAD_US = 1_000_000
"""How far in stime the backlog of a partition may run ahead of the slowest. Rows that are not this much older than what
may come in time are no backlog, and wait for none."""


class BacklogFronts:
    """Where the partitions that have a backlog stand. Ingresses of one process share it, so that their topics stay in
    step, too."""

    def __init__(self) -> None:
        self._fronts: dict[Hashable, int] = {}

    def note(self, key: Hashable, front: int | None) -> None:
        """Partition `key` is to copy rows from stime `front` on. None: it has no backlog, or cannot go on with it."""
        if front is None:
            self._fronts.pop(key, None)
        else:
            self._fronts[key] = front

    def limit(self, key: Hashable) -> int:
        """Partition `key` may copy rows of its backlog up to this stime."""
        return min((front for other, front in self._fronts.items() if other != key), default=FOREVER) + AHEAD_US

    def boundary(self, keys: Iterable[Hashable], known: int, promised: int, live_us: int, lateness_us: int) -> int:
        """What an input that takes from these partitions may promise, if `known` holds for them and it has promised
        `promised` before.

        One that has copied its backlog would open all buckets until now, which then run without those that still copy
        theirs. So it goes with the slowest, unless it has been at `live_us` before: live inputs wait for nobody.
        """
        if promised >= live_us or known == FOREVER:
            return known
        least = min((self.limit(key) for key in keys), default=self.limit(None))
        return min(known, least - lateness_us)
