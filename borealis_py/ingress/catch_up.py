"""Keeps partitions in step while they catch up: rows that run far ahead of others only wait in their readers' memory,
and their buckets run without the others. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence

from borealis_py.ingress.input_writer import InputWriter
from borealis_py.ingress.watermark import NEVER
from sunion.model import FOREVER

AHEAD_US = 1_000_000
"""How far in stime the backlog of a partition may run ahead of the slowest. Rows that are not this much older than what
may come in time are no backlog, and wait for none."""
STEP_US, STEP_ROWS = 10_000_000, 10_000
"""Each step of a backlog waits for the logs. So where it has few rows a step is longer: as long as so many take, at
most this."""


class BacklogFronts:
    """Where the partitions that have a backlog stand. Ingresses of one process share it, so that their topics stay in
    step, too."""

    def __init__(self) -> None:
        self._fronts: dict[Hashable, int] = {}
        self._ahead_us = AHEAD_US
        self._rows = 0
        self._began = NEVER
        """Where the slowest partition stood when `_rows` was 0; NEVER: there was no backlog."""

    def note(self, key: Hashable, front: int | None) -> None:
        """Partition `key` is to copy rows from stime `front` on. None: it has no backlog, or cannot go on with it."""
        if front is None:
            self._fronts.pop(key, None)
        else:
            self._fronts[key] = front

    def copied(self, rows: int) -> None:
        """So many rows were copied. How many a second of the backlog has, as they have come so far, sets the step."""
        self._rows += rows
        slowest = min(self._fronts.values(), default=NEVER)
        many = self._rows > 2 * STEP_ROWS  # for this step: nobody runs further ahead
        if many or NEVER in (slowest, self._began) or slowest < self._began:
            self._ahead_us, self._began, self._rows = AHEAD_US, slowest, 0
        elif (done_us := slowest - self._began) >= self._ahead_us:
            step_us = STEP_ROWS * done_us // max(1, self._rows)
            self._ahead_us, self._began, self._rows = min(max(step_us, AHEAD_US), STEP_US), slowest, 0

    def limit(self, key: Hashable) -> int:
        """Partition `key` may copy rows of its backlog up to this stime."""
        return min((front for other, front in self._fronts.items() if other != key), default=FOREVER) + self._ahead_us

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


class TopicFronts:
    """Where the partitions of one topic stand, among all of the process. What has been copied of a partition but is not
    in the logs yet counts as its backlog: readers have the logs only.

    Args:
        shared: by all topics of the process.
        source: what tells these partitions from those of other sources, which may copy the same topic.
    """

    def __init__(self, shared: BacklogFronts, source: Hashable) -> None:
        self._shared = shared
        self._source = source
        self._under_way: dict[int, deque[tuple[int, Sequence[tuple[InputWriter, int]]]]] = {}
        """Of each partition: stimes at which parts begin, and in which of whose records their last rows are."""

    def copied(self, partition: int, front: int, rows: int, writers: Iterable[InputWriter]) -> None:
        """Rows from stime `front` on have been added to these writers, and are in their next records at the latest."""
        records = [(writer, writer.made + 1) for writer in writers]
        self._left(partition).append((front, records))
        self._shared.copied(rows)

    def note(self, partition: int, front: int | None) -> None:
        """A partition is to copy rows from stime `front` on. None: it has no backlog, or cannot go on with it."""
        if parts := self._left(partition):
            front = parts[0][0] if front is None else min(parts[0][0], front)
        self._shared.note(self._key(partition), front)

    def hold_up_nobody(self, partitions: Iterable[int]) -> None:
        """Nobody is to wait for these now."""
        for p in partitions:
            self._shared.note(self._key(p), None)

    def limit(self, partition: int) -> int:
        """A partition may copy rows of its backlog up to this stime."""
        return self._shared.limit(self._key(partition))

    def boundary(self, partitions: Iterable[int], known: int, promised: int, live_us: int, lateness_us: int) -> int:
        """What an input that takes from these partitions may promise: see `BacklogFronts.boundary`."""
        return self._shared.boundary(map(self._key, partitions), known, promised, live_us, lateness_us)

    def _left(self, partition: int) -> deque[tuple[int, Sequence[tuple[InputWriter, int]]]]:
        """What is under way, of a partition that others wait for or not."""
        parts = self._under_way.setdefault(partition, deque())
        while parts and all(writer.stored >= made for writer, made in parts[0][1]):
            parts.popleft()
        return parts

    def _key(self, partition: int) -> Hashable:
        return self._source, partition
