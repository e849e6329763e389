"""A redo of a node that reads another node's stream: any replicas' topics that hold the buckets give the same bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.log.base import Feed, Lookup, NewRecord, Record
from borealis_py.log.stream import StreamEncoder
from borealis_py.protocol.redo import RedoJob, SourceRange
from reconcile.redo_job import run_job
from reconcile.replay import Replay, ReplayError
from reconcile.replay_context import OpenReplayContext, ReplayContext
from sunion.bucket import Buckets
from sunion.model import Input, Output, RecDone, StableBucket, StableRange, StreamRecord, TentativeBucket, Undo
from sunion.source import SourceFold
from tests.reconcile.list_world import AHEAD_US, ORIGIN, WIDTH_US, ListKernel, batch, claim
from tests.support.holed_streams import Lives, lives
from tests.support.instant_log import InstantLog

BUCKETS = Buckets(WIDTH_US)
END = 30
UP, SOURCE = Input("up", 3, ("s",)), Input.source("t")
FEEDS = tuple(Feed(f"up.r{k}") for k in range(3))


class Kernel(ListKernel):
    schema_id = "list"

    def stream_codec(self, name: str) -> ListKernel:
        assert name == "up"
        return self


class StreamLog(InstantLog):
    """Replicas' topics of one stream, and a source. `read_of`: topic -> records read. `cursors`: topics of the reads
    that are not over."""

    def __init__(self) -> None:
        super().__init__()
        self.read_of = Counter[str]()
        self.cursors: list[str] = []
        self.create([SOURCE.name, *(feed.topic for feed in FEEDS)])

    def lookup(self) -> Lookup:
        return cast(Lookup, CountingLookup(super().lookup(), self))

    def say(self, replica: int, records: Sequence[StreamRecord]) -> None:
        encoder = StreamEncoder(FEEDS[replica], "a1", BUCKETS, ListKernel(), "list")
        for record in records:
            self.put(*encoder.encode(record))


class CountingLookup:
    def __init__(self, inner: Lookup, log: StreamLog) -> None:
        self.bounds, self.find, self.close = inner.bounds, inner.find, inner.close
        self._inner, self._log = inner, log

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        self._log.cursors.append(feed.topic)
        try:
            for record in self._inner.read(feed, first, end):
                self._log.read_of[feed.topic] += 1
                yield record
        finally:
            self._log.cursors.remove(feed.topic)


def opened(log: StreamLog) -> OpenReplayContext:
    work = ReplayContext("q", Kernel, log, (UP, SOURCE), (FEEDS, (Feed("t"),)), WIDTH_US, AHEAD_US, "a1")
    return work.open()


def rows_of(bucket: int) -> Output:
    return Output([(BUCKETS.start(bucket) + n, bucket * 10 + n) for n in range(bucket % 3 + 1)])


def whole() -> list[StreamRecord]:
    """Every bucket of [ORIGIN, END), some of them empty."""
    said: list[StreamRecord] = []
    for bucket in range(ORIGIN, END):
        said.append(StableRange(1, bucket, bucket + 1) if bucket % 4 == 0 else StableBucket(1, bucket, rows_of(bucket)))
    return said


def world() -> StreamLog:
    log = StreamLog()
    rows = [(BUCKETS.start(b) + 3, b) for b in range(ORIGIN, END)]
    log.put(*(NewRecord(Feed("t"), value) for value in (claim(1, "a"), batch(1, "a", 0, rows, BUCKETS.start(END)))))
    return log


def straight(log: StreamLog, first: int = ORIGIN, end: int = END) -> tuple[object, dict[int, Output], int]:
    """The answer, bucket by bucket and by hand: state, outputs, rows of [first, end)."""
    kernel = Kernel()
    state, outputs, count = kernel.initial(), {}, 0
    for bucket in range(ORIGIN, end):
        stream = None if bucket % 4 == 0 else rows_of(bucket).rows
        parts = [stream, [(BUCKETS.start(bucket) + 3, bucket)]]
        state, out = kernel.step(state, bucket, bucket + 1, {bucket: kernel.order(parts)})
        if bucket >= first:
            outputs |= out
            count += sum(len(p) for p in parts if p)
    return state, outputs, count


def job(log: StreamLog, first: int = ORIGIN, end: int = END) -> RedoJob:
    before = straight(log, end=first)[0]
    ranges = (SourceRange(1, 0, 2, SourceFold(BUCKETS.start(ORIGIN))),)
    return RedoJob(id=1, first=first, end=end, state=before, ranges=ranges, rows=straight(log, first, end)[2])


@given(st.data())
def test_any_replicas_that_hold_the_buckets_between_them_give_the_same_bits(data: st.DataObject) -> None:
    log = world()
    said = whole()
    for k in range(3):
        upto = data.draw(st.integers(0, len(said)), f"replica {k} died after")
        again = data.draw(st.integers(0, upto), "and had begun again at")
        tentative = TentativeBucket(
            inc=1,
            bucket=ORIGIN + 2,
            output=rows_of(3),
            missing_sources=("s",),
            missing=("s",),
            waited_us=0,
            completeness=0.5,
            diverged_from=ORIGIN,
        )
        log.say(k, [*said[:upto], tentative, Undo(1, ORIGIN), RecDone(1, ORIGIN + 1), *said[again:upto]])
    alive = data.draw(st.integers(0, 2), "one says all of it")
    log.create([FEEDS[alive].topic])
    log.say(alive, said)
    first = data.draw(st.integers(ORIGIN, END - 1), "first")
    end = data.draw(st.integers(first + 1, END), "end")
    state, outputs = run_job(job(log, first, end), opened(log))
    assert (state, outputs) == straight(log, first, end)[:2]


@given(lives(3), st.data())
def test_a_hole_in_one_replicas_topic_lies_in_another_s(lived: Lives, data: st.DataObject) -> None:
    """As replicas leave them that take over from each other's checkpoints."""
    log, said = world(), whole()
    for one in lived.said:
        log.say(one.replica, said[one.first : one.end])
    end = ORIGIN + min(len(said), lived.frontier)
    if end > ORIGIN:
        first = data.draw(st.integers(ORIGIN, end - 1), "first")
        assert run_job(job(log, first, end), opened(log)) == straight(log, first, end)[:2]


