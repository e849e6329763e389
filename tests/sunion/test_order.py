"""The reference of the total order, against its definition."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.sunion.order import total_order


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=4))
def test_every_row_once_by_stime_then_input_then_position(stimes: list[list[int]]) -> None:
    ordered = total_order(stimes)
    assert set(ordered) == {(i, p) for i, part in enumerate(stimes) for p in range(len(part))}
    keys = [(stimes[i][p], i, p) for i, p in ordered]
    assert all(a < b for a, b in pairwise(keys))
