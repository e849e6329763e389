"""Reads stable buckets back out of the topics of a stream's replicas. A hole in one lies in another (B2), so whatever
reads a range folds all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import cycle

from borealis_py.log.base import Feed, Lookup, OffsetGone
from borealis_py.log.codec import RowCodec
from borealis_py.log.stream import StreamDecoder, decoded, follow, records_from
from sunion.bucket import Buckets
from sunion.model import GapRange, Output, StableBucket, StableRange, StreamRecord, stable_span
from sunion.stream_fold import Stable, StreamFold


class StreamGap(Exception):
    """No replica's topic holds a stable bucket that is to be read."""


class BucketCoverage(Enum):
    """What one replica's topic has of a stable bucket."""

    HOLDS = auto()
    """The bucket, or that it is lost."""
    BEYOND = auto()
    """Later buckets, and not this one: it lies in a hole, or was deleted."""
    SHORT = auto()
    """Neither: its replica may be behind, dead, or stand by."""


@dataclass(frozen=True, slots=True)
class StreamTopics:
    """The topics of one stream, one of each replica; of a stream with several partitions, one partition of each.

    Its methods raise LogError if the log cannot be read.

    Attributes:
        lookup: reads them.
        feeds: in the order in which they are asked: of one that has a whole range, no other is read.
        buckets: the app's buckets.
        decoder: makes a new decoder for one of them.
    """

    lookup: Lookup
    feeds: Sequence[Feed]
    buckets: Buckets
    decoder: Callable[[], StreamDecoder]

    def read(
        self, first: int, end: int, codec: RowCodec, takes: Callable[[Output], bool] = lambda output: True
    ) -> tuple[dict[int, Output], int]:
        """Outputs of the stable buckets [first, end), for those that have any. Reads no further.

        Args:
            takes: whether there is room for one more bucket's output; called once for each in order.

        Returns:
            The outputs, and the bucket at which they end: `end`, the first that there was no room for, or the first
            that no topic holds.
        """
        found: dict[int, Output] = {}

        def take(bucket: int, output: Output) -> bool:
            output = decoded(output, codec)
            if output.rows is None and not output.rejects:
                return True
            if not takes(output):
                return False
            found[bucket] = output
            return True

        return found, self._walk(first, end, take)

    def _walk(self, first: int, end: int, take: Callable[[int, Output], bool], gaps: bool = False) -> int:
        """Go through the stable buckets [first, end) in order: in one topic as far as it has them without a hole, then
        in the next one, and round again, until none goes on.

        When a bucket was first written anywhere, all below it lay in the topics and nothing above it did (B2). So the
        topic that has this first copy has it before anything later, wherever else copies go back and forth.

        Args:
            take: called with each bucket and its output (of empty ones only the last of a range); False: go no further.
            gaps: go through lost buckets, too.

        Returns:
            The first bucket that was not taken.
        """
        at, in_vain = first, 0
        for feed in cycle(self.feeds):
            if at >= end or in_vain == len(self.feeds):
                break
            reached, full = self._stretch(feed, at, end, take, gaps)
            if full:
                return reached
            at, in_vain = reached, 0 if reached > at else in_vain + 1
        return at

    def _stretch(
        self, feed: Feed, first: int, end: int, take: Callable[[int, Output], bool], gaps: bool
    ) -> tuple[int, bool]:
        """The same in one topic. Returns also whether `take` wanted no more."""
        fold = _alone(feed, first, gaps)
        for said in follow(records_from(self.lookup, feed, self.buckets, first), self.decoder()):
            for event in fold.read([(0, said)]):
                if isinstance(event, Stable) and event.end <= end and not take(event.end - 1, event.output):
                    return event.end - 1, True
            if fold.next >= end or fold.waits(0):
                break
        return min(fold.next, end), False

    def lost_to(self, bucket: int, end: int) -> int:
        """Up to which bucket from `bucket` on, at most `end`, all is in a gap and in no topic as stable; `bucket` if it
        is in none itself (R18.3)."""
        gaps: list[GapRange] = []
        first_stable = end
        for feed in self.feeds:
            next_ = bucket
            for said in follow(records_from(self.lookup, feed, self.buckets, bucket), self.decoder()):
                if isinstance(said, GapRange) and said.end > bucket:
                    gaps.append(said)
                    next_ = max(next_, said.end) if said.first <= next_ else next_  # what follows of it is a zombie's
                elif (span := stable_span(said)) is not None and span[1] > next_:
                    first_stable = min(first_stable, max(span[0], next_))
                    break  # this topic goes on from there, or repeats itself
        reached = bucket
        for gap in sorted(gaps, key=lambda gap: gap.first):
            reached = max(reached, gap.end) if gap.first <= reached else reached
        return min(reached, first_stable)

    def said_to(self, feed: Feed, tail: int) -> int | None:
        """The end of the highest bucket that one of the topics has as stable or in a gap, among its last `tail` offsets
        or, if these have none, in all of it; None: it has none."""
        first, end = self.lookup.bounds(feed)
        for begin in dict.fromkeys((max(first, end - tail), first)):
            found = [_end(said) for said in follow(self.lookup.read(feed, begin, end), self.decoder())]
            if ends := [one for one in found if one is not None]:
                return max(ends)
        return None

    def coverage(self, feed: Feed, bucket: int) -> BucketCoverage:
        """What one of the topics has of a stable bucket."""
        fold = _alone(feed, bucket)
        for said in follow(records_from(self.lookup, feed, self.buckets, bucket), self.decoder()):
            fold.read([(0, said)])
            if fold.waits(0):
                return BucketCoverage.BEYOND
            if fold.next > bucket:
                return BucketCoverage.HOLDS
        return BucketCoverage.SHORT

    def holds(self, bucket: int) -> bool:
        """Whether any of the topics holds a stable bucket."""
        return any(self.coverage(feed, bucket) is BucketCoverage.HOLDS for feed in self.feeds)

    def lost(self, bucket: int, one_runs: bool = False) -> bool:
        """Whether a stable bucket was in a topic, is in none any more, and will not come again: all go on beyond it.

        Args:
            one_runs: the replicas of the node run one at a time. Then one topic that goes on beyond it is enough: who
                stands by begins with a newer bucket.
        """
        if not any(self._cut_off(feed) for feed in self.feeds):
            return False  # nothing was deleted: what one lacks lies in another
        beyond = False
        for feed in self.feeds:
            found = self.coverage(feed, bucket)
            if found is BucketCoverage.HOLDS or (found is BucketCoverage.SHORT and not one_runs):
                return False
            beyond = beyond or found is BucketCoverage.BEYOND
        return beyond

    def first_kept(self, bucket: int) -> int:
        """The first bucket at or after `bucket` from which on the topics hold everything that was said.

        From where all topics that have lost their beginning begin now, all is there. Before that, it is if the topics
        lead up to there: one may reach further back, and yet end where its replica has died.
        """
        cut_off = [feed for feed in self.feeds if self._cut_off(feed)]
        lacking = [feed for feed in cut_off if self.coverage(feed, bucket) is BucketCoverage.BEYOND]
        firsts = {first for feed in lacking if (first := self.first_stable(feed)) is not None and first > bucket}
        begins = max(firsts, default=bucket)
        if begins > bucket and self.holds(begins - 1):
            for first in sorted({bucket, *firsts} - {begins}):
                if self._walk(first, begins, _anything, gaps=True) == begins:
                    return first
        return begins

    def places_from(self, bucket: int) -> tuple[int, dict[Feed, int]]:
        """`first_kept`, and the offset in each topic from which to read it. All were there at one time."""
        while True:
            with suppress(OffsetGone):  # deleted between two looks
                bucket = self.first_kept(bucket)
                found = {feed: self.lookup.find(feed, self.buckets.timestamp_ms(bucket)) for feed in self.feeds}
                if self.first_kept(bucket) == bucket:
                    return bucket, found

    def first_stable(self, feed: Feed) -> int | None:
        """The first stable bucket in one of the topics; None: it has none."""
        for said in follow(self.lookup.read(feed, *self.lookup.bounds(feed)), self.decoder()):
            if isinstance(said, StableBucket | StableRange):
                return said.bucket if isinstance(said, StableBucket) else said.first
        return None

    def _cut_off(self, feed: Feed) -> bool:
        return self.lookup.bounds(feed)[0] > 0


def _alone(feed: Feed, start: int, gaps: bool = True) -> StreamFold:
    """Of one topic. Two replicas: that a single cursor waits is not an error."""
    return StreamFold(feed.topic, 2, start, gaps=gaps)


def _anything(bucket: int, output: Output) -> bool:
    return True


def _end(said: StreamRecord) -> int | None:
    span = (said.first, said.end) if isinstance(said, GapRange) else stable_span(said)
    return None if span is None else span[1]