def test_it_goes_on_at_the_next_replica_where_one_has_a_gap() -> None:
    log, said = world(), whole()
    log.say(0, [*said[:5], *said[9:]])
    log.say(1, said[:12])
    log.say(2, [])
    assert run_job(job(log), opened(log)) == straight(log)[:2]


def test_buckets_that_nobody_holds_are_named() -> None:
    log, said = world(), whole()
    for k in range(3):
        log.say(k, said[:5])
    with pytest.raises(ReplayError, match="stream up as its 3 replicas have it closes only the buckets before 15"):
        run_job(job(log), opened(log))


def test_a_record_that_does_not_decode_is_passed_over() -> None:
    log, said = world(), whole()
    log.say(0, said[:5])
    log.put(NewRecord(FEEDS[0], b"garbage", timestamp_ms=14))
    log.say(0, said[5:])
    log.say(1, [])
    log.say(2, [])
    assert run_job(job(log), opened(log)) == straight(log)[:2]


def test_rows_of_another_schema_are_passed_over() -> None:
    log, said = world(), whole()
    other = StreamEncoder(FEEDS[0], "a1", BUCKETS, ListKernel(), "another schema")
    log.put(*other.encode(StableBucket(1, ORIGIN, rows_of(ORIGIN + 1))))
    log.say(0, said)
    log.say(1, [])
    log.say(2, [])
    assert run_job(job(log), opened(log)) == straight(log)[:2]


def test_it_reads_no_more_than_the_buckets_it_needs() -> None:
    log, said = world(), whole()
    for k in range(3):
        log.say(k, said)
    run_job(job(log, 20, 22), opened(log))
    assert log.read_of[FEEDS[0].topic] <= 3
    assert FEEDS[1].topic not in log.read_of


def test_small_slices_change_nothing() -> None:
    log, said = world(), whole()
    log.say(0, said[:9])
    log.say(1, said[4:])
    log.say(2, [])
    made = job(log)
    replay = Replay(opened(log), made.first, made.state, made.ranges, slice_rows=1)
    outputs = {b: o for chunk in replay.run(END) for b, o in chunk.outputs.items()}
    assert (replay.state, outputs) == straight(log)[:2]


def test_a_replay_that_is_given_up_lets_go_of_its_cursors() -> None:
    log = world()
    log.say(0, whole())
    made = job(log)
    replay = Replay(opened(log), made.first, made.state, made.ranges, slice_rows=1)
    next(running := replay.run(END))
    assert sorted(log.cursors) == [SOURCE.name, FEEDS[0].topic]
    running.close()
    assert log.cursors == []
