"""How much an ingress keeps in memory, and what it does while it must wait."""

from __future__ import annotations

from typing import cast

import pytest

from borealis_py.ingress import partition_queue
from borealis_py.ingress.decoder import Decoded, TopicDecoder
from borealis_py.ingress.foreign_topic import ForeignTopic
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.partition_queue import QUEUE_BYTES, PartitionQueue
from borealis_py.ingress.session import IngressSession
from borealis_py.log.base import Feed, NewRecord, Record, Wake
from borealis_py.log.foreign import ForeignLog
from borealis_py.simulation.log.appender import MemoryAppender
from tests.ingress.worlds import TopicWorld


def test_keys_and_headers_fill_a_queue_as_values_do() -> None:
    large = b"x" * (QUEUE_BYTES // 10)
    for record in (
        Record(Feed("t"), 0, 0, large, None),
        Record(Feed("t"), 0, 0, None, large),
        Record(Feed("t"), 0, 0, None, None, (("trace", large),)),
    ):
        queue = PartitionQueue(0, 0)
        for _ in range(9):
            queue.put(record)
        assert not queue.full
        queue.put(record)
        assert queue.full


class Arriving:
    """A log in which 30 records more have arrived at each poll; it notes which feeds are stopped."""

    def __init__(self) -> None:
        self.stopped: list[Feed] = []
        self.polls = self._next = 0
        self.more = False

    def topic_watch(self, topic: str, wake: object) -> None:
        return None

    def reader(self, wake: Wake, seldom: bool = False) -> Arriving:
        return self

    def open(self, feed: Feed, offset: int) -> None:
        self._next = offset

    def stop(self, feed: Feed) -> None:
        self.stopped.append(feed)

    def poll(self) -> list[Record]:
        self.polls += 1
        first, self._next = self._next, self._next + 30
        return [Record(Feed("t", 0), n, 1, None, b'{"n":%d}' % n) for n in range(first, self._next)]

    def position(self, feed: Feed) -> int:
        return self._next


def test_a_partition_is_not_stopped_for_what_is_copied_in_the_next_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the reader has fetched of one that is stopped is fetched again."""
    monkeypatch.setattr(partition_queue, "QUEUE_RECORDS", 40)
    monkeypatch.setattr(partition_queue, "CHUNK", 20)
    log = Arriving()
    topic = ForeignTopic(cast(ForeignLog, log), "t", lambda: None)
    queue = topic.open(0, 0, 0)
    decoder = TopicDecoder(JsonFormat({"n": "int64"}), None, "us", 1_000)
    copied = list[int]()
    for turn in range(100):
        polls = log.polls
        topic.poll(turn)
        head = queue.head(decoder)
        assert isinstance(head, Decoded)
        copied += head.rows.column("n").to_pylist()
        queue.done(*head.cut(len(head)))
        assert topic.more is (polls == log.polls and queue.drained), "what one turn leaves, the next takes at once"
    assert log.stopped == []
    assert copied == list(range(len(copied)))
    assert len(copied) > 1_000


def test_a_log_that_takes_nothing_holds_up_copying_before_memory_fills_and_without_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = TopicWorld(partitions=2)
    process = world.copying()
    sizes, turns = list[int](), list[int]()
    append, turn = MemoryAppender.append, IngressSession.turn

    def counted(appender: MemoryAppender, record: NewRecord, token: object = None) -> None:
        sizes.append(len(record.value or b""))
        append(appender, record, token)

    def timed(session: IngressSession, now_us: int, log_us: int | None) -> None:
        turns.append(now_us)
        turn(session, now_us, log_us)

    monkeypatch.setattr(MemoryAppender, "append", counted)
    world.memory.cut(process.name, ["shop.orders"])
    for n in range(80):
        world.send(n % 2, shop="x" * 800_000)
    world.run(1.5)
    written = len(sizes)
    assert 16_000_000 < sum(sizes) < 25_000_000
    monkeypatch.setattr(IngressSession, "turn", timed)
    world.run(1.5)
    assert len(sizes) == written
    assert len(turns) < 300
    world.memory.heal(process.name)
    world.run(5)
    assert sorted(world.numbers()) == list(range(1, 81))
    assert process.errors == []
