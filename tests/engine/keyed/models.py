"""What join, lookup and distinct mean, in plain Python: every row is compared with every other one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Keyed = tuple[Any, int]
"""(key, stime) of a row, in total order."""


def same(one: Any, other: Any) -> bool:
    """Whether two keys are one, except null: NaN is NaN."""
    if isinstance(one, tuple):
        return all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


def has_null(key: Any) -> bool:
    return any(part is None for part in key) if isinstance(key, tuple) else key is None


def pairs(
    lefts: Sequence[Keyed], rights: Sequence[Keyed], low_us: int, high_us: int, outer: bool
) -> list[tuple[int, int, int | None]]:
    """(stime, number of the left row, number of the right one or None) of a join."""
    found: list[tuple[int, int, int | None]] = []
    for i, (key, stime) in enumerate(lefts):
        matches = [
            (max(stime, other_stime), i, j)
            for j, (other, other_stime) in enumerate(rights)
            if low_us <= other_stime - stime <= high_us
            and not has_null(key) and not has_null(other) and same(key, other)
        ]  # fmt: skip
        found += matches
        if outer and not matches:
            found.append((stime + max(high_us, 0), i, None))
    return sorted(found, key=lambda pair: (pair[0], pair[1], -1 if pair[2] is None else pair[2]))


def versions(rows: Sequence[Keyed], changes: Sequence[tuple[Any, int, bool]]) -> list[int | None]:
    """Of each row, the number of the change (key, stime, whether it deletes) that a lookup finds; None: of none."""

    def found(key: Any, stime: int) -> int | None:
        known = [
            i
            for i, (other, since, _) in enumerate(changes)
            if since <= stime and not has_null(key) and not has_null(other) and same(key, other)
        ]
        return None if not known or changes[known[-1]][2] else known[-1]

    return [found(*row) for row in rows]


def firsts(rows: Sequence[Keyed], within_us: int) -> list[int]:
    """The numbers of the rows that distinct lets pass."""

    def repeats(i: int) -> bool:
        key, stime = rows[i]
        return any(
            stime - other_stime <= within_us
            and (key == other if has_null(key) or has_null(other) else same(key, other))
            for other, other_stime in rows[:i]
        )

    return [i for i in range(len(rows)) if not repeats(i)]
