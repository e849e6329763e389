"""What a source is to publish: when each row is due, and what a publisher that starts again goes on with."""

from __future__ import annotations

from borealis_py.testing.rows import GivenRow
from borealis_py.testing.source_process import SourceInput


def row(stime: int | None) -> GivenRow:
    return GivenRow({}, stime)


def test_rows_are_due_at_their_times_and_at_once_if_those_have_passed_or_cannot_be_read() -> None:
    given = SourceInput()
    given.add([row(30), row(20), row(5), row(None), row(20)], 10)
    assert (given.next_us, given.last_us) == (10, 30)
    given.release(19)
    assert [one.stime for one in given.due] == [5, None]
    given.release(20)
    assert [one.stime for one in given.due] == [5, None, 20, 20]
    assert (given.next_us, given.last_us) == (30, 30)
    given.release(100)
    assert [one.stime for one in given.due] == [5, None, 20, 20, 30]
    assert (given.next_us, given.last_us) == (None, 0)


def test_the_oldest_time_that_waits_is_that_of_rows_not_sent_yet_be_they_due_or_not() -> None:
    given = SourceInput()
    assert given.oldest_from(0) is None
    given.add([row(12), row(11), row(40)], 10)
    given.release(12)
    assert [given.oldest_from(seq) for seq in range(3)] == [11, 12, 40]
    given.release(40)
    assert [given.oldest_from(seq) for seq in range(4)] == [11, 12, 40, None]
    given.add([row(None)], 50)
    given.release(50)
    assert given.oldest_from(3) is None
