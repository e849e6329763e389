"""An app's topics take what it writes, or `up` names those that do not, and what to set."""

from __future__ import annotations

import pytest

from borealis_py import App
from borealis_py.app import topics as of_app
from borealis_py.app.errors import LaunchError
from borealis_py.app.topics import accept_all_times, refuse_small_topics, topics_of
from borealis_py.log import topics
from borealis_py.log.base import TopicSpec
from borealis_py.log.record_size import needed_bytes, row_max_that_fits
from borealis_py.protocol.settings import ROW_MAX_BYTES, ROW_MAX_LIMIT_BYTES
from borealis_py.query.spec import AppSpec
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryClient, MemoryLog


def spec() -> AppSpec:
    app = App("shop")
    sales = app.source("sales", schema={"v": "int64"})
    app.query("q", sales.map(v="v"), delay_threshold="2s", replicas=2)
    return app.describe()


@pytest.fixture
def log() -> MemoryClient:
    client = MemoryLog(Scheduler()).client("up")
    client.admin().create(topics_of(spec()))
    return client


def test_topics_as_they_are_made_take_rows_of_any_row_max(log: MemoryClient) -> None:
    for row_max in (1_000, ROW_MAX_BYTES, ROW_MAX_LIMIT_BYTES):
        refuse_small_topics(log, spec(), row_max)
        assert needed_bytes(row_max, 1_000) <= topics.RECORD_BYTES_MAX


def test_a_topic_that_is_too_small_is_refused_with_what_to_set(log: MemoryClient) -> None:
    log.admin().set({"shop.q.r1": {"max.message.bytes": "1048588"}})
    with pytest.raises(LaunchError) as told:
        refuse_small_topics(log, spec(), ROW_MAX_BYTES)
    for part in (
        "topic shop.q.r1: max.message.bytes is 1048588, 1081417 are needed",
        "row_max, 1000000 bytes",
        "--topic shop.q.r1 --add-config max.message.bytes=8388608",
        "set `timing: row_max` to 967676 or less",
    ):
        assert part in str(told.value)
    assert "shop.q.r0" not in str(told.value)
    refuse_small_topics(log, spec(), 967_676)


def test_a_topic_without_rows_only_needs_room_for_batches_of_ours(log: MemoryClient) -> None:
    log.admin().set({"shop.status": {"max.message.bytes": "1048588"}, "shop.settings": {"max.message.bytes": "500000"}})
    with pytest.raises(LaunchError, match=r"topic shop\.settings: max\.message\.bytes is 500000") as told:
        refuse_small_topics(log, spec(), ROW_MAX_LIMIT_BYTES)
    assert "shop.status" not in str(told.value)
    assert "row_max` to" not in str(told.value), "a lower one does not help"


def test_the_clusters_limit_counts_where_a_topic_has_none_of_its_own() -> None:
    log = MemoryLog(Scheduler()).client("up")
    log.admin().create([TopicSpec("shop.q")])
    with pytest.raises(LaunchError, match=r"topic shop\.q: max\.message\.bytes is 1048588"):
        refuse_small_topics(log, spec(), ROW_MAX_BYTES)


@pytest.mark.parametrize("columns", [1, 40, 400])
@pytest.mark.parametrize("limit", [1_048_588, 2_000_000, 8_388_608])
def test_the_row_max_that_is_named_fits_and_no_much_larger_one(limit: int, columns: int) -> None:
    fits = row_max_that_fits(limit, columns)
    if fits is None:
        assert needed_bytes(1_000, columns) > limit
    else:
        assert limit - 300 < needed_bytes(fits, columns) <= limit


def test_topics_that_were_made_before_accept_all_times_from_now_on(log: MemoryClient) -> None:
    admin = log.admin()
    admin.create([TopicSpec("shop.q.r0.files"), TopicSpec("other.topic")])
    admin.set({"shop.control": {"message.timestamp.after.max.ms": "3600000"}})
    assert accept_all_times(log, spec()) == {}
    found = admin.settings(admin.topics())
    for name, some in found.items():
        expected = "3600000" if name == "other.topic" else dict(topics.ANY_TIME)["message.timestamp.after.max.ms"]
        assert some["message.timestamp.after.max.ms"] == expected, name


def test_a_topic_that_stays_as_it_is_is_named(log: MemoryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = log.admin()
    admin.set({"shop.control": {"message.timestamp.before.max.ms": "1000"}})
    monkeypatch.setattr(type(admin), "set", lambda self, values: dict.fromkeys(values, "not allowed"))
    assert accept_all_times(log, spec()) == {"shop.control": "not allowed"}


def test_every_topic_of_an_app_is_made_to_take_any_time_and_size() -> None:
    made = [*topics_of(spec()), *of_app.redo_topics_of(spec())]
    assert all(set(topics.TAKES_ALL) <= set(topic.config) for topic in made)
    assert set(topics.TAKES_ALL) <= set(topics.KEPT_FILES)
