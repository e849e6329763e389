"""The publisher on a real broker: what the simulated log promises holds there too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from borealis_py.client.publisher import Publisher, wall_us
from borealis_py.client.pump import publish_rows
from borealis_py.client.stimes import Boundaries
from borealis_py.client.target import StreamEnded, StreamFenced, Target
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Log
from tests.client.folded import AHEAD_MAX_US, SCHEMA, Folded, W, fold_log, inputs, row

APP = "publishing"


@pytest.fixture
def log(bootstrap: str) -> Log:
    return KafkaLog(bootstrap)


@pytest.fixture
def target(log: Log, request: pytest.FixtureRequest) -> Iterator[Target]:
    target = Target(
        APP,
        "a1",
        request.node.name.replace("[", "-").replace("]", ""),
        W,
        (wall_us() - 10**12) // W,
        ahead_max_us=AHEAD_MAX_US,
    )
    admin = log.admin()
    admin.create([s for s in topics.of_app(APP, [target.source], {}) if s.name.endswith((target.source, "deadletter"))])
    yield target
    admin.close()


def publisher(log: Log, target: Target, **options: Any) -> Publisher:
    return Publisher(
        log, target.app, target.app_uid, target.source, SCHEMA, W, target.origin, ahead_max_us=AHEAD_MAX_US, **options
    )


def folded(log: Log, target: Target) -> Folded:
    lookup = log.lookup()
    first, end = lookup.bounds(target.feed)
    result = fold_log(list(lookup.read(target.feed, first, end)), target)
    lookup.close()
    return result


def send_for_ever(live: Publisher) -> None:
    while True:
        live.send({**row(0), "carrier": "nobody"})
        live.flush()


def test_history_large_rows_and_a_resume_end_as_each_row_once(log: Log, target: Target) -> None:
    at = [target.buckets.start(target.origin) + i * 7_000 for i in range(3_000)]
    with publisher(log, target, boundaries=Boundaries.DATA) as first:
        publish_rows(first, inputs(at[:2_000]))
        assert first.send({**row(2_000), "carrier": "x" * 990_000}, at[2_000], 2_000)
    again = publisher(log, target, boundaries=Boundaries.DATA, take_over=True).start()
    assert again.last_seq == 2_000
    publish_rows(again, inputs(at))
    again.close(end=True)
    result = folded(log, target)
    assert [(seq, stime) for _, seq, stime, _ in result.rows] == list(enumerate(at))
    assert len(result.rows[2_000][3]["carrier"]) == 990_000
    assert result.state.ended
    assert (result.late, result.duplicates, result.rejects) == (0, 0, [])
    with pytest.raises(StreamEnded):
        publisher(log, target, take_over=True).start()


def test_a_take_over_of_a_live_publisher_stops_it(log: Log, target: Target) -> None:
    first = publisher(log, target).start()
    first.send(row(0))
    first.flush()
    with publisher(log, target, take_over=True) as second:
        second.send(row(1))
        second.flush()
        with pytest.raises(StreamFenced):
            send_for_ever(first)
    with pytest.raises(StreamFenced):
        first.close()
    result = folded(log, target)
    assert [r["n"] for _, _, _, r in result.rows if r["carrier"] != "nobody"] == [0, 1]
    assert result.rows[-1][3] == row(1), "what the first one sent after the take-over does not count"
