"""Streams with holes, as replicas write them that take over from each other's checkpoints (B2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.records import RangeHeader, StableHeader, pack
from sunion.bucket import Buckets

BUCKETS = Buckets(100_000)


def busy(bucket: int) -> bool:
    """Whether a bucket has output: two of three do not, so that ranges lie between."""
    return bucket % 3 == 0


@dataclass(frozen=True)
class Said:
    """Replica `replica` writes to a `partition`, as incarnation `inc`, that [first, end) is stable; what is in it
    follows from the bucket."""

    replica: int
    partition: int
    inc: int
    first: int
    end: int


@dataclass
class Writer:
    """One incarnation. `at`: by partition, the next bucket that it writes."""

    replica: int
    inc: int
    at: list[int]


@dataclass
class Lives:
    """What the replicas write, in the order of time (`said`). `frontier`: some replica has all partitions below it."""

    partitions: int
    said: list[Said] = field(default_factory=list)
    frontier: int = 0
    writers: list[Writer] = field(default_factory=list)

    def begin(self, replica: int, back: int) -> None:
        """A replica starts, or runs, from a checkpoint: all below it is acknowledged in some topic. Its predecessor may
        be a zombie and write on."""
        first = max(0, self.frontier - back)
        self.writers.append(Writer(replica, len(self.writers) + 1, [first] * self.partitions))

    def step(self, writer: Writer, partition: int, most: int) -> None:
        """It writes its next record to one partition: a bucket with output, or a range of at most `most` without."""
        first = writer.at[partition]
        end = first + 1
        while not busy(first) and not busy(end) and end - first < most:
            end += 1
        self.said.append(Said(writer.replica, partition, writer.inc, first, end))
        writer.at[partition] = end
        self.frontier = max(self.frontier, min(writer.at))


@st.composite
def lives(draw: st.DrawFn, replicas: int, partitions: int = 1) -> Lives:
    """Replicas that begin anywhere below the frontier, write on, stop, and write all at once."""
    found = Lives(partitions)
    found.begin(0, 0)
    numbers = st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 12))
    for what, which, how in draw(st.lists(numbers, min_size=4, max_size=40)):
        if what == 0:
            found.begin(which % replicas, how if how > 9 else how % 3)
            continue
        writer = found.writers[-1 - (which == 9 and len(found.writers) > 1)]
        for _ in range(1 + how // 2):
            found.step(writer, what % partitions, 1 + which % 3)
    return found


def records(said: Said, feed: Feed) -> list[NewRecord]:
    """What of it lies in the log, by the table of A3.1. Every other bucket with output comes in two parts."""
    stamp = BUCKETS.timestamp_ms(said.end - 1)
    if not busy(said.first):
        return [NewRecord(feed, pack(RangeHeader("a1", said.inc, said.first, said.end, 0)), timestamp_ms=stamp)]
    parts = 1 + said.first % 2
    headers = (StableHeader("a1", said.inc, said.first, 0, part, parts, "s", ()) for part in range(parts))
    rows = (f"{said.first}.{part}".encode() for part in range(parts))
    return [NewRecord(feed, pack(header, own), timestamp_ms=stamp) for header, own in zip(headers, rows, strict=True)]
