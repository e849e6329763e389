"""Whether several full topics are copied in step, by where their logs end at one moment: a reader of all of them sees
each one's batches at other times."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate


def lead_us(fronts: Sequence[int | None], to_come: Sequence[int], finished: Sequence[bool]) -> int:
    """How far the foremost of several topics is ahead of the backlog of the hindmost. Only those count that have a
    backlog: one that is copied to its end waits for nobody, and nobody for it. 0 until all have begun.

    Args:
        fronts: the largest stime that has been copied of each. to_come: the stime of its next row, where its backlog
            begins: as far as that, nothing is missing.
    """
    left = [i for i, over in enumerate(finished) if not over]
    known = [front for i in left if (front := fronts[i]) is not None]
    return max(0, max(known) - min(to_come[i] for i in left)) if left and len(known) == len(left) else 0


@dataclass(slots=True)
class CopiedLog:
    """One source's log: for each record with rows its offset, how many rows, and their largest stime (µs)."""

    offsets: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    stimes: list[int] = field(default_factory=list)

    def add(self, offset: int, rows: int, stime: int) -> None:
        """The next record."""
        self.offsets.append(offset)
        self.rows.append(rows)
        self.stimes.append(stime)


def longest_lead_us(
    logs: Sequence[CopiedLog],
    ends: Sequence[Sequence[int]],
    wanted: Sequence[int],
    stime_of: Callable[[int, int], int],
) -> int:
    """The longest lead at any of these moments.

    Args:
        logs: of each topic. ends: at each moment, where each log ended. wanted: how many rows each topic has.
        stime_of: of a topic, the stime of its n-th row.
    """
    sums = [[0, *accumulate(log.rows)] for log in logs]
    fronts = [[None, *accumulate(log.stimes, max)] for log in logs]
    longest = 0
    for moment in ends:
        at = [bisect_left(log.offsets, end) for log, end in zip(logs, moment, strict=True)]
        rows = [own[n] for own, n in zip(sums, at, strict=True)]
        longest = max(
            longest,
            lead_us(
                [own[n] for own, n in zip(fronts, at, strict=True)],
                [stime_of(place, n) for place, n in enumerate(rows)],
                [n >= all_ for n, all_ in zip(rows, wanted, strict=True)],
            ),
        )
    return longest
