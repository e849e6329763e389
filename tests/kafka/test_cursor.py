"""When a cursor has lost its place in the log."""

from __future__ import annotations

import pytest

from borealis_py.kafka.reading.cursor import FeedCursor
from borealis_py.log.base import Feed, OffsetBeyond, OffsetGone

FEED = Feed("t")


def test_that_records_are_gone_must_be_told_twice() -> None:
    cursor = FeedCursor(2)
    assert cursor.out_of(FEED, 5, 9) is None
    found = cursor.out_of(FEED, 6, 9)
    assert isinstance(found, OffsetGone)
    assert (found.offset, found.first) == (2, 6)


@pytest.mark.parametrize(("first", "end"), [(0, 9), (2, 2)])
def test_a_wrong_answer_between_right_ones_does_no_harm(first: int, end: int) -> None:
    cursor = FeedCursor(2)
    for _ in range(3):
        assert cursor.out_of(FEED, 5, 9) is None
        assert cursor.out_of(FEED, first, end) is None


def test_a_log_that_ends_before_it_is_told_at_once() -> None:
    """It may grow beyond it soon, and then nobody could tell."""
    assert isinstance(FeedCursor(3).out_of(FEED, 0, 2), OffsetBeyond)
