"""The one total order of a bucket's rows: (stime, input index, sequence number) (DPC, SIGMOD 2005: SUnion).

The reference that faster implementations (`borealis_py.engine.arrow.rows.merge`) are tested against.
"""

from __future__ import annotations

from collections.abc import Sequence


def total_order(stimes: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Order the rows of one bucket.

    Args:
        stimes: for each input the stimes of its rows, by sequence number.

    Returns:
        (input, position in that input) of each row, in total order.
    """
    rows = [(stime, i, position) for i, part in enumerate(stimes) for position, stime in enumerate(part)]
    return [(i, position) for _, i, position in sorted(rows)]
