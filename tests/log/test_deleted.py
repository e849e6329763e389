"""Whether a replica's topic was cut off beyond the bucket that a reader starts at."""

from __future__ import annotations

import pytest

from borealis_py.log.base import Feed
from borealis_py.log.description import Life
from borealis_py.log.stream import StreamDecoder, deleted, first_kept, first_stable
from sunion.model import Output, RecDone, StableBucket, StableRange, StreamRecord, TentativeBucket, Undo
from tests.log.encoders import BUCKETS, FEED, encoder
from tests.support.instant_log import InstantLog


def tentative(bucket: int) -> TentativeBucket:
    return TentativeBucket(
        inc=1,
        bucket=bucket,
        output=Output(["t"]),
        missing_sources=("s",),
        missing=("s",),
        waited_us=0,
        completeness=0.5,
        diverged_from=4,
    )


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


@pytest.mark.parametrize(
    ("first", "bucket", "gone"),
    [
        (0, 0, False),
        (1, 2, True),
        (1, 3, False),
        (2, 3, True),
        (2, 4, False),  # its tentative words come first
        (4, 4, False),
        (6, 4, True),
        (6, 5, False),
        (6, 8, False),  # in the middle of a range
        (6, 9, False),  # not said yet
        (7, 8, False),  # nothing is left that tells; the reader will see
        (8, 12, False),
    ],
)
def test_a_topic_is_cut_off_if_what_is_left_begins_later(first: int, bucket: int, gone: bool) -> None:
    log = InstantLog()
    log.create([FEED.topic])
    log.put(*(new for said in SAID for new in encoder().encode(said)))
    log.delete_before(FEED, first)
    lookup = log.lookup()
    assert lookup.bounds(FEED) == (first, len(SAID))
    assert deleted(lookup, FEED, BUCKETS, StreamDecoder(Life("a1"), "s1"), bucket) is gone


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
    log = InstantLog()
    other = Feed(f"{FEED.topic}.other")
    log.create([FEED.topic, other.topic])
    log.put(*(new for said in SAID for new in encoder().encode(said)))
    log.delete_before(FEED, first)
    lookup = log.lookup()
    assert first_stable(lookup, FEED, decoder()) == stable
    assert first_kept(lookup, [other, FEED], BUCKETS, decoder, bucket) == begins, "the other one has died early"


def decoder() -> StreamDecoder:
    return StreamDecoder(Life("a1"))
