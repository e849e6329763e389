"""A replica that takes over a peer's checkpoint: its state, and all that the peer said before, of every partition."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.log.base import Feed, Log, Lookup, Record
from borealis_py.log.stream import StreamEncoder
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.peers import PeerRedo, Peers, said_by
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.starting import Starting
from borealis_py.protocol.incarnation import StartPoint
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import SaveCheckpoint
from borealis_py.query.spec import Partitioning
from borealis_py.simulation.toy_query import ToyKernel
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import Output, Reject, StableBucket
from sunion.portion import Most
from sunion.source import SourceFold
from sunion.union import Mark
from sunion.units import NOWHERE
from tests.harness.waiting import PATIENCE_S, until
from tests.support.holed_streams import lives
from tests.support.simulated_app import SimulatedApp

BUCKETS = Buckets(100_000)
FIRST = 17_000_000
OWN, PEER, PARTS = 1, 0, 2
KERNEL = ToyKernel(BUCKETS.width_us, 1)
STATE = (1, 2, 3)


def said(bucket: int) -> Output:
    """Two rows of partition 0, one of partition 1, and a dead letter."""
    at = BUCKETS.start(bucket)
    return Output([(at + n, "row", n, 0) for n in range(3)], (Reject("q", bucket, "bad"),))


def parted(bucket: int) -> Output:
    """The same once it has been divided and put together."""
    first, second, third = said(bucket).rows
    return Output([first, third, second], said(bucket).rejects)


class AdoptingNode(SimulatedApp):
    """A node of two replicas, whose readers are partitioned, and of which the first has written checkpoints."""

    def __init__(self, directory: Path, schema: str = KERNEL.schema_id, replicas: int = 2) -> None:
        self.spec = ReplicaSpec(
            app="app", app_uid="a1", node="q", replica=OWN, inputs=(), bucket_us=BUCKETS.width_us, origin=FIRST,
            partition=0, query_hash="h", app_json="", delays={}, log=None, data_dir=directory, timing=Timing(),  # type: ignore[arg-type]
            serves=(), position=1, corrected=True, replicas=replicas, exchange=Partitioning(by=("value",), count=PARTS),
        )  # fmt: skip
        super().__init__(start_us=BUCKETS.start(FIRST))
        streams = [self.spec.feeds_of(k) for k in range(replicas)]
        self.create(*(feeds[0].topic for feeds in streams), partitions=PARTS)
        self._encoders = [[StreamEncoder(feed, "a1", BUCKETS, KERNEL, schema) for feed in feeds] for feeds in streams]
        self._appender = self.log.client("peer").appender(lambda: None)
        self.own, self._theirs = (
            CheckpointStore(place, "h", KERNEL, threaded=False)
            for place in (self.spec.checkpoints, self.spec.checkpoints.sibling(f"q.r{PEER}"))
        )
        self.peers = Peers(self.spec, self.own, KERNEL)
        self.lookup = self.log.client("replica").lookup()

    def say(self, *buckets: int, replica: int = PEER) -> None:
        for bucket in buckets:
            for partition in range(PARTS):
                self.say_part(replica, partition, bucket)
        self.after(1)

    def say_part(self, replica: int, partition: int, bucket: int) -> None:
        """One partition of it, and not yet."""
        rows = KERNEL.divide(said(bucket).rows, ("value",), PARTS)[partition]
        letters = said(bucket).rejects if partition == 0 else ()
        for record in self._encoders[replica][partition].encode(StableBucket(1, bucket, Output(rows, letters))):
            self._appender.append(record)

    def checkpoint(self, bucket: int, said: int = NOWHERE) -> tuple[Mark, ...]:
        marks = (Mark(bucket - FIRST, SourceFold(BUCKETS.start(bucket), 1, "u", 5)),)
        self._theirs.save(SaveCheckpoint(bucket, STATE, marks, said=said))
        return marks


@pytest.fixture
def world(tmp_path: Path) -> AdoptingNode:
    return AdoptingNode(tmp_path)


def job(first: int, end: int) -> RedoJob:
    return RedoJob(id=4, first=first, end=end, state=(0, 0, 0), ranges=(), rows=0, peer=PEER)


def test_the_peers_state_and_what_it_said_before_it(world: AdoptingNode) -> None:
    world.say(FIRST, FIRST + 1, FIRST + 2, FIRST + 3)
    world.checkpoint(FIRST + 3)
    done = world.peers.adopt(job(FIRST + 1, FIRST + 3), world.lookup)
    assert isinstance(done, RedoDone)
    assert (done.id, done.state, done.engine) == (4, STATE, "peer")
    assert 0 <= done.seconds < 60
    assert done.outputs == {b: parted(b) for b in (FIRST + 1, FIRST + 2)}


def test_what_the_peer_does_not_have_is_a_sentence(world: AdoptingNode) -> None:
    world.say(FIRST, FIRST + 1)
    assert world.peers.adopt(job(FIRST, FIRST + 3), world.lookup) == RedoFailed(
        4, f"replica 0 has no checkpoint at bucket {FIRST + 3} any more"
    )
    world.checkpoint(FIRST + 3)
    failed = world.peers.adopt(job(FIRST, FIRST + 3), world.lookup)
    assert isinstance(failed, RedoFailed)
    assert failed.id == 4
    assert failed.reason.startswith(
        f"checkpoint of replica 0 at bucket {FIRST + 3}: buckets [{FIRST}, {FIRST + 3}) are needed, and none of "
        f"app.q.r0, app.q.r1 holds stable bucket {FIRST + 2}"
    )


def test_what_the_peers_topic_has_a_hole_for_comes_from_others(world: AdoptingNode) -> None:
    """The peer took over from a third replica's checkpoint; the own topic has what was before."""
    world.say(FIRST, FIRST + 1, replica=OWN)
    world.say(FIRST, FIRST + 3)
    world.checkpoint(FIRST + 4)
    failed = world.peers.adopt(job(FIRST, FIRST + 4), world.lookup)
    assert isinstance(failed, RedoFailed)
    assert failed.reason.endswith(f"none of app.q.r0, app.q.r1 holds stable bucket {FIRST + 2}")
    world.say(FIRST + 2, replica=OWN)
    done = world.peers.adopt(job(FIRST, FIRST + 4), world.lookup)
    assert isinstance(done, RedoDone)
    assert done.outputs == {b: parted(b) for b in range(FIRST, FIRST + 4)}


