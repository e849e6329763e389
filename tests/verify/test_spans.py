"""Spans of buckets are sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from borealis_py.verify.spans import Spans

SPAN = st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda drawn: (drawn[0], sum(drawn)))


@given(st.lists(SPAN, max_size=12), SPAN)
def test_spans_are_the_buckets_that_were_added(added: list[tuple[int, int]], asked: tuple[int, int]) -> None:
    spans, buckets = Spans(), set[int]()
    for first, end in added:
        spans.add(first, end)
        buckets |= set(range(first, end))
    assert {b for b in range(50) if b in spans} == buckets
    assert spans.end == (max(buckets) + 1 if buckets else None)
    assert all(a < b for a, b in spans.all)
    assert all(one[1] < other[0] for one, other in pairwise(spans.all))
    holes = spans.holes(*asked)
    assert [b for hole in holes for b in range(*hole)] == sorted(set(range(*asked)) - buckets)
    assert all(one[1] < other[0] for one, other in pairwise(holes))
