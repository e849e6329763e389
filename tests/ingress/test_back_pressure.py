"""How much an ingress keeps in memory, and what it does while it must wait."""

from __future__ import annotations

import pytest

from borealis_py.ingress.session import IngressSession
from borealis_py.ingress.topic.partition_queue import QUEUE_BYTES, PartitionQueue
from borealis_py.log.base import Feed, NewRecord, Record
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

    def timed(session: IngressSession, now_us: int) -> None:
        turns.append(now_us)
        turn(session, now_us)

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
