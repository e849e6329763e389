"""Where an app begins that reads topics from their end, and from when on they are whole."""

from __future__ import annotations

from typing import Any, cast

import pytest

from borealis_py import App
from borealis_py.app.beginning import beginnings
from borealis_py.app.waits import left_out
from borealis_py.log.base import Feed, Log, LogError, Record
from borealis_py.log.schema_registry import SchemaRegistry
from borealis_py.protocol.settings import Timing
from borealis_py.query import AppSpec
from borealis_py.query.spec import Beginning

AT = 1_700_000_000_000_000
NOW = AT + 5_000_000


class Topics:
    """A log with these records of each partition of each topic, of which the first ones are gone."""

    def __init__(self, gone: int = 0, **values: list[list[bytes]]) -> None:
        self.values, self.gone = values, gone

    def lookup(self) -> Topics:
        return self

    def admin(self) -> Topics:
        return self

    def close(self) -> None:
        pass

    def partitions(self, topic: str) -> int:
        return len(self.values[topic])

    def bounds(self, feed: Feed) -> tuple[int, int]:
        return min(self.gone, len(self.values[feed.topic][feed.partition])), len(
            self.values[feed.topic][feed.partition]
        )

    def read(self, feed: Feed, first: int, end: int) -> list[Record]:
        records = [Record(feed, i, 0, None, value) for i, value in enumerate(self.values[feed.topic][feed.partition])]
        return records[max(first, self.gone) : end]


def described(**more: Any) -> AppSpec:
    app = App("shop")
    orders = app.topic("orders", "prod", {"at": "int64", "n": "int64"}, stime="at", stime_unit="us", **more)
    app.query("sums", orders.window("10s").agg(n="sum(n)"))
    app.query("large", orders.filter("n > 3"))
    return app.describe()


def begun(topics: Topics, **more: Any) -> dict[str, Beginning]:
    def no_registry(cluster: str | None) -> SchemaRegistry:
        raise LogError("no registry")

    spec = described(**more)
    return dict(beginnings(spec, lambda _: cast(Log, topics), Timing(), no_registry, lambda: NOW))


def rows(*stimes: int) -> list[bytes]:
    return [b'{"at": %d, "n": 4}' % at for at in stimes]


def test_a_topic_that_has_rows_is_whole_from_now_on_and_copied_from_its_end() -> None:
    assert begun(Topics(prod=[rows(AT, AT + 1), rows(AT)])) == {"orders": Beginning(offsets=(2, 1), whole_us=NOW)}


def test_one_whose_rows_run_ahead_of_the_clock_is_whole_after_the_last_of_them() -> None:
    """But for one so far ahead that it is refused."""
    topics = Topics(prod=[rows(AT, NOW + 2_000_000, AT + 1), rows(NOW + 10**9), [b"no json"]])
    assert begun(topics) == {"orders": Beginning(offsets=(3, 1, 1), whole_us=NOW + 2_000_001)}


def test_an_empty_topic_is_whole_from_its_first_row_on() -> None:
    assert begun(Topics(prod=[[], []])) == {"orders": Beginning(offsets=(0, 0), whole_us=0)}
    assert begun(Topics(gone=3, prod=[rows(AT, AT, AT)])) == {"orders": Beginning(offsets=(3,), whole_us=0)}


def test_where_only_rows_say_how_far_it_is_it_is_whole_after_the_last_row_whatever_the_clock_says() -> None:
    assert begun(Topics(prod=[rows(AT, AT + 7, AT + 3)]), boundary="data") == {
        "orders": Beginning(offsets=(3,), whole_us=AT + 8)
    }


def test_a_topic_that_is_read_from_its_beginning_leaves_nothing_out() -> None:
    assert begun(Topics(prod=[rows(AT)]), start="earliest") == {}


@pytest.mark.parametrize("boundary", ["clock", "data"])
def test_records_that_cannot_be_decoded_now_matter_only_where_no_clock_says_how_far_it_is(boundary: str) -> None:
    topics = Topics(prod=[[b"\0\0\0\0\1x"]])
    more: dict[str, Any] = {"format": "protobuf", "boundary": boundary}
    pytest.importorskip("google.protobuf", reason="protobuf is not installed")
    if boundary == "clock":
        assert begun(topics, **more) == {"orders": Beginning(offsets=(1,), whole_us=NOW)}
    else:
        with pytest.raises(LogError, match="no registry"):
            begun(topics, **more)


def test_up_tells_which_results_are_left_out() -> None:
    spec = described(partitions=1)
    assert left_out(spec) == []
    late = spec.model_copy(update={"beginnings": {"orders": Beginning(offsets=(2,), whole_us=NOW)}})
    assert left_out(late) == [
        "query 'sums': results that need rows from before 2023-11-14T22:13:25Z are left out, as topic 'prod' is read "
        "from its end: the first window is the first whole one. start='earliest' in the app's file, and "
        "`borealis up --reset`, count what a topic has"
    ]
