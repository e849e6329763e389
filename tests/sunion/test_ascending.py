"""Bucket numbers in order, against a sorted set."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from sunion.input_buffers import Ascending

STEPS = st.lists(st.tuples(st.sampled_from(["add", "take"]), st.integers(0, 12)), max_size=30)


@given(STEPS, st.integers(0, 13))
@example([("add", 5), ("add", 5)], 0)
def test_it_holds_each_bucket_once_and_tells_the_lowest_of_a_range(steps: list[tuple[str, int]], first: int) -> None:
    made, plain = Ascending(), set[int]()
    for what, bucket in steps:
        if what == "add":
            made.add(bucket)
            plain.add(bucket)
        else:
            assert made.take_below(bucket) == sorted(b for b in plain if b < bucket)
            plain = {b for b in plain if b >= bucket}
    for end in range(14):
        found = sorted(b for b in plain if first <= b < end)
        assert [made.between(first, end, most) for most in (None, 1, 3)] == [found, found[:1], found[:3]]
