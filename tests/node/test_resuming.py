"""Where a writer goes on when progress is ahead of what its inputs close: it waits until it has read all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from borealis_py.log import topics
from borealis_py.log.acks import ack_record
from borealis_py.log.base import Feed, LogError, NewRecord
from borealis_py.log.corrected import Progress, progress_record, transaction
from borealis_py.log.description import OtherLife
from borealis_py.node.resuming import Resuming
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.trimming import Need, ReplicaName
from borealis_py.simulation.log.reader import MemoryLookup
from sunion.bucket import Buckets
from sunion.model import Input, Output
from tests.reconcile.list_world import ListKernel
from tests.support.simulated_app import SimulatedApp

BUCKETS = Buckets(1_000)
ORIGIN = 10
SOURCE, STREAM = Feed("app.s"), Feed("app.up.r0")
PROGRESS = Feed(topics.progress("app", "q"))


class FencedWriter(SimulatedApp):
    """A writer that has just fenced, and what lies in the log. `ends`: what it asked its inputs for."""

    def __init__(self, closed: int) -> None:
        super().__init__("app.s", "app.up.r0", PROGRESS.topic, "app.q", "app.deadletter", "app.settings", "app.acks")
        self.describe("a1", ORIGIN)
        spec = ReplicaSpec(
            app="app", app_uid="a1", node="q", replica=1, inputs=(Input.source("s"), Input("up", 1, ("t",))),
            bucket_us=BUCKETS.width_us, origin=ORIGIN, partition=0, query_hash="", app_json="", delays={}, log=None,  # type: ignore[arg-type]
            data_dir=Path(), timing=Timing(), serves=(), position=1, corrected=True, replicas=2,
        )  # fmt: skip
        self.closed, self.has, self.asked = closed, False, dict[Feed, int]()
        self.resuming = Resuming(spec, closed)
        self.lookup = self.log.client("writer").lookup()

    def publish(self, upto: int, rows: tuple[int, ...] = ()) -> None:
        outputs = {b: Output([(b * 1_000, "x")]) for b in rows}
        self.append(*transaction("app", "q", outputs, Progress("a1", upto, 0, 1), BUCKETS, ListKernel()))

    def has_read(self, ends: Mapping[Feed, int]) -> bool:
        self.asked = dict(ends)
        return self.has

    def turned(self, closed: int) -> None:
        self.resuming.turned(closed, self)


def test_progress_that_the_inputs_close_counts_at_once() -> None:
    world = FencedWriter(closed=20)
    assert world.resuming(world.lookup) is None
    world.publish(20, rows=(12,))
    assert world.resuming(world.lookup) == 20
    assert not world.resuming.doubts


def test_a_transaction_without_an_end_is_told_up_to_where_it_is_written() -> None:
    world = FencedWriter(closed=20)
    raw = MemoryLookup(world.log.client("writer"), committed=False)
    assert world.resuming.unended(world.lookup, raw) is None
    world.publish(13, rows=(12,))
    assert world.resuming.unended(world.lookup, raw) is None
    epoch = world.log.broker.init_producer("q.publisher")
    opened = world.log.broker.write("q.publisher", epoch, [NewRecord(Feed("app.q"), b"half")])
    assert world.resuming.unended(world.lookup, raw) == 2
    world.log.broker.expire("q.publisher", opened)
    assert world.resuming.unended(world.lookup, raw) is None


def test_who_has_read_less_than_the_writer_before_waits_for_his_inputs_and_then_believes() -> None:
    """Rows end at bucket 12; those up to 19 are empty, which the last writer knew."""
    world = FencedWriter(closed=17)
    world.publish(20, rows=(12,))
    for feed in (SOURCE, STREAM):
        world.log.broker.append(NewRecord(feed, b"one more"))
    with pytest.raises(LogError, match="q: progress is at bucket 20, the inputs close only up to 17"):
        world.resuming(world.lookup)
    assert world.resuming.doubts
    world.turned(18)
    assert world.asked == {SOURCE: 1, STREAM: 1}
    with pytest.raises(LogError, match="up to 18"):
        world.resuming(world.lookup)
    world.has = True
    world.turned(20)
    assert not world.resuming.doubts
    assert world.resuming(world.lookup) == 20


def test_what_no_input_closes_when_all_of_them_have_been_read_is_garbage() -> None:
    world = FencedWriter(closed=17)
    world.publish(14, rows=(12,))
    world.log.broker.append(progress_record("app", "q", Progress("a1", 99, 0, 1)))
    with pytest.raises(LogError):
        world.resuming(world.lookup)
    world.has = True
    world.turned(18)
    assert not world.resuming.doubts
    assert world.resuming(world.lookup) == 13, "behind the last row"


def test_another_record_is_another_doubt() -> None:
    world = FencedWriter(closed=17)
    world.log.broker.append(progress_record("app", "q", Progress("a1", 99, 0, 1)))
    with pytest.raises(LogError):
        world.resuming(world.lookup)
    world.has = True
    world.turned(17)
    world.publish(19)
    with pytest.raises(LogError, match="bucket 19"):
        world.resuming(world.lookup)
    assert world.resuming.doubts


def test_what_was_acknowledged_as_published_is_waited_for_like_progress() -> None:
    """Garbage has displaced the progress, and this replica has read less than the writer before."""
    world = FencedWriter(closed=17)
    world.publish(20, rows=(12,))
    need = Need(inc=1, uid="u", number=1, bucket=ORIGIN, offsets={}, published=20)
    world.log.broker.append(ack_record("app", "a1", ReplicaName("q", 0), need))
    world.log.broker.append(NewRecord(PROGRESS, b"garbage", b"0"))
    world.log.delete_before(PROGRESS, 1)
    with pytest.raises(LogError, match="bucket 20"):
        world.resuming(world.lookup)
    assert world.resuming.doubts
    world.has = True
    world.turned(20)
    assert world.resuming(world.lookup) == 20


def test_two_that_no_input_closes_are_both_found_out() -> None:
    world = FencedWriter(closed=17)
    world.publish(14, rows=(12,))
    need = Need(inc=1, uid="u", number=1, bucket=ORIGIN, offsets={}, published=80)
    world.log.broker.append(ack_record("app", "a1", ReplicaName("q", 0), need))
    world.log.broker.append(progress_record("app", "q", Progress("a1", 99, 0, 1)))
    world.has = True
    for ahead in (99, 80):
        with pytest.raises(LogError, match=f"bucket {ahead}"):
            world.resuming(world.lookup)
        world.turned(18)
    assert world.resuming(world.lookup) == 13


def test_a_life_that_is_over_ends_the_replica() -> None:
    world = FencedWriter(closed=17)
    world.describe("b2", ORIGIN)
    with pytest.raises(LogError):
        world.resuming(world.lookup)
    assert isinstance(world.resuming.ended, OtherLife)
