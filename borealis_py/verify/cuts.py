"""Which rows of some tables add up to a given row: exact, without going through every combination. Knows no query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.int64]
"""One row for each thing that may be chosen, one column for each thing that adds up."""

CELLS_MAX = 20_000_000
"""A search that would hold more numbers at once (160 MB) is given up."""
VALUE_MAX = 1 << 55


class TooMany(Exception):
    """The search is larger than what is held at once."""


def adding_up(tables: Sequence[Table], total: Sequence[int], cells_max: int = CELLS_MAX) -> Iterator[list[int]]:
    """Every choice of one row of each table that adds up to `total`, as indices into the tables.

    What cannot be part of any is left out first. Then each half of the tables is added up by itself, and sums that
    meet are looked for: n choices cost about the square root of n.

    Raises:
        TooMany: a half has more sums than `cells_max` numbers hold, or numbers are too large to be added safely.
    """
    if any(len(t) and np.abs(t).max(initial=0) > VALUE_MAX // len(tables) for t in tables):
        raise TooMany("numbers are too large")
    if any(abs(value) > VALUE_MAX for value in total):
        return
    wanted = np.array(total, np.int64)
    left_out = _narrowed(tables, wanted)
    if left_out is None:
        return
    kept, tables = left_out
    halves = _halved([len(t) for t in tables])
    (sums, chosen), (others, others_chosen) = (_sums(tables, half, wanted, cells_max) for half in halves)
    keys = np.random.default_rng(1).integers(1, 1 << 63, size=len(wanted), dtype=np.uint64)
    have, need = _hashed(sums, keys), _hashed(wanted - others, keys)
    order = np.argsort(have, kind="stable")
    begin, end = (np.searchsorted(have[order], need, side) for side in ("left", "right"))
    for j in np.flatnonzero(end > begin):
        for i in order[begin[j] : end[j]]:
            if (sums[i] + others[j] == wanted).all():
                numbers = zip((*halves[0], *halves[1]), (*chosen[i], *others_chosen[j]), strict=True)
                yield [int(kept[n][number]) for n, number in sorted(numbers)]


def _narrowed(tables: Sequence[Table], wanted: NDArray[np.int64]) -> tuple[list[NDArray[np.intp]], list[Table]] | None:
    """Without rows that no choice of the others makes up for. None: nothing is left of some table."""
    kept, left = [np.arange(len(t)) for t in tables], list(tables)
    again = True
    while again:
        again = False
        for i, table in enumerate(left):
            least, most = _span(left[:i] + left[i + 1 :], len(wanted))
            fits = ((table >= wanted - most) & (table <= wanted - least)).all(axis=1)
            if not fits.any():
                return None
            if not fits.all():
                kept[i], left[i], again = kept[i][fits], table[fits], True
    return kept, left


def _span(tables: Sequence[Table], columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the most that each column can add up to."""
    zero = np.zeros(columns, np.int64)
    least = sum((t.min(axis=0) for t in tables), zero)
    most = sum((t.max(axis=0) for t in tables), zero)
    return least, most


def _halved(sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Numbers of the tables in two halves that have about as many choices."""
    halves: tuple[list[int], list[int]] = ([], [])
    logs = [0.0, 0.0]
    for n in sorted(range(len(sizes)), key=lambda n: -sizes[n]):
        which = int(logs[1] < logs[0])
        halves[which].append(n)
        logs[which] += float(np.log(sizes[n]))
    return halves


def _sums(
    tables: Sequence[Table], half: Sequence[int], wanted: NDArray[np.int64], cells_max: int
) -> tuple[Table, NDArray[np.int32]]:
    """All sums of one row of each table of `half` that the other tables can make up for, and which rows they are of."""
    sums, chosen = np.zeros((1, len(wanted)), np.int64), np.zeros((1, 0), np.int32)
    rest = set(range(len(tables)))
    for n in half:
        table = tables[n]
        rest.discard(n)
        if len(sums) * len(table) * max(1, len(wanted) + len(half)) > cells_max:
            raise TooMany(f"{len(sums)} times {len(table)} choices")
        grown = (sums[:, None, :] + table[None, :, :]).reshape(len(sums) * len(table), len(wanted))
        which = np.tile(np.arange(len(table), dtype=np.int32), len(sums))[:, None]
        grown_chosen = np.hstack([np.repeat(chosen, len(table), axis=0), which])
        least, most = _span([tables[i] for i in rest], len(wanted))
        fits = ((grown >= wanted - most) & (grown <= wanted - least)).all(axis=1)
        sums, chosen = grown[fits], grown_chosen[fits]
    return sums, chosen


def _hashed(sums: Table, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One number a row; equal rows have equal ones."""
    hashed: NDArray[np.uint64] = (sums.astype(np.uint64) * keys).sum(axis=1, dtype=np.uint64)
    return hashed
