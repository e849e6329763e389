"""A kernel's operator over two inputs, run in steps: its rows, to compare with those of a model."""

from __future__ import annotations

from collections.abc import Iterable

from borealis_py.engine import DuckKernel
from tests.engine import worlds
from tests.engine.worlds import WIDTH_US, Buckets, Row
from tests.sunion.order import total_order

KEYS = {"k": 0, "i": 1, "x": 2, "b": 3}
"""Columns of the worlds' rows, and their places."""
Told = list[tuple[int, dict[str, object]]]
"""Rows with their stimes."""


def side(history: Buckets, of: int) -> list[Row]:
    """One input's rows in total order."""
    rows: list[Row] = []
    for bucket in sorted(history):
        part = history[bucket][of]
        rows += [part[p] for _, p in total_order([[row[-1] for row in part]])]
    return rows


def in_steps(kernel: DuckKernel, history: Buckets, cuts: Iterable[int], end: int) -> tuple[bytes, Told]:
    """The state, encoded, and the rows of buckets [0, end), run up to each of `cuts` at once. No row is refused, and
    each lies in its bucket."""
    state, found = kernel.initial(), Told()
    buckets = worlds.ordered(kernel, history)
    for first, until in zip([0, *sorted(cuts)], [*sorted(cuts), end], strict=True):
        state, outputs = kernel.step(state, first, until, {b: p for b, p in buckets.items() if first <= b < until})
        for bucket, output in outputs.items():
            assert not output.rejects
            stimes = output.rows.column("stime").to_pylist()
            assert all(stime // WIDTH_US == bucket for stime in stimes)
            found += list(zip(stimes, kernel.to_dicts(output.rows), strict=True))
    return kernel.encode_state(state), found


def row_of(on: tuple[str, ...], left: Row, right: Row | None) -> dict[str, object]:
    """A result: the left row's columns, and the right one's, renamed except the keys."""
    ours = {c: left[n] for c, n in KEYS.items()}
    return ours | {"o" + c: None if right is None else right[n] for c, n in KEYS.items() if c not in on}


def plain(told: Told) -> list[tuple[int, dict[str, object]]]:
    """With NaN as a text, which equals itself; -0.0 differs from 0.0."""
    return [(stime, {k: repr(v) if isinstance(v, float) else v for k, v in row.items()}) for stime, row in told]
