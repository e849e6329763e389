"""Times and rows as tests spell them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from borealis_py.testing import START_US, to_stime
from borealis_py.testing.rows import GivenRow, given

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("time", "after_us"),
    [
        (START_US + 5, 5),
        (str(START_US), 0),
        ("2026-01-01", 0),
        ("2026-01-01T00:00:01.5", 1_500_000),
        ("2026-01-01T01:00:00+01:00", 0),
        (datetime(2026, 1, 1, 0, 0, 2), 2 * SECOND),
        (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 0),
        (datetime(2026, 1, 1, 0, 0, 0, 7, tzinfo=UTC), 7),
        ("0s", 0),
        ("1.5s", 1_500_000),
        ("-100ms", None),
        ("soon", None),
        ("", None),
        (1.5, None),
        (None, None),
    ],
)
def test_each_way_to_write_a_time(time: object, after_us: int | None) -> None:
    if after_us is None:
        with pytest.raises(ValueError, match="is no time; write microseconds since 1970"):
            to_stime(time)  # type: ignore[arg-type]
    else:
        assert to_stime(time) - START_US == after_us  # type: ignore[arg-type]


A = {"a": 1, "at": "2026-01-01T00:00:01"}


def test_a_pair_comes_before_the_column_and_the_column_before_the_distance() -> None:
    times = [row.stime for row in given([A, ("3s", A), {"a": 2, "at": 7}], "s", "at", START_US, 1_000)]
    assert times == [START_US + SECOND, START_US + 3 * SECOND, 7]
    assert [row.stime for row in given([A, ("3s", A), A], "s", None, 10, 5)] == [10, START_US + 3 * SECOND, 20]


@pytest.mark.parametrize(
    ("time", "reason"),
    [
        (None, "stime missing"),
        ("", "stime missing"),
        ("1.5s", "malformed: stime '1.5s' is neither integer microseconds nor an ISO 8601 date-time"),
        (1.5, "malformed: stime 1.5 is neither integer microseconds nor an ISO 8601 date-time"),
    ],
)
def test_a_column_is_read_as_publish_reads_it(time: object, reason: str) -> None:
    row = {"at": time}
    assert given([row], "s", "at", 0) == [GivenRow(row, None, reason)]


def test_a_row_that_lacks_the_column_is_a_dead_letter_but_a_column_that_all_lack_is_misspelt() -> None:
    assert [row.stime for row in given([{"a": 1}, {"a": 1, "at": 7}], "s", "at", 0)] == [None, 7]
    with pytest.raises(
        ValueError, match=r"stime='art': no row of 's' has this column; did you mean 'at'\? columns: a, at"
    ):
        given([A], "s", "art", 0)
    assert given([], "s", "art", 0) == []
    assert given([("1s", {})], "s", "art", 0) == [GivenRow({}, START_US + SECOND)]


@pytest.mark.parametrize("row", [5, "a", None, [A], ("1s", A, A), ("1s", 5)])
def test_what_is_no_row_is_refused(row: object) -> None:
    with pytest.raises(TypeError, match=r"row 1 of 's' is .*; give a dict of columns, or a pair"):
        given([A, row], "s", None, 0)  # type: ignore[list-item]


def test_a_pair_whose_time_is_none_names_the_row() -> None:
    with pytest.raises(ValueError, match="row 0 of 's': 'noon' is no time"):
        given([("noon", A)], "s", None, 0)
