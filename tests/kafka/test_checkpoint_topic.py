"""Checkpoints in topics of the app's Kafka: whole or not there, as files are (`checkpoints: kafka`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord
from borealis_py.node import checkpoint_topic
from borealis_py.node.checkpoint_files import names_in
from borealis_py.node.checkpoint_topic import PART_BYTES, TopicLocation
from borealis_py.node.checkpoints import KEEP, CheckpointStore
from tests.harness.waiting import PATIENCE_S
from tests.node.texts import Numbers, Text, checkpoint, numbers
from tests.support.nowhere import NOWHERE

_numbers = itertools.count()


@pytest.fixture
def app() -> str:
    return f"kept{next(_numbers)}"


@pytest.fixture
def place(log: KafkaLog, app: str) -> Iterator[TopicLocation]:
    it = TopicLocation(log, app, "q.r0")
    it.prepare()
    yield it
    it.close()


def again(log: KafkaLog, app: str, directory: str = "q.r0") -> TopicLocation:
    """The place as another process finds it."""
    return TopicLocation(log, app, directory)


def send(log: KafkaLog, app: str, *records: tuple[bytes, bytes | None]) -> None:
    """What somebody else writes into the topic: keys and values."""
    appender = log.appender(lambda: None)
    for key, value in records:
        appender.append(NewRecord(Feed(topics.kept_files(app, "q.r0")), value, key))
    assert appender.flush(PATIENCE_S)
    appender.close()


def test_files_are_found_by_who_comes_later(log: KafkaLog, app: str, place: TopicLocation) -> None:
    large = bytes(range(256)) * (PART_BYTES // 100)
    place.write("b", large)
    place.write("a", b"")
    place.write("c", b"gone")
    place.remove("c")
    place.remove("never there")
    for found in (place, again(log, app)):
        assert found.names() == ["a", "b"]
        assert found.read("b") == large
        assert found.read("a") == b""
        with pytest.raises(OSError, match=rf"topic {app}\.q\.r0\.files, c"):
            found.read("c")


def test_a_file_is_replaced_as_a_whole(log: KafkaLog, app: str, place: TopicLocation) -> None:
    for content in (bytes(3 * PART_BYTES), b"short", bytes(2 * PART_BYTES)):
        place.write("a", content)
        assert place.read("a") == again(log, app).read("a") == content


def test_what_a_killed_writer_left_is_not_there_and_is_removed(log: KafkaLog, app: str, place: TopicLocation) -> None:
    place.write("whole", b"1")
    place.write("large", bytes(2 * PART_BYTES))
    half = checkpoint_topic.msgspec.msgpack.encode(checkpoint_topic.Part("another write", 2, b"x"))
    send(log, app, (b"half/0", half), (b"large/0", half), (b"garbage", b"x"), (b"garbage/0", b"x"), (b"x/y", half))
    next_one = again(log, app)
    assert next_one.names() == ["whole"]
    with pytest.raises(OSError, match="not all of it"):
        next_one.read("half")
    assert next_one.remove_temporaries() == ["half", "large"]
    assert again(log, app).remove_temporaries() == []
    assert again(log, app).names() == ["whole"]


def test_replicas_find_each_other_and_nobody_else(log: KafkaLog, app: str, place: TopicLocation) -> None:
    names = ("q.r1", "q.0.r1")
    for owner, directory in ((app, "q.r1"), (app, "q.0.r1"), (app, "q"), (f"{app}-b", "q.r0")):
        TopicLocation(log, owner, directory).prepare()
    assert set(place.siblings()) == {"q.r0", *names}
    assert place.sibling("q.r1").name == "q.r1"
    assert place.sibling("q.r7").names() == [], "it has never run"


def test_a_store_keeps_the_newest_and_reads_those_of_peers(log: KafkaLog, app: str) -> None:
    stores = [CheckpointStore(TopicLocation(log, app, f"q.r{k}"), "h", Text(), threaded=False) for k in range(2)]
    for bucket in range(10, 10 + KEEP + 2):
        stores[1].save(checkpoint(bucket, f"state {bucket}"))
    assert stores[1].failures == 0
    assert [loaded.bucket for _, loaded in stores[0].of_peers()] == [14, 13, 12]
    adopted = stores[0].of_peer(1, 13)
    assert adopted is not None
    assert adopted.state == "state 13"
    assert stores[0].of_peer(1, 11) is None
    assert stores[0].of_peer(5, 13) is None
    next_one = CheckpointStore(again(log, app, "q.r1"), "h", Text(), threaded=False)
    newest = next_one.newest()
    assert newest is not None
    assert (newest.bucket, newest.state) == (14, "state 14")
    for store in (*stores, next_one):
        store.close()


def test_a_silent_broker_costs_a_checkpoint_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_topic, "WRITE_S", 0.3)
    nowhere = TopicLocation(KafkaLog(NOWHERE), "app", "q.r0")
    nowhere._files = {}
    with pytest.raises(OSError, match=r"not written within 0\.3 s"):
        nowhere.write("a", b"1")
    with pytest.raises(OSError, match="what was written before has not arrived yet"):
        nowhere.write("b", b"1")
    nowhere.close()


def test_increments_are_read_together_and_go_together(log: KafkaLog, app: str) -> None:
    def store(k: int) -> CheckpointStore:
        return CheckpointStore(TopicLocation(log, app, f"q.r{k}"), "h", Numbers(), threaded=False, increments=4)  # type: ignore[arg-type]

    writer = store(0)
    for bucket in range(100, 140, 2):
        writer.save(numbers(bucket))
    assert writer.failures == 0
    place = again(log, app)
    names = names_in(place)
    assert [name.bucket for name in names if name.is_base] == [110, 120, 130]
    assert {name.base for name in names} == {110, 120, 130}
    found = place.read_all([str(name) for name in names] + ["never there"])
    assert isinstance(found.pop("never there"), OSError)
    assert all(found[str(name)] == place.read(str(name)) for name in names)
    for bucket in (138, 124):
        loaded = store(1).of_peer(0, bucket)
        assert loaded is not None
        assert (loaded.bucket, loaded.state) == (bucket, numbers(bucket).state)
