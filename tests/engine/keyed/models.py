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


def same_group(one: Any, other: Any) -> bool:
    """Whether two keys are one, where null is a key like any other."""
    if isinstance(one, tuple):
        return all(same_group(a, b) for a, b in zip(one, other, strict=True))
    return one is other if one is None or other is None else same(one, other)


def count_windows(rows: Sequence[Keyed], size: int) -> list[list[int]]:
    """The numbers of the rows of each full window, by that of its last one."""
    found: list[list[int]] = []
    open_: list[list[int]] = []
    for i, (key, _) in enumerate(rows):
        mine = next((window for window in open_ if same_group(rows[window[0]][0], key)), None)
        if mine is None:
            open_.append(mine := [])
        mine.append(i)
        if len(mine) == size:
            open_.remove(mine)
            found.append(mine)
    return found


def sessions(rows: Sequence[Keyed], gap_us: int, most_us: int) -> list[tuple[int, list[int]]]:
    """(end, the numbers of the rows) of each session, by the number of its first row."""
    found: list[list[int]] = []
    for i, (key, stime) in enumerate(rows):
        mine = [window for window in found if same_group(rows[window[0]][0], key)]
        if mine and stime - rows[mine[-1][-1]][1] < gap_us and stime - rows[mine[-1][0]][1] < most_us:
            mine[-1].append(i)
        else:
            found.append([i])
    return [(min(rows[w[-1]][1] + gap_us, rows[w[0]][1] + most_us), w) for w in found]
