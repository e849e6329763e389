"""Topics of a stream's replicas in which something was said, and what reads them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from borealis_py.log.base import Feed
from borealis_py.log.description import Life
from borealis_py.log.stream import StreamDecoder
from borealis_py.log.stream_topics import StreamTopics
from sunion.model import Output, StableBucket, StreamRecord, TentativeBucket
from tests.log.encoders import BUCKETS, encoder
from tests.support.instant_log import InstantLog

FEEDS = [Feed(f"app.q.r{k}") for k in range(3)]


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


def decoder() -> StreamDecoder:
    return StreamDecoder(Life("a1"))


def topics_of(log: InstantLog, feeds: Sequence[Feed]) -> StreamTopics:
    return StreamTopics(log.lookup(), feeds, BUCKETS, decoder)


def world(*said: Sequence[StreamRecord]) -> tuple[InstantLog, StreamTopics]:
    """Topics in which this was said."""
    log, feeds = InstantLog(), FEEDS[: len(said)]
    log.create([feed.topic for feed in feeds])
    for feed, many in zip(feeds, said, strict=True):
        for one in many:
            log.put(*(msgspec.structs.replace(new, feed=feed) for new in encoder().encode(one)))
    return log, topics_of(log, feeds)


def ranges(*spans: tuple[int, int]) -> list[StreamRecord]:
    """Every bucket of these spans, each with a row."""
    return [StableBucket(1, bucket, Output([f"{bucket}"])) for span in spans for bucket in range(*span)]
