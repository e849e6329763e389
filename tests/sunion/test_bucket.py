"""Arithmetic of buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunion.bucket import Buckets
from sunion.model import FOREVER, TupleId


@pytest.mark.parametrize("width_us", [0, -100_000, 1, 1_500])
def test_a_width_must_be_whole_milliseconds(width_us: int) -> None:
    with pytest.raises(ValueError, match="whole number of milliseconds"):
        Buckets(width_us)


@given(st.integers(1, 10_000).map(lambda ms: ms * 1000), st.integers(-(10**15), 10**18))
def test_every_stime_lies_in_exactly_one_bucket(width_us: int, stime: int) -> None:
    buckets = Buckets(width_us)
    bucket = buckets.of(stime)
    assert buckets.start(bucket) <= stime < buckets.end(bucket) == buckets.start(bucket + 1)
    assert buckets.timestamp_ms(bucket) * 1000 == buckets.start(bucket)


@pytest.mark.parametrize(("boundary", "first_open"), [(0, 0), (1, 0), (99_999, 0), (100_000, 1), (100_001, 1)])
def test_a_boundary_closes_the_buckets_that_end_at_or_before_it(boundary: int, first_open: int) -> None:
    assert Buckets(100_000).closed_by(boundary) == first_open


def test_end_closes_all_that_any_stime_can_reach() -> None:
    buckets = Buckets(100_000)
    assert buckets.last == buckets.closed_by(FOREVER)
    assert buckets.of(FOREVER - buckets.width_us) < buckets.last


def test_ids_are_ordered_by_bucket_then_index_and_read_as_such() -> None:
    assert sorted([TupleId(2, 0), TupleId(1, 11), TupleId(1, 2)]) == [TupleId(1, 2), TupleId(1, 11), TupleId(2, 0)]
    assert str(TupleId(7, 3)) == "7:3"
