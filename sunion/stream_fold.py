"""A replicated stream as one reader has read it: all replicas, each with its own cursor (A3, R5).

Each stable bucket is taken from the first replica that has it; repeats are dropped undecoded (rows stay opaque).
This module knows no time and no delays: `borealis_py.protocol` decides when a tentative bucket is used or shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from sunion.errors import RetentionLost
from sunion.model import (
    FOREVER,
    GapRange,
    Output,
    Rows,
    StableBucket,
    StableRange,
    StreamRecord,
    TentativeBucket,
    stable_span,
)


def _nothing(rows: Rows) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class FeedProgress:
    """Replica `replica` has covered `bucket` and everything before; `tentative`: as tentative, not as stable.
    `waited_us`: how long upstream had waited."""

    replica: int
    bucket: int
    tentative: bool
    waited_us: int


@dataclass(frozen=True, slots=True)
class Stable:
    """Buckets [first, end) became stable; `output` belongs to the last one, the others are empty."""

    first: int
    end: int
    output: Output


@dataclass(frozen=True, slots=True)
class Lost:
    """Buckets [first, end) are lost (R18.5). `last_words`: what was said of them tentatively and not dropped yet, by
    bucket."""

    first: int
    end: int
    last_words: Mapping[int, TentativeBucket]


Word = FeedProgress | Stable | Lost


class Dropped(NamedTuple):
    """Tentative buckets [low, high] of one replica that left memory: they are in its log from `offset` on.

    `inc`: the lowest incarnation among them. No higher one had written before the first of them, or that one would
    have been a zombie's.
    """

    low: int
    high: int
    offset: int
    inc: int


class StreamFold:
    """The fold of a stream's replicas, from bucket `start` on.

    `next`: first bucket that is not stable. `live`: tentative buckets below it are not kept; the owner advances it.

    Args:
        weigh: counts a record's rows, to know how many are kept.
        last: END closes every bucket below this one; it opens no bucket (R1.1).
        gaps: lost buckets pass (R18.5); if False, a cursor waits at them.
    """

    def __init__(
        self,
        stream: str,
        replicas: int,
        start: int,
        weigh: Callable[[Rows], int] = _nothing,
        last: int = FOREVER,
        gaps: bool = True,
    ) -> None:
        self.stream = stream
        self.tentative_rows = 0
        """Rows of the tentative buckets that are kept."""
        self.waiting_rows = 0
        """Rows read beyond the next bucket, queued at waiting cursors."""
        self._weigh = weigh
        self._gaps = gaps
        self._last = last
        self._dropped: dict[int, Dropped] = {}
        self.next = start
        self.live = start
        self.top: int | None = None
        """The highest bucket that any replica wrote or opened; None: no replica has written yet."""
        self.tentative: dict[int, dict[int, TentativeBucket]] = {}
        self._queues: list[deque[StreamRecord]] = [deque() for _ in range(replicas)]
        self._weighed = [0] * replicas  # how many records at the head of each queue count in `waiting_rows`
        self._inc = [0] * replicas

    @property
    def replicas(self) -> int:
        return len(self._queues)

    def waits(self, replica: int) -> bool:
        """Whether this cursor is at a record beyond the next bucket: the others must supply what is between (A3)."""
        return bool(self._queues[replica])

    @property
    def waiting(self) -> list[int]:
        """The replicas whose cursors wait."""
        return [replica for replica, queue in enumerate(self._queues) if queue]

    def read(self, records: Iterable[tuple[int, StreamRecord]]) -> list[Word]:
        """Take (replica, record) pairs, each replica's in log order; return the progress in them, and the buckets that
        became stable or are lost.

        Raises:
            RetentionLost: every replica's topic begins after the bucket that is needed next.
        """
        for replica, record in records:
            self._queues[replica].append(record)
        said: list[Word] = []
        moved = True
        while moved:
            moved = False
            for replica, queue in enumerate(self._queues):
                while queue and self._consume(replica, queue[0], said):
                    self._advance(replica, queue.popleft())
                    moved = True
            moved = moved or self._lose(said)
        self._weigh_waiting()
        if all(self._queues):
            raise RetentionLost(
                f"stream {self.stream}: retention has deleted bucket {self.next} from every replica's topic; "
                "start again from a later position"
            )
        return said

    def _advance(self, replica: int, record: StreamRecord) -> None:
        if self._weighed[replica]:
            self._weighed[replica] -= 1
            self.waiting_rows -= self.count(record)

    def _weigh_waiting(self) -> None:
        """Count what was just queued and stays. Nearly all records pass at once; they are never decoded for this."""
        for replica, queue in enumerate(self._queues):
            self.waiting_rows += sum(self.count(record) for record in islice(queue, self._weighed[replica], None))
            self._weighed[replica] = len(queue)

    def _consume(self, replica: int, record: StreamRecord, said: list[Word]) -> bool:
        """Take one record; False: this cursor must wait."""
        taken = True
        if isinstance(record, StableBucket):
            taken = self._stable(replica, record.bucket, record.bucket + 1, record.output, record.waited_us, said)
        elif isinstance(record, StableRange):
            taken = self._stable(replica, record.first, record.end, Output(), record.waited_us, said)
        elif isinstance(record, GapRange):
            taken = record.end <= self.next
        elif isinstance(record, TentativeBucket):
            self._store(replica, record, said)
        if taken:
            self._inc[replica] = max(self._inc[replica], record.inc)
        return taken

    def _lose(self, said: list[Word]) -> bool:
        """Where no cursor goes on, take a gap: up to the next bucket that one has as stable."""
        heads = [(replica, queue[0]) for replica, queue in enumerate(self._queues) if queue]
        gaps = [
            (head.end, replica) for replica, head in heads if isinstance(head, GapRange) and head.first <= self.next
        ]
        if not gaps or not self._gaps:
            return False
        end, replica = max(gaps)
        firsts = [span[0] for _, head in heads if (span := stable_span(head)) is not None]
        end = min([end, *(first for first in firsts if first > self.next)])
        said.append(FeedProgress(replica, end - 1, False, 0))
        self._reach(end)
        words = {bucket: word for bucket in self.tentative if bucket < end if (word := self.pick(bucket)) is not None}
        said.append(Lost(self.next, end, dict(sorted(words.items()))))
        since, self.next = self.next, end
        self._drop(since, end)
        return True

    def _stable(
        self,
        replica: int,
        first: int,
        end: int,
        output: Output,
        waited_us: int,
        said: list[Word],
    ) -> bool:
        if first > self.next:
            return False
        said.append(FeedProgress(replica, end - 1, False, waited_us if end > self.next else 0))
        self._reach(end)
        if end > self.next:
            said.append(Stable(self.next, end, output))
            since, self.next = self.next, end
            self._drop(since, end)
        return True

    def _store(self, replica: int, record: TentativeBucket, said: list[Word]) -> None:
        if record.inc < self._inc[replica]:
            return  # written by a zombie
        said.append(FeedProgress(replica, record.bucket, True, record.waited_us))
        self._reach(record.bucket)
        if record.bucket >= max(self.live, self.next):
            words = self.tentative.setdefault(record.bucket, {})
            before = words.get(replica)
            self.tentative_rows += self.count(record) - (0 if before is None else self.count(before))
            words[replica] = record

    def count(self, record: StreamRecord) -> int:
        """Number of rows in a record, encoded or not."""
        rows = record.output.rows if isinstance(record, StableBucket | TentativeBucket) else None
        return 0 if rows is None else self._weigh(rows)

    def drop(self, bucket: int) -> int:
        """Drop the tentative content of a bucket (R6.2) and return how many rows that freed."""
        before = self.tentative_rows
        for replica, record in self.tentative.pop(bucket).items():
            self.tentative_rows -= self.count(record)
            low, high, offset, inc = self._dropped.get(replica, Dropped(bucket, bucket, record.offset, record.inc))
            where = min(offset, record.offset), min(inc, record.inc)
            self._dropped[replica] = Dropped(min(low, bucket), max(high, bucket), *where)
        return before - self.tentative_rows

    def again(self, bucket: int) -> list[tuple[int, int]]:
        """(replica, offset): where to read again what was dropped of `bucket`. Each is returned only once (R6.3).

        From that offset on, records are judged as they were when first read.
        """
        found = [(k, d) for k, d in self._dropped.items() if d.low <= bucket <= d.high and bucket >= self.next]
        for replica, dropped in found:
            del self._dropped[replica]
            self._inc[replica] = dropped.inc
        return [(replica, dropped.offset) for replica, dropped in found]

    def _reach(self, bucket: int) -> None:
        if bucket < self._last:
            self.top = bucket if self.top is None else max(self.top, bucket)

    def pick(self, bucket: int) -> TentativeBucket | None:
        """The tentative bucket to use: highest completeness, then fewest missing sources, then lowest replica
        (R5.2)."""
        stored = self.tentative.get(bucket)
        if not stored:
            return None
        return min(stored.items(), key=lambda kv: (-kv[1].completeness, len(kv[1].missing_sources), kv[0]))[1]

    def passed(self, live: int) -> None:
        """The owner's live frontier moved: tentative buckets below it are no longer needed."""
        if live > self.live:
            since, self.live = self.live, live
            self._drop(since, live)

    def _drop(self, since: int, below: int) -> None:
        """Forget what is tentative in [since, below); all before `since` is forgotten."""
        few = below - since < len(self.tentative)
        for bucket in range(since, below) if few else [b for b in self.tentative if b < below]:
            self.tentative_rows -= sum(self.count(record) for record in self.tentative.pop(bucket, {}).values())
        for replica, dropped in list(self._dropped.items()):
            if dropped.high < below:
                del self._dropped[replica]
            else:
                self._dropped[replica] = dropped._replace(low=max(dropped.low, below))
