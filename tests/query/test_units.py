"""Durations and names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.query import QueryError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [("100ms", 100_000), ("3s", 3_000_000), ("1.5s", 1_500_000), ("1m", 60_000_000), ("2 h", 7_200_000_000),
     ("1d", 86_400_000_000), ("7us", 7), (" 0.1ms ", 100)],
)  # fmt: skip
def test_durations(text: str, expected_us: int) -> None:
    assert parse_duration(text) == expected_us


@pytest.mark.parametrize(
    ("text", "reason"),
    [("3", "no unit"), ("3 parsecs", "unknown unit"), ("0s", "more than zero"), ("-1s", "more than zero"),
     ("soon", "not a duration"), ("", "not a duration"), ("0.5us", "finer than a microsecond"), (3, "not a duration")],
)  # fmt: skip
def test_bad_durations_say_why_and_name_the_setting(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason) as caught:
        parse_duration(text, "window size")
    assert str(caught.value).startswith("window size: ")


@given(st.integers(1, 10**15))
def test_what_is_formatted_reads_back(duration_us: int) -> None:
    assert parse_duration(format_duration(duration_us)) == duration_us
