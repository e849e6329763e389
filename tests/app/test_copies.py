"""What `up` says of the copies of topics: nothing on a cluster of one, and what a broker's death costs elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from borealis_py import App
from borealis_py.app.copies import remarks
from borealis_py.app.topics import AppTopics, accept_all_times, refuse_small_topics, topics_of
from borealis_py.kafka.admin import Copies, KafkaAdmin
from borealis_py.log.base import LogError, Replication, TopicSpec
from borealis_py.protocol.settings import ROW_MAX_BYTES
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryAdmin, MemoryLog

SAFE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
EARLY = SAFE | {"min.insync.replicas": "1"}
UNCLEAN = SAFE | {"unclean.leader.election.enable": "true"}


def said(brokers: int, copies: int, settings: Mapping[str, str]) -> list[str]:
    return remarks(Replication(brokers, {"shop.q": copies}), {"shop.q": settings})


@pytest.mark.parametrize("settings", [SAFE, EARLY, UNCLEAN])
def test_a_laptop_is_told_nothing(settings: Mapping[str, str]) -> None:
    assert said(1, 1, settings) == []


def test_what_a_dead_broker_costs_is_said_in_one_line_each() -> None:
    assert said(3, 3, SAFE) == []
    for copies, settings, cost in (
        (
            1,
            EARLY | UNCLEAN,
            "topic shop.q has one copy on a cluster of 3 brokers: a broker that dies takes their rows",
        ),
        (3, EARLY, "topic shop.q has min.insync.replicas=1: rows that were acknowledged are lost if one broker dies"),
        (3, UNCLEAN, "topic shop.q has unclean.leader.election.enable=true: rows that others have read may vanish"),
    ):
        (line,) = said(3, copies, settings)
        assert line.startswith(cost)
        assert "topics: {replication: 3, min_insync_replicas: 2}" in line or "--topic shop.q --add-config" in line


def test_many_topics_are_named_in_part() -> None:
    copies = {f"shop.{n}": 1 for n in range(9)}
    (line,) = remarks(Replication(2, copies), dict.fromkeys(copies, SAFE))
    assert line.startswith("topics shop.0, shop.1, shop.2 and 6 more have one copy")


def test_what_may_not_be_read_is_not_guessed() -> None:
    assert remarks(Replication(3, {"prod.orders": 3}), {}) == []


def test_the_topics_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("shop")
    app.query("q", app.source("sales", schema={"v": "int64"}).map(v="v"), delay_threshold="2s", replicas=2)
    spec, log = app.describe(), MemoryLog(Scheduler()).client("up")
    log.admin().create([*topics_of(spec), TopicSpec("prod.orders"), TopicSpec("other")])
    asked: list[list[str]] = []
    settings = MemoryAdmin.settings

    def ask(self: MemoryAdmin, names: list[str]) -> Mapping[str, Mapping[str, str]]:
        asked.append(list(names))
        return settings(self, names)

    monkeypatch.setattr(MemoryAdmin, "settings", ask)
    known = AppTopics(log, spec, ["prod.orders", "nowhere"])
    refuse_small_topics(log, spec, ROW_MAX_BYTES, known)
    assert accept_all_times(log, spec, known) == {}
    assert known.replication == Replication(1, dict.fromkeys(known.of_all, 1))
    assert asked == [sorted([*(topic.name for topic in topics_of(spec)), "prod.orders"])]
    assert set(known.of_all) - set(known.settings) == {"prod.orders"}, "which is none of the app's to change"


class Cluster:
    """A client of so many brokers, which takes what is created down."""

    def __init__(self, brokers: int) -> None:
        self.brokers, self.topics = dict.fromkeys(range(brokers)), dict[str, object]()
        self.created: list[NewTopic] = []

    def list_topics(self, timeout: float) -> Cluster:
        return self

    def create_topics(self, new: list[NewTopic], **_: float) -> dict[str, object]:
        self.created += new
        return {}


def admin(brokers: int, copies: Copies, monkeypatch: pytest.MonkeyPatch) -> tuple[KafkaAdmin, Cluster]:
    made, cluster = KafkaAdmin("nowhere:1", {}, copies), Cluster(brokers)
    monkeypatch.setattr(made, "_client", cluster)
    monkeypatch.setattr(made, "_settle", lambda condition, still: None)
    return made, cluster


def test_topics_are_made_with_the_copies_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    made, cluster = admin(3, Copies(3, 2), monkeypatch)
    made.create([TopicSpec("shop.q", 2, (("retention.ms", "-1"),))])
    ((topic),) = cluster.created
    assert (topic.num_partitions, topic.replication_factor) == (2, 3)
    assert topic.config == {"retention.ms": "-1", "min.insync.replicas": "2"}


def test_topics_are_made_as_the_cluster_has_it_where_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    made, cluster = admin(1, Copies(), monkeypatch)
    made.create([TopicSpec("shop.q")])
    ((topic),) = cluster.created
    assert (topic.replication_factor, topic.config) == (-1, {})


def test_more_copies_than_brokers_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made, cluster = admin(2, Copies(3, 2), monkeypatch)
    with pytest.raises(LogError, match=r"topic shop\.q is to have 3 copies .*topics: replication.* has 2 brokers now"):
        made.create([TopicSpec("shop.q")])
    assert cluster.created == []
