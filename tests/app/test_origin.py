"""Times as people write them."""

from __future__ import annotations

import pytest

from borealis_py.app.origin import parse, show
from borealis_py.query.errors import QueryError


@pytest.mark.parametrize(
    ("text", "stime"),
    [
        ("2013-01-01T00:00:00", 1_356_998_400_000_000),
        ("2013-01-01", 1_356_998_400_000_000),
        ("2013-01-01T01:00:00+01:00", 1_356_998_400_000_000),
        ("2013-01-01T00:00:00.5Z", 1_356_998_400_500_000),
        ("1356998400000000", 1_356_998_400_000_000),
    ],
)
def test_times(text: str, stime: int) -> None:
    assert parse(text) == stime
    assert parse(show(stime)) == stime


@pytest.mark.parametrize("text", ["", "yesterday", "0", "-5", "1969-01-01", "99999999999999999999", "2013-13-01"])
def test_no_times(text: str) -> None:
    with pytest.raises(QueryError, match="--origin: "):
        parse(text, "--origin")