@given(data=st.data())
@settings(max_examples=60)
def test_whatever_replicas_hold_all_of_them_hold_the_whole(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two or three replicas, two partitions, of which one may get further than the other before a crash."""
    replicas = data.draw(st.integers(2, 3), "replicas")
    lived = data.draw(lives(replicas, PARTS))
    world = AdoptingNode(tmp_path_factory.mktemp("w"), replicas=replicas)
    for one in lived.said:
        for bucket in range(one.first, one.end):
            world.say_part(one.replica, one.partition, FIRST + bucket)
    world.after(1)
    first = data.draw(st.integers(0, lived.frontier), "first")
    end = data.draw(st.integers(first, lived.frontier), "end")
    asked = data.draw(st.permutations(range(replicas)), "asked")
    most = data.draw(st.builds(Most, st.integers(1, 5), st.integers(1, 30), st.just(10**9)))
    found = said_by(world.spec, asked, world.lookup, KERNEL, FIRST + first, FIRST + end)
    assert found == ({FIRST + b: parted(FIRST + b) for b in range(first, end)}, FIRST + end)
    part, reached = said_by(world.spec, asked, world.lookup, KERNEL, FIRST + first, FIRST + end, most)
    fits = max(1, min(most.buckets, most.rows // 4)) if end > first else 0
    assert (sorted(part), reached) == ([*range(FIRST + first, reached)], FIRST + min(end, first + fits))
    assert part == {b: parted(b) for b in part}


def test_rows_of_another_schema_are_not_taken_over(tmp_path: Path) -> None:
    world = AdoptingNode(tmp_path, schema="another")
    world.say(FIRST, FIRST + 1)
    world.checkpoint(FIRST + 2)
    assert isinstance(world.peers.adopt(job(FIRST, FIRST + 2), world.lookup), RedoFailed)


class NoLog:
    """A log that gives nobody a client. No simulated log: a stub of one call, which fails as none of a log's does."""

    def lookup(self) -> Lookup:
        raise RuntimeError("no more clients")


def test_an_adoption_runs_beside_the_turns_and_what_it_cannot_do_is_the_answer_of_its_job(world: AdoptingNode) -> None:
    rung: list[str] = []
    redo = PeerRedo(world.peers, world.log.client("replica"), lambda: rung.append("rung"))
    world.say(FIRST, FIRST + 1, FIRST + 2)
    world.checkpoint(FIRST + 2)
    redo.submit_job(job(FIRST, FIRST + 2))
    until(lambda: rung == ["rung"], "it is answered")
    (done,) = redo.poll_results()
    assert isinstance(done, RedoDone)
    assert (done.id, done.state) == (4, STATE)
    redo = PeerRedo(world.peers, cast(Log, NoLog()), lambda: rung.append("again"))
    redo.submit_job(job(FIRST, FIRST + 2))
    until(lambda: rung == ["rung", "again"], "it has failed")
    assert redo.poll_results() == [RedoFailed(4, "RuntimeError: no more clients")]


class Endless:
    """A log that has a record for whoever asks, again and again. `closed`: its reader has let go of it."""

    def __init__(self) -> None:
        self.reading, self.closed = threading.Event(), threading.Event()

    def lookup(self) -> Endless:
        return self

    def bounds(self, feed: Feed) -> tuple[int, int]:
        return 0, 2**62

    def find(self, feed: Feed, timestamp_ms: int) -> int:
        return 0

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        for offset in range(first, end):
            if self.closed.is_set():  # the test is over, and has failed
                return
            self.reading.set()
            yield Record(feed, offset, 0, None, b"")

    def close(self) -> None:
        self.closed.set()


def test_an_adoption_that_nobody_waits_for_reads_no_further(world: AdoptingNode) -> None:
    world.checkpoint(FIRST + 2)
    endless = Endless()
    redo = PeerRedo(world.peers, cast(Log, endless), lambda: None)
    redo.submit_job(job(FIRST, FIRST + 2))
    assert endless.reading.wait(PATIENCE_S)
    redo.cancel_job(4)
    try:
        assert endless.closed.wait(PATIENCE_S), "it reads on"
    finally:
        endless.closed.set()
    assert redo.poll_results() == []


def own(bucket: int) -> StartPoint:
    return StartPoint(bucket, (0, 0, 0))


def taken(marks: tuple[Mark, ...], bucket: int, buckets: Buckets) -> None:
    assert buckets == BUCKETS
    assert marks[0].offset == bucket - FIRST


def test_a_start_from_a_peer_says_first_what_the_peer_has_said(world: AdoptingNode) -> None:
    world.say(FIRST, FIRST + 1, FIRST + 2, FIRST + 3)
    world.checkpoint(FIRST + 1)
    marks = world.checkpoint(FIRST + 3)
    with closing(world.lookup):
        start = world.peers.start_point(own(FIRST + 1), world.lookup, taken, RetentionLost("the log is cut off"))
    assert start == StartPoint(FIRST + 3, STATE, marks, FIRST + 1, {b: parted(b) for b in (FIRST + 1, FIRST + 2)})


def test_a_start_from_a_peer_reads_what_others_said_below_its_hole(world: AdoptingNode) -> None:
    world.say(FIRST, FIRST + 1, FIRST + 2, replica=OWN)
    world.say(FIRST + 2, FIRST + 3)
    marks = world.checkpoint(FIRST + 4)
    start = world.peers.start_point(own(FIRST), world.lookup, taken, RetentionLost("the log is cut off"))
    assert start == StartPoint(FIRST + 4, STATE, marks, FIRST, {b: parted(b) for b in range(FIRST, FIRST + 4)})


def test_a_checkpoint_that_cannot_be_used_either_is_passed_over(world: AdoptingNode) -> None:
    world.say(FIRST, FIRST + 1, FIRST + 2)
    marks = world.checkpoint(FIRST + 2)
    world.checkpoint(FIRST + 3)

    def refuses(marks: tuple[Mark, ...], bucket: int, buckets: Buckets) -> None:
        if bucket == FIRST + 3:
            raise RetentionLost("neither does this")

    start = world.peers.start_point(own(FIRST), world.lookup, refuses, RetentionLost("the log is cut off"))
    assert (start.bucket, start.marks) == (FIRST + 2, marks)


def deletes(world: AdoptingNode, below: int) -> None:
    """The peer's topic holds nothing below this bucket any more, in any partition."""
    for feed in world.spec.feeds_of(PEER):
        world.log.delete_before(feed, world.lookup.find(feed, BUCKETS.timestamp_ms(below)))


def test_where_a_peers_topic_was_trimmed_the_own_one_keeps_a_hole(world: AdoptingNode) -> None:
    """Whoever needs what lies in it: nobody can say it any more."""
    world.say(*range(FIRST, FIRST + 5))
    marks = world.checkpoint(FIRST + 4)
    deletes(world, FIRST + 2)
    start = world.peers.start_point(own(FIRST), world.lookup, taken, RetentionLost("the log is cut off"))
    assert start == StartPoint(FIRST + 4, STATE, marks, FIRST + 2, {b: parted(b) for b in (FIRST + 2, FIRST + 3)})


def test_a_checkpoint_below_all_that_its_replica_still_holds_is_of_no_use(world: AdoptingNode) -> None:
    world.say(*range(FIRST, FIRST + 5))
    world.checkpoint(FIRST + 1)
    deletes(world, FIRST + 3)
    with pytest.raises(RetentionLost, match="the log is cut off"):
        world.peers.start_point(own(FIRST), world.lookup, taken, RetentionLost("the log is cut off"))


def starting(world: AdoptingNode, waits_below: int, lost_below: int = FIRST) -> StartPoint:
    """A start of the replica, which has no checkpoint; below these buckets it would wait for ever, perhaps, or cannot
    begin."""

    def check(marks: object, bucket: int, buckets: Buckets, may_wait: bool = True) -> None:
        if bucket < (lost_below if may_wait else waits_below):
            raise RetentionLost("the log is cut off")

    return Starting(world.spec, world.own, KERNEL, world.lookup, check).point()


def test_a_start_takes_a_peers_checkpoint_rather_than_wait_for_what_may_never_come(world: AdoptingNode) -> None:
    world.say(FIRST, FIRST + 1, FIRST + 2, FIRST + 3)
    world.checkpoint(FIRST + 1)
    world.checkpoint(FIRST + 3)
    found = starting(world, FIRST + 2)
    assert (found.bucket, found.state, found.own) == (FIRST + 3, STATE, FIRST)
    assert starting(world, FIRST).bucket == FIRST, "its own will do"


def test_a_start_waits_where_no_peers_checkpoint_helps_and_ends_where_waiting_does_not(world: AdoptingNode) -> None:
    world.say(FIRST, FIRST + 1)
    world.checkpoint(FIRST + 1)
    assert starting(world, FIRST + 2).bucket == FIRST
    with pytest.raises(RetentionLost, match="the log is cut off; no other replica has a checkpoint that covers it"):
        starting(world, FIRST + 2, FIRST + 2)


def test_a_start_rebuilds_what_a_peer_stood_on_where_no_peer_has_a_state(world: AdoptingNode) -> None:
    """The node has recovered by upstream backup: its checkpoints have no state, and its standby has none of its own."""
    marks = world.checkpoint(FIRST + 2, said=FIRST + 4)
    found = starting(world, FIRST + 2, FIRST + 2)
    assert found == StartPoint(FIRST + 2, STATE, marks, FIRST + 4, empty=True)
    with pytest.raises(RetentionLost, match="the log is cut off"):
        starting(world, FIRST + 3, FIRST + 3)
    world.say(*range(FIRST, FIRST + 3))
    world.checkpoint(FIRST + 3)
    assert starting(world, FIRST + 2).bucket == FIRST + 3, "one that has its state leaves no hole"


def test_without_a_newer_checkpoint_the_loss_stands(world: AdoptingNode) -> None:
    world.say(FIRST, FIRST + 1)
    world.checkpoint(FIRST + 1)
    with pytest.raises(RetentionLost, match="the log is cut off; no other replica has a checkpoint that covers it"):
        world.peers.start_point(own(FIRST + 1), world.lookup, taken, RetentionLost("the log is cut off"))
