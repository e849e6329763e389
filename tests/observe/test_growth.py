"""How fast streams grow, by their newest records. On the simulated log."""

from __future__ import annotations

import pytest

from borealis_py.app.topics import topics_of
from borealis_py.log.base import Feed, LogUnreachable, NewRecord, TopicSpec
from borealis_py.observe.growth import DAY_S, Growth, growth
from borealis_py.query import App
from borealis_py.query.spec import AppSpec
from tests.support.instant_log import InstantLog

APP = "g"
SENT_MS = 1_700_000_000_000


def an_app(partitions: int | None = None) -> AppSpec:
    app = App(APP)
    source = app.source("s", schema={"k": "string"}, partitions=partitions)
    cut = source.node("cut", replicas=1) if partitions is None else source.filter("k > ''")
    app.query("q", cut, "3s", replicas=2)
    return app.describe()


def made(log: InstantLog, spec: AppSpec) -> InstantLog:
    log.admin().create(topics_of(spec))
    return log


def records(topic: str, at_ms: list[int], partition: int = 0) -> list[NewRecord]:
    """Of 100 bytes each."""
    feed, headers = Feed(topic, partition), (("id", b"1" * 18),)
    return [NewRecord(feed, b"v" * 70, b"k" * 10, SENT_MS + ms, headers) for ms in at_ms]


def test_it_is_measured_by_the_newest_records_only() -> None:
    """Records of 100 bytes came every second before, and ten a second since."""
    log = made(InstantLog(), an_app())
    log.put(*records("g.s", [*range(0, 100_000, 1_000), *range(100_000, 130_000, 100)]))
    assert growth(log, an_app())["g.s"] == Growth(pytest.approx(1_000 * DAY_S), 200, 19.9)


def test_what_there_was_at_first_did_not_come_in_the_time_between() -> None:
    log = made(InstantLog(), an_app())
    log.put(*records("g.q", [0, 1_000]))
    assert growth(log, an_app())["g.q"] == Growth(pytest.approx(100 * DAY_S), 2, 1.0)


def test_every_stream_is_told_and_nothing_else() -> None:
    log = InstantLog()
    log.admin().create([TopicSpec("g.s"), TopicSpec("g.control")])
    found = growth(log, an_app())
    assert list(found) == ["g.s", "g.q", "g.cut.r0", "g.q.r0", "g.q.r1"]
    assert found["g.s"] == Growth(None, unknown="no records yet")
    assert {of.unknown for name, of in found.items() if name != "g.s"} == {"not running"}


def test_partitions_grow_together() -> None:
    spec = an_app(partitions=3)
    log = made(InstantLog(), spec)
    log.put(*records("g.s", list(range(0, 2_001, 100))), *records("g.s", list(range(0, 4_001, 200)), partition=2))
    assert growth(log, spec)["g.s"] == Growth(pytest.approx(1_500 * DAY_S), 42, 4.0)


def test_a_bucket_of_many_rows_takes_a_longer_look() -> None:
    """500 rows a second, all at its beginning: the newest 200 records have one time."""
    log = made(InstantLog(), an_app())
    log.put(*records("g.q", [second * 1_000 for second in range(10) for _ in range(500)]))
    assert growth(log, an_app())["g.q"] == Growth(pytest.approx(50_000 * DAY_S, rel=0.1), 1_600, 3.0)


def test_one_time_tells_no_growth() -> None:
    log = made(InstantLog(), an_app())
    log.put(*records("g.s", [5, 5, 5]))
    assert growth(log, an_app())["g.s"] == Growth(None, 3, unknown="no two records with a time between yet")


def test_corrections_of_earlier_times_count() -> None:
    log = made(InstantLog(), an_app())
    log.put(*records("g.q.r1", [3_000, 4_000, 1_000, 2_000]))
    assert growth(log, an_app())["g.q.r1"] == Growth(pytest.approx(100 * DAY_S), 4, 3.0)


def test_large_records_are_not_all_read() -> None:
    log = made(InstantLog(), an_app())
    feed = Feed("g.q.r0")
    log.put(*(NewRecord(feed, b"v" * 8_000_000, timestamp_ms=SENT_MS + ms) for ms in range(0, 5_000, 1_000)))
    assert growth(log, an_app())["g.q.r0"] == Growth(pytest.approx(8_000_000 * DAY_S), 3, 2.0)


def test_a_topic_with_too_few_partitions_says_so_and_the_others_are_told() -> None:
    spec = an_app(partitions=2)
    log = InstantLog()
    log.admin().create([TopicSpec("g.s", 1), TopicSpec("g.q.r0", 1)])
    log.put(*records("g.q.r0", [0, 100]))
    found = growth(log, spec)
    assert "g.s[1]" in found["g.s"].unknown
    assert found["g.q.r0"].bytes_a_day is not None


def test_no_broker_is_an_error() -> None:
    log = InstantLog()
    log.cut()
    with pytest.raises(LogUnreachable):
        growth(log, an_app())
