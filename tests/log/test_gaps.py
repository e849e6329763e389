"""Gaps as they lie in the topics, and what is read back of them to be published (R18.7)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.corrected import Progress, read_gap, read_progress, transaction
from borealis_py.log.description import Life
from borealis_py.log.stream import StreamDecoder
from borealis_py.log.stream_topics import BucketCoverage
from borealis_py.log.topics import progress as progress_topic
from sunion.model import GapRange, StableRange, StreamRecord
from tests.log.encoders import BUCKETS, CODEC, encoder
from tests.log.said_topics import FEEDS, ranges, tentative, world
from tests.reconcile.list_world import ListKernel

LIFE = Life("a1")


def record(new: NewRecord) -> Record:
    return Record(new.feed, 0, 0, new.key, new.value, new.headers)


def test_it_comes_back_as_it_was_said() -> None:
    (new,) = encoder().encode(GapRange(3, 5, 9))
    assert new.timestamp_ms == BUCKETS.timestamp_ms(8), "a seek to any of them finds it"
    assert StreamDecoder(LIFE).decode(record(new)) == GapRange(3, 5, 9)


@pytest.mark.parametrize(
    ("said", "bucket", "end", "lost_to"),
    [
        (([GapRange(1, 3, 8)], []), 3, 20, 8),
        (([GapRange(1, 3, 8)], []), 5, 20, 8),
        (([GapRange(1, 3, 8)], []), 2, 20, 2),
        (([GapRange(1, 3, 8)], []), 3, 6, 6),
        (([GapRange(1, 3, 8), *ranges((8, 9))], ranges((0, 3))), 3, 20, 8),
        (([GapRange(1, 3, 8)], ranges((0, 3), (5, 6))), 3, 20, 5),
        (([GapRange(1, 3, 8)], ranges((0, 5))), 3, 20, 3),
        (([GapRange(1, 3, 8)], [StableRange(1, 0, 5)]), 3, 20, 3),
        (([GapRange(1, 3, 6)], [GapRange(1, 5, 9)]), 3, 20, 9),
        (([GapRange(1, 3, 5)], [GapRange(1, 6, 9)]), 3, 20, 5),
        (([GapRange(1, 3, 6), tentative(6), GapRange(1, 6, 9)], []), 4, 20, 9),
        (([GapRange(3, 3, 8), StableRange(2, 7, 8), *ranges((8, 9))], []), 7, 20, 8),  # by a zombie, which nobody reads
        (([GapRange(3, 5, 8), StableRange(2, 7, 8), *ranges((8, 9))], []), 3, 20, 3),
    ],
)
def test_lost_is_what_no_topic_has(said: Sequence[Sequence[StreamRecord]], bucket: int, end: int, lost_to: int) -> None:
    _, topics = world(*said)
    assert topics.lost_to(bucket, end) == lost_to


def test_what_is_lost_ends_what_is_read_and_is_no_hole() -> None:
    _, topics = world([*ranges((0, 3)), GapRange(1, 3, 6), *ranges((6, 9))], ())
    found, reached = topics.read(0, 9, CODEC)  # type: ignore[arg-type]
    assert (sorted(found), reached) == ([0, 1, 2], 3)
    assert topics.coverage(FEEDS[0], 4) is BucketCoverage.HOLDS
    assert not topics.lost(4)


def test_how_far_a_replica_got() -> None:
    _, topics = world([*ranges((0, 3)), GapRange(1, 3, 9), tentative(20), *ranges((4, 5))], (), [tentative(3)])
    assert [topics.said_to(feed, 10) for feed in FEEDS] == [9, None, None]
    assert topics.said_to(FEEDS[0], 1) == 5, "as far as it looks back"
    _, topics = world([*ranges((0, 3)), tentative(3), tentative(4)])
    assert topics.said_to(FEEDS[0], 1) == 3, "its last words say nothing of that"


def test_a_transaction_names_what_is_lost_and_the_letter_lies_in_the_last_bucket() -> None:
    made = [record(new) for new in transaction("app", "q", {}, Progress("a1", 9, 0, 1), BUCKETS, ListKernel(), True, 5)]
    letter, gap, said = made
    headers = dict(letter.headers)
    assert {name: headers[name] for name in ("node", "bucket", "index", "gap")} == {
        "node": b"q", "bucket": b"8", "index": b"0", "gap": b"5:9",
    }  # fmt: skip
    assert headers["reason"].startswith(b"gap: buckets 5 to 8 are lost")
    assert (gap.feed, gap.key) == (Feed(progress_topic("app", "q")), b"gap/5")
    assert json.loads(gap.value or b"") == {"app_uid": "a1", "first": 5, "end": 9}
    found = read_gap(gap, LIFE)
    assert found is not None
    assert (found.first, found.end) == (5, 9)
    assert [read_progress(one, LIFE, 0) for one in (gap, said)] == [None, 9]
    assert read_gap(said, LIFE) is None
    assert read_gap(gap, Life("b2")) is None


@pytest.mark.parametrize(
    "value", [b"", b"{", b'{"app_uid":"a1","first":9,"end":9}', b'{"app_uid":"a1","first":-1,"end":9}']
)
def test_garbage_under_the_key_of_a_gap_says_nothing(value: bytes) -> None:
    garbage = Record(Feed("app.q.progress"), 0, 0, b"gap/9", value)
    assert read_gap(garbage, LIFE) is None
    assert read_progress(garbage, LIFE, 0) is None
