"""Times as people write them, and where an app begins."""

from __future__ import annotations

from typing import cast

import pytest

from borealis_py.app.origin import choose, parse, show
from borealis_py.log.base import Feed, Log, Record
from borealis_py.query import App
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


class Nothing:
    """A log in which no source has a record."""

    def lookup(self) -> Nothing:
        return self

    def bounds(self, feed: Feed) -> tuple[int, int]:
        return 0, 0

    def read(self, feed: Feed, first: int, end: int) -> list[Record]:
        return []

    def close(self) -> None:
        pass


NOW_US = 1_700_000_000_000_000


@pytest.mark.parametrize(
    ("lateness", "foreign_us", "first_us"),
    [
        (None, None, NOW_US),
        ("2s", None, NOW_US - 2_000_000),  # rows of then are on their way
        ("0s", None, NOW_US),
        ("2s", NOW_US - 3_600_000_000, NOW_US - 3_600_000_000),  # it is read from its beginning
    ],
)
def test_an_app_begins_early_enough_for_the_rows_of_foreign_topics(
    lateness: str | None, foreign_us: int | None, first_us: int
) -> None:
    app = App("a", bucket="100ms")
    one = app.source("s", schema={"x": "int"})
    if lateness is not None:
        one = app.union(one, app.topic("t", topic="prod.t", schema={"x": "int"}, lateness=lateness, partitions=1))
    app.query("q", one)
    log = cast(Log, Nothing())
    assert choose(log, app.describe(), "earliest", NOW_US, foreign_us) == first_us // 100_000
    assert choose(log, app.describe(), "now", NOW_US, foreign_us) == NOW_US // 100_000
