"""Whether a replica's topic was cut off beyond the bucket that a reader starts at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from borealis_py.log.base import Feed, Record
from borealis_py.log.description import Life
from borealis_py.log.stream import StreamDecoder, deleted
from sunion.model import Output, RecDone, StableBucket, StableRange, StreamRecord, TentativeBucket, Undo
from tests.log.encoders import BUCKETS, FEED, encoder


@dataclass
class Cut:
    """A topic whose first records are gone."""

    records: list[Record]
    first: int

    def bounds(self, feed: Feed) -> tuple[int, int]:
        return self.first, len(self.records)

    def find(self, feed: Feed, timestamp_ms: int) -> int:
        left = (r.offset for r in self.records[self.first :] if r.timestamp_ms >= timestamp_ms)
        return next(left, len(self.records))

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        assert first >= self.first
        yield from self.records[first:end]


def tentative(bucket: int) -> TentativeBucket:
    return TentativeBucket(1, bucket, Output(["t"]), ("s",), ("s",), 0, 0.5, 4)


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
    values = [new for said in SAID for new in encoder().encode(said)]
    records = [Record(FEED, i, r.timestamp_ms or 0, None, r.value) for i, r in enumerate(values)]
    assert len(records) == len(SAID)
    assert deleted(Cut(records, first), FEED, BUCKETS, StreamDecoder(Life("a1"), "s1"), bucket) is gone  # type: ignore[arg-type]
