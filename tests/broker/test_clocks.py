"""A machine's clock that is wrong, on a real broker: its replicas go on, and say by how much it differs (F7)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from borealis_py.app.clocks import ahead_of_broker_us
from borealis_py.app.errors import LaunchError
from borealis_py.app.topics import accept_all_times, refuse_small_topics, topics_of
from borealis_py.client.publisher import wall_us
from borealis_py.kafka import appender
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import NewRecord, TopicSpec
from borealis_py.query import App
from tests.harness.running import RunningApp, running
from tests.harness.waiting import until

pytestmark = pytest.mark.broker

HOUR, YEAR = 3_700, 365 * 86_400


class MachineClock:
    """The wall clock of what appends in this process: the times of records that have none of their own, and what is
    compared with the broker's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_s = 0
        kept = appender.produce

        def produce(producer: object, record: NewRecord, on_delivery: object) -> None:
            if record.timestamp_ms is None:
                record = msgspec.structs.replace(record, timestamp_ms=int((time.time() + self.ahead_s) * 1000))
            kept(producer, record, on_delivery)  # type: ignore[arg-type]

        monkeypatch.setattr(appender, "produce", produce)
        shifted = SimpleNamespace(
            monotonic=time.monotonic,
            monotonic_ns=time.monotonic_ns,
            time_ns=lambda: time.time_ns() + self.ahead_s * 1_000_000_000,
        )
        monkeypatch.setattr(appender, "time", shifted)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MachineClock:
    return MachineClock(monkeypatch)


def described(name: str) -> App:
    it = App(name, bucket="50ms")
    source = it.source("src", schema={"value": "int64"})
    it.query("all", source.map(value="value"), delay_threshold="1s", replicas=1)
    return it


@pytest.fixture
def app(bootstrap: str, tmp_path: Path, clock: MachineClock, request: pytest.FixtureRequest) -> Iterator[RunningApp]:
    name = request.node.name.replace("[", "-").replace("]", "").replace("_", "-")[-40:].strip("-")
    with running(bootstrap, described(f"clocks-{name}"), tmp_path) as app:
        app.start(0)
        app.wait_ready(0)
        yield app


def test_replicas_go_on_whatever_their_clock_says_and_say_by_how_much_it_differs(
    app: RunningApp, clock: MachineClock
) -> None:
    sent = list[int]()
    with app.publisher("src") as publisher:
        for jump in (1, -1, HOUR, 0, -HOUR, YEAR, -YEAR, 0):
            clock.ahead_s = jump
            for _ in range(3):
                sent.append(len(sent))
                publisher.send({"value": sent[-1]})
            until(
                lambda: bool(app.errors) or [json.loads(r.value or b"")["value"] for r in app.corrected("all")] == sent,
                f"all rows are published with the clock {jump} s ahead",
            )
            assert not app.errors, app.errors
            if abs(jump) > 1:
                until(lambda jump=jump: ahead_s(app) == jump, f"the status says {jump} s")
    assert {s.inc for s in app.statuses()} == {1}, "it has never started again"


def ahead_s(app: RunningApp) -> int | None:
    ahead_us = app.last(0).clock_ahead_us
    return None if ahead_us is None else round(ahead_us / 1e6)


def test_up_learns_by_how_much_its_clock_differs(bootstrap: str, clock: MachineClock) -> None:
    log = KafkaLog(bootstrap)
    with closing(log.admin()) as admin:
        admin.create(topics_of(described("compared").describe()))
    for ahead in (0, HOUR, -YEAR):
        clock.ahead_s, begun = ahead, time.monotonic()
        found = ahead_of_broker_us(log, "compared")
        assert found is not None
        assert abs(found - ahead * 1_000_000) <= (time.monotonic() - begun) * 1_000_000 + 2_000


def test_topics_that_are_there_take_any_time_from_up_on_and_small_ones_are_refused(bootstrap: str) -> None:
    log, spec = KafkaLog(bootstrap), described("older").describe()
    with closing(log.admin()) as admin:
        admin.create([TopicSpec("older.control"), TopicSpec("older.all", config=(("max.message.bytes", "1000000"),))])
        assert admin.settings(["older.control"])["older.control"]["message.timestamp.after.max.ms"] == "3600000"
        admin.create(topics_of(spec))
        assert accept_all_times(log, spec) == {}
        for name, some in admin.settings(admin.topics()).items():
            if name.startswith("older."):
                assert {some[one] for one in dict(topics.ANY_TIME) if "max" in one} == {str(2**63 - 1)}, name
    with pytest.raises(LaunchError, match=r"topic older\.all: max\.message\.bytes is 1000000, 1081417 are needed"):
        refuse_small_topics(log, spec, 1_000_000)


def published(app: RunningApp) -> list[int]:
    return [json.loads(record.value or b"")["value"] for record in app.corrected("all")]


@pytest.mark.parametrize("jump_s", [1, HOUR, YEAR])
def test_a_publisher_s_clock_that_jumps_makes_rows_wait_or_late_and_loses_none(app: RunningApp, jump_s: int) -> None:
    """Its boundary is a promise by its clock, and is never taken back."""
    jump_us = jump_s * 1_000_000
    with app.publisher("src") as publisher:
        publisher.send({"value": 0})
        until(lambda: published(app) == [0], "the first row is published")
        publisher._clock = lambda: wall_us() - jump_us
        publisher.send({"value": 1})
        publisher.flush()
        assert published(app) == [0] or jump_s == 1, "time stands until the clock has caught up"
        publisher._clock = wall_us
        until(lambda: published(app) == [0, 1], "the clock is right again")
        publisher._clock = lambda: wall_us() + jump_us
        publisher.send({"value": 2})
        until(lambda: published(app) == [0, 1, 2], "rows that it stamps itself go on")
        publisher.send({"value": 3}, stime=wall_us() - 200_000)
        until(lambda: len(app.dead_letters()) == 1, "a row with the right time is a dead letter")
        assert app.dead_letters()[0]["reason"].startswith("late")
        assert published(app) == [0, 1, 2]
    assert not app.errors
