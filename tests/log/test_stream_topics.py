"""Stable buckets read back from the topics of all replicas, with holes and with beginnings that are deleted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.log.base import Feed
from borealis_py.log.stream import Encoded, readable
from borealis_py.log.stream_topics import BucketCoverage, StreamTopics
from borealis_py.protocol.stream_view import StreamView
from sunion.errors import RetentionLost
from sunion.model import Output, RecDone, StableBucket, StableRange, StreamRecord, Undo
from sunion.stream_fold import StreamFold
from tests.log.encoders import BUCKETS, CODEC, FEED
from tests.log.said_topics import FEEDS, decoder, ranges, tentative, topics_of, world
from tests.support.holed_streams import Lives, Said, busy, lives, records
from tests.support.instant_log import InstantLog

SAID: list[StreamRecord] = [
    StableRange(1, 0, 3, 0),
    StableBucket(1, 3, Output(["a"]), 0),
    tentative(4),
    tentative(5),
    Undo(1, 4),
    StableBucket(1, 4, Output(["b"]), 0),
    StableRange(1, 5, 9, 0),
    RecDone(1, 9),
]


# Of one topic ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "bucket", "found"),
    [
        (0, 0, BucketCoverage.HOLDS),
        (1, 2, BucketCoverage.BEYOND),
        (1, 3, BucketCoverage.HOLDS),
        (2, 3, BucketCoverage.BEYOND),
        (2, 4, BucketCoverage.HOLDS),  # its tentative words come first
        (4, 4, BucketCoverage.HOLDS),
        (6, 4, BucketCoverage.BEYOND),
        (6, 5, BucketCoverage.HOLDS),
        (6, 8, BucketCoverage.HOLDS),  # in the middle of a range
        (6, 9, BucketCoverage.SHORT),
        (7, 8, BucketCoverage.SHORT),  # nothing is left that tells; the reader will see
        (8, 12, BucketCoverage.SHORT),
    ],
)
def test_what_a_topic_that_was_cut_off_has_of_a_bucket(first: int, bucket: int, found: BucketCoverage) -> None:
    log, topics = world(SAID)
    log.delete_before(FEED, first)
    assert topics.lookup.bounds(FEED) == (first, len(SAID))
    assert topics.coverage(FEED, bucket) is found
    assert topics.holds(bucket) is (found is BucketCoverage.HOLDS)
    assert topics.lost(bucket) is (found is BucketCoverage.BEYOND)


@pytest.mark.parametrize(
    ("first", "bucket", "begins", "stable"),
    [
        (0, 2, 2, 0),
        (1, 2, 3, 3),
        (1, 3, 3, 3),
        (2, 1, 4, 4),  # tentative words are no beginning
        (6, 4, 5, 5),
        (6, 7, 7, 5),
        (7, 8, 8, None),
    ],
)
def test_a_view_begins_at_what_is_kept(first: int, bucket: int, begins: int, stable: int | None) -> None:
    log, topics = world(SAID, ())
    log.delete_before(FEED, first)
    assert topics.first_stable(FEED) == stable
    assert topics.first_kept(bucket) == begins, "the other one has died early"


# Of several -----------------------------------------------------------------------------------------------------------


def test_a_hole_in_one_lies_in_another_and_back_again() -> None:
    _, topics = world(ranges((0, 8), (12, 20)), ranges((7, 13)))
    found, end = topics.read(2, 20, CODEC)  # type: ignore[arg-type]
    assert ({b: o.rows for b, o in found.items()}, end) == ({b: [f"{b}"] for b in range(2, 20)}, 20)


def test_what_no_topic_holds_ends_what_is_read() -> None:
    _, topics = world(ranges((0, 8), (12, 20)), ranges((7, 11)), ranges((2, 5)))
    found, end = topics.read(1, 20, CODEC)  # type: ignore[arg-type]
    assert (sorted(found), end) == (list(range(1, 11)), 11)


def test_limits_count_across_topics() -> None:
    _, topics = world(ranges((0, 3), (6, 9)), ranges((2, 7)))
    room = iter([True] * 5 + [False])
    found, end = topics.read(0, 9, CODEC, lambda output: next(room))  # type: ignore[arg-type]
    assert (sorted(found), end) == ([0, 1, 2, 3, 4], 5)


class Asked:
    """A look-up that notes what is read of which topic."""

    def __init__(self, log: InstantLog) -> None:
        self._inner, self.offsets = log.lookup(), dict[str, list[int]]()
        self.bounds, self.find = self._inner.bounds, self._inner.find

    def read(self, feed: Feed, first: int, end: int):
        for record in self._inner.read(feed, first, end):
            self.offsets.setdefault(feed.topic, []).append(record.offset)
            yield record


def test_no_more_is_read_than_is_needed_or_can_help() -> None:
    """A replica may have said much since; behind a hole nothing counts. Of the first that has it all, one read."""
    log, topics = world(ranges((3, 9)), ranges((3, 9)))
    whole, hole = Asked(log), Asked(log)
    found, end = StreamTopics(whole, topics.feeds, BUCKETS, decoder).read(4, 6, CODEC)  # type: ignore[arg-type]
    assert ({b: o.rows for b, o in found.items()}, end) == ({4: ["4"], 5: ["5"]}, 6)
    assert whole.offsets == {FEEDS[0].topic: [1, 2]}
    assert StreamTopics(hole, topics.feeds, BUCKETS, decoder).read(2, 8, CODEC) == ({}, 2)  # type: ignore[arg-type]
    assert hole.offsets == {feed.topic: [0] for feed in FEEDS[:2]}


def test_a_hole_is_no_loss_and_what_is_deleted_everywhere_is_one() -> None:
    log, topics = world(ranges((0, 8), (12, 20)), ranges((7, 13)))
    log.delete_before(FEEDS[0], 8)
    assert [b for b in range(14) if topics.lost(b)] == list(range(7)), "bucket 7 lies in the other one"
    log.delete_before(FEEDS[1], 3)
    assert [b for b in range(14) if topics.lost(b)] == list(range(10))


def test_a_replica_that_is_behind_may_say_it_yet_and_one_that_stands_by_will_not() -> None:
    log, topics = world(ranges((0, 20)), ranges((0, 5)))
    log.delete_before(FEEDS[0], 8)
    assert [b for b in range(20) if topics.lost(b)] == []
    assert [b for b in range(20) if topics.lost(b, one_runs=True)] == [5, 6, 7]
    log, topics = world(ranges((0, 5)), ranges((0, 5)))
    log.delete_before(FEEDS[0], 2)
    assert not topics.lost(6, one_runs=True), "nobody has said it"


def test_a_topic_that_begins_behind_a_hole_makes_no_view_begin_later() -> None:
    """Both were trimmed below 10; what r0 has begins at 12 only, and r1 has what is before."""
    log, topics = world(ranges((0, 8), (12, 20)), ranges((7, 13)))
    log.delete_before(FEEDS[0], 8)
    log.delete_before(FEEDS[1], 3)
    assert [topics.first_kept(b) for b in (0, 9, 10, 11, 12, 13)] == [10, 10, 10, 11, 12, 13]
    log.delete_before(FEEDS[1], 6)
    assert topics.first_kept(0) == 12


# Whatever replicas do -------------------------------------------------------------------------------------------------


def put(log: InstantLog, said: Lives) -> None:
    log.create([feed.topic for feed in FEEDS])
    for one in said.said:
        log.put(*records(one, FEEDS[one.replica]))


def rows_of(bucket: int) -> Encoded:
    return Encoded(tuple(f"{bucket}.{part}".encode() for part in range(1 + bucket % 2)))


class Bytes:
    """Rows as they lie in the log."""

    def decode(self, payload: bytes) -> bytes:
        return payload

    def join(self, parts: Sequence[bytes]) -> tuple[bytes, ...]:
        return tuple(parts)


@given(lives(3), st.data())
def test_the_fold_is_the_whole_wherever_it_begins_and_whoever_is_asked_first(said: Lives, data: st.DataObject) -> None:
    log = InstantLog()
    put(log, said)
    first = data.draw(st.integers(0, said.frontier), "first")
    end = data.draw(st.integers(first, said.frontier), "end")
    found, reached = topics_of(log, data.draw(st.permutations(FEEDS))).read(first, end, Bytes())  # type: ignore[arg-type]
    assert reached == end
    assert {b: o.rows for b, o in found.items()} == {
        b: rows_of(b).parts if b % 2 else rows_of(b).parts[0] for b in range(first, end) if busy(b)
    }


@given(lives(3), st.data())
def test_trimmed_topics_hold_all_from_where_a_view_begins(said: Lives, data: st.DataObject) -> None:
    """Each is trimmed at its own time, so up to another bucket; the last bucket stays (R11.1)."""
    log = InstantLog()
    put(log, said)
    lookup, limits = log.lookup(), [0]
    for feed in FEEDS:
        limits.append(data.draw(st.integers(0, said.frontier), f"{feed.topic} is trimmed below"))
        below = lookup.find(feed, BUCKETS.timestamp_ms(limits[-1]))
        log.delete_before(feed, max(0, min(below, lookup.bounds(feed)[1] - 2)))
    topics = topics_of(log, FEEDS)
    asked = data.draw(st.integers(0, said.frontier), "asked")
    begins = topics.first_kept(asked)
    assert asked <= begins <= max(asked, *limits)
    assert topics.read(begins, said.frontier, Bytes())[1] == said.frontier  # type: ignore[arg-type]
    assert not any(topics.lost(bucket, one_runs=True) for bucket in range(begins, said.frontier))


@given(lives(3), st.data())
def test_cursors_opened_at_any_time_bring_every_bucket_in_any_order(said: Lives, data: st.DataObject) -> None:
    """B37, B38: a reader opens each topic at the first record at or after the next bucket, however timestamps go back
    and forth in it, leaves a cursor alone that waits, and is never told that anything was lost."""
    log = InstantLog()
    log.create([feed.topic for feed in FEEDS])
    opened_at = data.draw(st.integers(0, len(said.said)), "opened when so much was written")
    for one in said.said[:opened_at]:
        log.put(*records(one, FEEDS[one.replica]))
    start = data.draw(st.integers(0, said.frontier), "next")
    lookup = log.lookup()
    at = [lookup.find(feed, BUCKETS.timestamp_ms(start)) for feed in FEEDS]
    for one in said.said[opened_at:]:
        log.put(*records(one, FEEDS[one.replica]))
    lines = [list(lookup.read(feed, first, lookup.bounds(feed)[1])) for feed, first in zip(FEEDS, at, strict=True)]
    view = StreamView("q", len(FEEDS), start, BUCKETS, 1_000_000)
    decoders, taken = [decoder() for _ in FEEDS], dict[int, Encoded]()
    while ready := [k for k, line in enumerate(lines) if line and not view.waits(k)]:
        k = data.draw(st.sampled_from(ready))
        said_now = readable(lines[k].pop(0), decoders[k])
        for change in view.read(0, [] if said_now is None else [(k, said_now)]):
            if change.output.rows is not None:
                assert change.end - 1 not in taken
                taken[change.end - 1] = change.output.rows  # type: ignore[assignment]
    assert view.next >= said.frontier
    assert taken == {b: rows_of(b) for b in range(start, view.next) if busy(b)}


def test_only_a_bucket_that_all_topics_pass_over_is_lost() -> None:
    """Of two cursors one waits at its hole; only when the other one passes over the bucket, too, is it an error."""
    fold = StreamFold("q", 2, 5)
    fold.read([(0, StableBucket(1, 9, Output()))])
    assert fold.waits(0)
    fold.read([(1, StableBucket(1, 4, Output()))])
    with pytest.raises(RetentionLost, match="bucket 5"):
        fold.read([(1, StableBucket(1, 7, Output()))])


def test_a_late_copy_below_a_hole_loses_parts_and_no_bucket() -> None:
    """Incarnation 2 fills its predecessor's hole in parts, and the predecessor, a zombie, writes on in between: the
    copy is dropped as a whole, and the other topic has the bucket."""
    log = InstantLog()
    log.create([feed.topic for feed in FEEDS[:2]])
    log.put(*(new for bucket in range(7) for new in records(Said(1, 0, 1, bucket, bucket + 1), FEEDS[1])))
    first, second = records(Said(0, 0, 2, 3, 4), FEEDS[0])
    log.put(first, *records(Said(0, 0, 1, 6, 7), FEEDS[0]), second)
    lookup, own = log.lookup(), decoder()
    said = [readable(record, own) for record in lookup.read(FEEDS[0], *lookup.bounds(FEEDS[0]))]
    assert [None if one is None else one.bucket for one in said] == [None, 6, None]  # type: ignore[union-attr]
    read, end = topics_of(log, FEEDS[:2]).read(3, 7, Bytes())  # type: ignore[arg-type]
    assert (sorted(read), end) == ([3, 6], 7)
