"""Names of topics, spelled out once more: users' own consumers and their ACLs rely on them."""

from __future__ import annotations

from borealis_py.log import topics
from borealis_py.log.base import Feed


def test_a_redo_has_a_topic_for_each_replica_with_a_partition_each_way() -> None:
    assert topics.redo_feeds("app", "q", 1) == (Feed("app.q.r1.redo", 0), Feed("app.q.r1.redo", 1))
    specs = topics.of_redos("app", {"q": 2, "n.3": 1})
    assert [(s.name, s.partitions) for s in specs] == [
        ("app.q.r0.redo", 2),
        ("app.q.r1.redo", 2),
        ("app.n.3.r0.redo", 2),
    ]
    assert {dict(s.config)["retention.ms"] for s in specs} == {"600000"}


def test_every_topic_of_an_app_and_how_long_it_is_kept() -> None:
    specs = topics.of_app("app", ["s.0", "s.1"], {"q": 2}, {"n.0": 1, "n.1": 1}, {"n.0": 3, "n.1": 3})
    parts = {s.name: s.partitions for s in specs}
    assert parts == {
        "app.s": 2, "app.q": 1, "app.n.0.r0": 3, "app.n.0.progress": 1, "app.n.1.r0": 3, "app.n.1.progress": 1,
        "app.q.r0": 1, "app.q.r1": 1, "app.q.progress": 1, "app.control": 3, "app.settings": 1, "app.status": 1,
        "app.deadletter": 1, "app.acks": 1,
    }  # fmt: skip
    config = {s.name: dict(s.config) for s in specs}
    for kept in ("app.s", "app.q", "app.q.r0", "app.deadletter"):
        assert config[kept]["retention.ms"] == "-1", "nothing of a user's goes by itself"
    assert config["app.q.progress"]["cleanup.policy"] == config["app.settings"]["cleanup.policy"] == "compact"
    assert config["app.control"]["retention.ms"] == config["app.status"]["retention.ms"] == "3600000"
    for name, of in config.items():
        assert of["max.message.bytes"] == "8388608", name
        assert of["message.timestamp.before.max.ms"] == of["message.timestamp.after.max.ms"] == str(2**63 - 1), name
        assert of["message.timestamp.type"] == ("LogAppendTime" if name == "app.status" else "CreateTime"), name


def test_topics_that_are_trimmed_have_segments_that_can_be_freed() -> None:
    specs = topics.of_app("app", ["s.0", "s.1", "t"], {"q": 1}, {"n": 1}, trimmed=["s.0", "s.1", "n"])
    segments = {s.name: size for s in specs if (size := dict(s.config).get("segment.bytes"))}
    assert segments == {"app.s": "67108864", "app.n.r0": "16777216"}


def test_where_a_partition_lies() -> None:
    assert topics.source("app", "s.1") == topics.corrected("app", "s.1") == Feed("app.s", 1)
    assert topics.source("app", "s") == Feed("app.s", 0)
    assert topics.own_feeds("app", "n.1", 0, 2) == (Feed("app.n.1.r0", 0), Feed("app.n.1.r0", 1))
    assert topics.transactional_id("app", "q") == "app.q"
