"""Functions as users write them, good and bad, over columns k, i, x, b. Tests import this file as module `scoring`."""

from __future__ import annotations

import random
from asyncio import CancelledError
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

CALLS: list[int] = []
"""How many rows each call had: what a function must not keep, and a test may."""


def score(table: pa.Table) -> pa.Table:
    return pa.table({"y": pc.add(pc.multiply(table["x"], 0.1), 1.0), "n": pc.utf8_length(table["k"])})


def frame(rows: Any) -> Any:
    return rows.assign(y=rows["x"] * 3, n=rows["i"].fillna(0) % 7)[["n", "y", "stime"]]


def picky(table: pa.Table) -> pa.Table:
    """Refuses rows whose i is 3, and has no value of the type where i is 4."""
    CALLS.append(table.num_rows)
    numbers = table["i"].to_pylist()
    if 3 in numbers:
        raise ValueError(f"three is refused by {object()}")
    return pa.table({"n": pa.array(["four" if n == 4 else None if n is None else str(n) for n in numbers])})


def strict(table: pa.Table) -> pa.Table:
    """Its column is no string at all where it holds a 4."""
    numbers = table["i"].to_pylist()
    return pa.table({"n": pa.array(numbers if 4 in numbers else [None if n is None else str(n) for n in numbers])})


def dropping(table: pa.Table) -> pa.Table:
    """Returns no row for a null."""
    return table.filter(pc.is_valid(table["i"]))


def exiting(table: pa.Table) -> pa.Table:
    if None in table["k"].to_pylist():
        raise SystemExit(3)
    return table.select(["k"])


def cancelled(table: pa.Table) -> pa.Table:
    if None in table["k"].to_pylist():
        raise CancelledError
    return table.select(["k"])


def hungry(table: pa.Table) -> pa.Table:
    raise MemoryError


def nothing(table: pa.Table) -> None:
    return None


def renamed(table: pa.Table) -> pa.Table:
    return table.rename_columns(["k", "i", "z", "b", "stime"])


def centred(table: pa.Table) -> pa.Table:
    """No function of a row: it compares with the rows beside it."""
    return pa.table({"y": pc.subtract(table["stime"], pc.min(table["stime"]))})


def spread(group: pa.Table) -> pa.Table:
    """Sums in their order, and the group's rows at its ends: two results, or one."""
    xs = [x for x in group["x"].to_pylist() if x is not None]
    total = 0.0
    for x in xs:
        total += x
    ends = pa.array([0, group.num_rows - 1][: min(2, group.num_rows)])
    return pa.table({"s": [total] * len(ends), "t": group["stime"].take(ends), "k2": group["k"].take(ends)})


def spread_frame(group: Any) -> Any:
    return group.iloc[[0]].assign(s=float(group["x"].fillna(0.0).iloc[0]), t=group["window_end"] - group["stime"])


def no_fours(group: pa.Table) -> pa.Table:
    if 4 in group["i"].to_pylist():
        raise KeyError(4)
    return pa.table({"rows": [group.num_rows]})


def none_or_many(group: pa.Table) -> pa.Table:
    """No result of groups of one row, and too many of those of three."""
    return pa.table({"rows": pa.array([0] * {1: 0, 3: 100_001}.get(group.num_rows, 1), pa.int32())})


def chance(table: pa.Table) -> pa.Table:
    return pa.table({"y": [random.random() for _ in range(table.num_rows)]})


class Holder:
    @staticmethod
    def score(table: pa.Table) -> pa.Table:
        return score(table)
