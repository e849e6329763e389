"""Rows of a topic wait for each other, and no boundary waits for more than it lacks: an ingress has a turn for many of
them, and its readers a record."""

from __future__ import annotations

from typing import Any

from borealis_py.ingress.copier import ARRIVE_US, GATHER_ROWS
from borealis_py.log.base import Feed
from borealis_py.log.records import BatchHeader, unpack_source
from tests.ingress.worlds import TopicWorld, W


def copying(**more: Any) -> TopicWorld:
    world = TopicWorld(partitions=1, **more)
    world.copying()
    world.run(1)
    return world


def rows_of_records(world: TopicWorld) -> list[int]:
    """How many rows each record of the input has that has any."""
    headers = [unpack_source(record.value)[0] for record in world.memory.committed(Feed("shop.orders"))]
    counts = [len(header.stimes) // 8 for header in headers if isinstance(header, BatchHeader)]
    return [count for count in counts if count]


def test_rows_that_come_one_by_one_go_together() -> None:
    world = copying()
    for _ in range(200):
        world.send()
        world.run(0.005)
    world.run(1)
    counts = rows_of_records(world)
    assert sum(counts) == 200
    assert len(counts) <= 2 * (200 * 5_000 // W) + 1


def test_many_rows_do_not_wait_for_the_end_of_their_bucket() -> None:
    world = copying(width_us=50 * W)
    for _ in range(3 * GATHER_ROWS):
        world.send()
    world.run(ARRIVE_US / 1e6 + 0.02)
    assert sum(rows_of_records(world)) == 3 * GATHER_ROWS


def test_a_boundary_waits_for_the_rows_before_it_and_for_no_others() -> None:
    world = copying()
    for _ in range(20):
        world.run((W - world.now % W) / 1e6 - 0.004)
        world.send()
        end = world.now // W * W + W
        world.run(0.004 + 0.018)
        assert world.copied().boundary >= end
        assert len(world.copied().rows) == world.sent
