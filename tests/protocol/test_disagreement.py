"""Replicas that emitted different rows for a stable bucket: one notices, and none publishes until a resume (R15)."""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.protocol.incarnation import Disagreement, Heartbeat
from borealis_py.protocol.publishing import Phase, PublishContext, Publishing
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import (
    AbandonWriter,
    Effect,
    EmitEvent,
    FenceWriter,
    Publish,
    TellDisagreement,
    Turn,
    WriterCommitted,
    WriterEvent,
    WriterReady,
)
from sunion.digests import Digest
from sunion.model import Output
from tests.protocol.toy import MS, make_world
from tests.sunion.unions import output_of
from tests.support.heartbeats import heartbeat

ROW, OTHER = Output(((1, 1),)), Output(((1, 2),))
FOUND = Disagreement(5, 1, "aa", 2, "bb", "q")


class Compared:
    """Replica 0, which publishes first; it emits and tells a bucket with one row in each turn that has none else."""

    def __init__(self) -> None:
        self.publishing = Publishing(0, Timing(), 0)
        self.output = output_of(1, 0)
        self.now = 0

    def emit(self, output: Output = ROW) -> tuple[Digest, ...]:
        bucket = self.output.stable
        self.output.stable_run(bucket, bucket + 1, {bucket: output})
        self.output.acknowledged(10**9)
        return self.output.digests.tell()

    def turn(
        self,
        beats: Sequence[Heartbeat] = (),
        told: Sequence[Disagreement | None] = (),
        writer: Sequence[WriterEvent] = (),
    ) -> list[Effect]:
        self.now += 10_000
        turn = Turn(self.now, beats=list(enumerate(beats)), disagreements=told, writer=writer)
        stable = self.output.stable
        standing = PublishContext(
            now=self.now, stable=stable, lowest_live=0, gap=False, read_to=self.now, closed=stable
        )
        return self.publishing.turn(turn, standing, self.output)

    def ready(self) -> None:
        """It has a writer."""
        assert self.turn() == [FenceWriter(1)]
        self.turn(writer=[WriterReady(1, None)])


def peer(*outputs: Output) -> Heartbeat:
    """Of replica 1, which emitted these for bucket 0 and on."""
    digests = output_of(1, 0).digests
    for bucket, output in enumerate(outputs):
        digests.said(bucket, bucket + 1, output)
    return heartbeat(1, digests=digests.tell())


def events(effects: Sequence[Effect]) -> list[str]:
    return [e.event for e in effects if isinstance(e, EmitEvent)]


def test_who_sees_a_difference_tells_all_and_drops_its_writer() -> None:
    it = Compared()
    it.ready()
    it.emit()
    effects = it.turn([peer(OTHER)])
    (told,) = [e.disagreement for e in effects if isinstance(e, TellDisagreement)]
    assert (told.bucket, told.replica, told.peer) == (0, 0, 1)
    assert events(effects) == ["DIVERGED"]
    assert effects[-1] == AbandonWriter()
    assert not [e for e in effects if isinstance(e, Publish)]
    assert it.turn([peer(OTHER)]) == []  # told once


def test_equal_rows_and_the_own_heartbeats_are_no_difference() -> None:
    it = Compared()
    it.ready()
    it.emit()
    effects = it.turn([peer(ROW), heartbeat(0, digests=peer(OTHER).digests)])
    assert effects == [Publish(1, 0, 1, {0: ROW})]


def test_what_another_replica_found_stops_this_one_before_it_fences() -> None:
    it = Compared()
    it.emit()
    effects = it.turn(told=[FOUND])
    assert effects == [EmitEvent("DIVERGED", str(FOUND))]
    it.now += 100_000_000
    assert it.turn() == []
    standing = PublishContext(now=it.now, stable=1, lowest_live=0, gap=False, read_to=0, closed=1)
    assert not it.publishing.wants_ends(standing)
    assert it.publishing.wakeup(1) is None


def test_the_outcome_of_a_commit_is_awaited_before_its_writer_is_dropped() -> None:
    it = Compared()
    it.ready()
    it.emit()
    assert it.turn() == [Publish(1, 0, 1, {0: ROW})]
    assert AbandonWriter() not in it.turn(told=[FOUND])
    assert it.publishing.phase is Phase.COMMITTING
    assert it.turn(writer=[WriterCommitted(1)]) == [AbandonWriter()]
    assert it.publishing.frontier == 1


def test_once_it_is_cleared_rows_are_published_and_only_new_ones_compared() -> None:
    it = Compared()
    it.emit()
    it.turn(told=[FOUND])
    effects = it.turn(told=[None])
    assert (events(effects), effects[-1]) == (["RESUMED"], FenceWriter(1))
    it.emit()
    it.turn([peer(OTHER)])
    assert it.publishing.disagreement.found is None
    assert events(it.turn([peer(OTHER, OTHER)])) == ["DIVERGED"]  # bucket 1 came after


def test_replicas_of_a_whole_world_tell_their_digests_and_never_differ() -> None:
    world = make_world(replicas=2)
    world.run(3_000 * MS)
    for replica in world.replicas.values():
        assert replica.manager.publishing.disagreement.found is None
        assert replica.manager.output.digests._kept, "they told some"
