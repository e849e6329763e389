"""Where a live view begins that comes late, and what becomes of one that falls behind what is kept (R16.12)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any
from unittest import mock

import pytest

from borealis_py.log.base import Feed, Record
from borealis_py.log.stream_topics import StreamTopics
from borealis_py.simulation.log.reader import MemoryLookup
from sunion.errors import RetentionLost
from sunion.model import Kind, StableRange
from tests.client.live_query import FIRST, TOPICS, LiveQuery, tentative, trims, wait_of


def says_and_trims(world: LiveQuery) -> None:
    """r1 has died at the third bucket; what r0 has said is deleted up to the sixth, and goes on."""
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 3)), by=world.other)
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 9)))
    trims(world, FIRST + 5)


def test_a_view_that_begins_late_begins_at_what_is_kept() -> None:
    """r1 has died before: its topic reaches further back, and ends."""
    world = LiveQuery()
    says_and_trims(world)
    subscription = world.subscribe(wait_of(1_000_000))
    shown = world.shown(subscription, 0.2)
    assert shown[0].bucket == FIRST + 5
    assert subscription.stream.next == FIRST + 9


def test_a_view_begins_at_what_is_kept_though_it_is_trimmed_while_it_looks() -> None:
    """Chaos, seed 170004: it had found where all is kept, then that was deleted, and it waited for ever."""
    world, find = LiveQuery(), StreamTopics.first_kept
    says_and_trims(world)

    def found_then_trimmed(topics: StreamTopics, bucket: int) -> int:
        begins = find(topics, bucket)
        trims(world, FIRST + 7)
        return begins

    with mock.patch.object(StreamTopics, "first_kept", found_then_trimmed):
        subscription = world.subscribe(wait_of(1_000_000))
    assert world.shown(subscription, 0.2)[0].bucket == FIRST + 7


def test_a_view_that_has_shown_nothing_begins_later_where_its_first_bucket_is_deleted() -> None:
    world = LiveQuery()
    says_and_trims(world)
    subscription = world.subscribe(wait_of(1_000_000))
    trims(world, FIRST + 7)
    assert world.shown(subscription, 0.2)[0].bucket == FIRST + 7
    assert subscription.stream.next == FIRST + 9


def trims_at_look(world: LiveQuery, nth: int, below: int) -> Any:
    """What lies below a bucket is deleted right before the `nth` look into a topic."""
    read, looks = MemoryLookup.read, count(1)

    def trimmed_then_read(lookup: MemoryLookup, feed: Feed, first: int, end: int) -> Iterator[Record]:
        if next(looks) == nth:
            trims(world, below)
        return read(lookup, feed, first, end)

    return mock.patch.object(MemoryLookup, "read", trimmed_then_read)


@pytest.mark.parametrize("nth", range(1, 8))
def test_what_is_deleted_between_two_looks_ends_no_view(nth: int) -> None:
    world = LiveQuery()
    says_and_trims(world)
    with trims_at_look(world, nth, FIRST + 6):
        subscription = world.subscribe(wait_of(1_000_000), None)
    trims(world, FIRST + 7)
    with trims_at_look(world, nth, FIRST + 8):
        shown = world.shown(subscription, 0.2)
    assert shown[0].bucket in (FIRST + 7, FIRST + 8)
    assert subscription.stream.next == FIRST + 9


def test_a_view_that_begins_later_has_not_read_anything() -> None:
    """What it had asked before does not tell that nothing stable lies behind a tentative bucket that waited long."""
    world = LiveQuery()
    says_and_trims(world)
    subscription = world.subscribe(wait_of(1_000_000))
    world.says(StableRange(1, FIRST + 7, FIRST + 9), StableRange(1, FIRST + 9, FIRST + 10), by=world.other)
    world.says(replace(tentative(FIRST + 9), waited_us=60_000_000))
    subscription._read_to = world.clock.now_us()
    trims(world, FIRST + 7)
    world.log.poll_records_max = 3  # of r0 first, up to the tentative bucket
    assert {change.kind for change in world.shown(subscription, 0.5)} == {Kind.BOUNDARY}
    assert subscription.stream.next == FIRST + 10


def test_a_view_whose_first_bucket_one_topic_after_the_other_deletes_begins_later() -> None:
    """The cursor that waited at the first topic for the other one goes on, too."""
    world = LiveQuery()
    subscription = world.subscribe(wait_of(1_000_000))
    world.shown(subscription, 0.1)
    subscription._reader.stop(TOPICS[1])
    for by in (world.other, None):
        world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 9)), by=by)
    trims(world, FIRST + 5)
    assert world.shown(subscription, 0.2) == []
    trims(world, FIRST + 5, TOPICS[1])
    subscription._reader.open(TOPICS[1], 0)
    assert world.shown(subscription, 0.2)[0].bucket == FIRST + 5
    world.says(StableRange(1, FIRST + 9, FIRST + 12))
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST + 12


def test_a_view_that_falls_behind_what_is_kept_is_told_so() -> None:
    world = LiveQuery()
    subscription = world.subscribe(wait_of(1_000_000))
    world.says(StableRange(1, FIRST, FIRST + 1))
    assert world.shown(subscription, 0.1)
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST + 1, FIRST + 9)))
    trims(world, FIRST + 5)
    with pytest.raises(RetentionLost, match=rf"app\.q\.r0: bucket {FIRST + 1} is to be shown next .* Subscribe again"):
        world.shown(subscription, 0.2)


def test_a_view_that_falls_behind_one_topic_finds_the_rest_in_another() -> None:
    """r0 has deleted what is to be shown next, and r1 has it: a view is told of a loss only where there is one."""
    world = LiveQuery()
    subscription = world.subscribe(wait_of(1_000_000))
    world.shown(subscription, 0.1)
    subscription._reader.stop(TOPICS[1])
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 7)), by=world.other)
    world.says(*(StableRange(1, bucket, bucket + 1) for bucket in range(FIRST, FIRST + 9)))
    trims(world, FIRST + 5)
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST
    subscription._reader.open(TOPICS[1], 0)
    world.shown(subscription, 0.2)
    assert subscription.stream.next == FIRST + 9
