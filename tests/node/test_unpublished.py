"""What is still to be published and left memory: from the own topic, from a peer's, or the end with a name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, LogUnreachable
from borealis_py.log.stream import StreamEncoder
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.unpublished import NeverPublished, Unpublished
from borealis_py.protocol.settings import Timing
from borealis_py.query.recovery import ACTIVE, RecoveryPlan, RecoveryWay
from borealis_py.simulation.toy_query import ToyKernel
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import Output, Reject, StableBucket, StableRange
from tests.support.simulated_app import SimulatedApp

BUCKETS = Buckets(100_000)
FIRST = 17_000_000
KERNEL = ToyKernel(BUCKETS.width_us, 1)
OWN, PEER = 1, 0


TIMING = Timing()


class PublishingReplica(SimulatedApp):
    """A node with two replicas, of which the second has something to publish."""

    def __init__(self, timing: Timing = TIMING, recovery: RecoveryPlan = ACTIVE) -> None:
        self.feeds = [Feed(topics.replica("app", "q", k)) for k in range(2)]
        super().__init__(*(feed.topic for feed in self.feeds), start_us=BUCKETS.start(FIRST))
        self._appender = self.log.client("writer").appender(lambda: None)
        spec = ReplicaSpec(
            app="app", app_uid="a1", node="q", replica=OWN, inputs=(), bucket_us=BUCKETS.width_us, origin=FIRST,
            partition=0, query_hash="", app_json="", delays={}, log=None, data_dir=Path(), timing=timing, serves=(),  # type: ignore[arg-type]
            position=1, corrected=True, replicas=2, recovery=recovery,
        )  # fmt: skip
        self.client = self.log.client("replica")
        self.unpublished = Unpublished(spec, self.client, KERNEL)
        self.alone = Unpublished(replace(spec, replica=0, replicas=1), self.client, KERNEL)

    def say(self, replica: int, *buckets: int) -> None:
        self.write(replica, *(StableBucket(1, FIRST + bucket, said(bucket)) for bucket in buckets))

    def say_nothing(self, replica: int, first: int, end: int) -> None:
        self.write(replica, StableRange(1, FIRST + first, FIRST + end))

    def write(self, replica: int, *said: StableBucket | StableRange, schema: str = KERNEL.schema_id) -> None:
        encoder = StreamEncoder(self.feeds[replica], "a1", BUCKETS, KERNEL, schema)
        for one in said:
            for record in encoder.encode(one):
                self._appender.append(record)
        self.after(1)

    def delete_before(self, replica: int, offset: int) -> None:
        self.log.delete_before(self.feeds[replica], offset)


def said(bucket: int) -> Output:
    return Output(None, (Reject("q", bucket, "bad"),))


def wanted(*buckets: int) -> dict[int, Output]:
    return {FIRST + bucket: said(bucket) for bucket in buckets}


def test_the_own_topic_is_asked_first() -> None:
    world = PublishingReplica()
    world.say(OWN, 0, 1, 2, 3)
    assert world.unpublished.said(FIRST + 1, FIRST + 3) == (wanted(1, 2), FIRST + 3)
    world.unpublished.check()


@pytest.mark.parametrize("timing", [Timing(publish_rows=2), Timing(publish_buckets=2), Timing(publish_bytes=6)])
def test_no_more_is_read_than_goes_into_one_transaction(timing: Timing) -> None:
    """Dead letters of three bytes each; a bucket that has nothing takes no room."""
    world = PublishingReplica(timing)
    world.say(OWN, 0, 1)
    world.say_nothing(OWN, 2, 5)
    world.say(OWN, 5, 6, 7)
    assert world.unpublished.said(FIRST, FIRST + 8) == (wanted(0, 1), FIRST + 5)
    assert world.unpublished.said(FIRST + 5, FIRST + 8) == (wanted(5, 6), FIRST + 7)
    assert world.unpublished.said(FIRST + 7, FIRST + 8) == (wanted(7), FIRST + 8)


def test_what_the_own_topic_has_lost_a_peer_may_have() -> None:
    world = PublishingReplica()
    world.say(OWN, 0, 1, 2, 3)
    world.say(PEER, 0, 1, 2)
    world.delete_before(OWN, 2)
    assert world.unpublished.said(FIRST + 1, FIRST + 3) == (wanted(1, 2), FIRST + 3)
    world.unpublished.check()


def test_a_peer_that_has_not_said_it_yet_may_do_so() -> None:
    world = PublishingReplica()
    world.say(OWN, 0, 1, 2, 3)
    world.say(PEER, 0)
    world.delete_before(OWN, 2)
    with pytest.raises(
        LogError, match=r"q: not all is published yet: .*none of app\.q\.r0, app\.q\.r1 holds stable bucket 17000001"
    ):
        world.unpublished.said(FIRST + 1, FIRST + 3)
    world.unpublished.check()
    world.say(PEER, 1, 2)
    assert world.unpublished.said(FIRST + 1, FIRST + 3) == (wanted(1, 2), FIRST + 3)


def test_what_nobody_has_any_more_ends_the_turn_with_its_name() -> None:
    world = PublishingReplica()
    for replica in (OWN, PEER):
        world.say(replica, 0, 1, 2, 3)
        world.delete_before(replica, 2)
    with pytest.raises(LogError):
        world.unpublished.said(FIRST + 1, FIRST + 3)
    with pytest.raises(NeverPublished, match=r"none of app\.q\.r0, app\.q\.r1 holds .*retention.*--reset") as lost:
        world.unpublished.check()
    assert isinstance(lost.value, RetentionLost)


def test_a_hole_in_the_own_topic_lies_in_a_peers() -> None:
    """Who took over began at 3, who took over after that at 5."""
    world = PublishingReplica()
    world.say(OWN, 0, 1, 5, 6)
    world.say(PEER, 1, 2, 3, 4, 5)
    assert world.unpublished.said(FIRST, FIRST + 7) == (wanted(*range(7)), FIRST + 7)


def test_limits_of_a_transaction_hold_across_topics() -> None:
    world = PublishingReplica(Timing(publish_buckets=3))
    world.say(OWN, 0, 1, 4)
    world.say(PEER, 2, 3)
    assert world.unpublished.said(FIRST, FIRST + 5) == (wanted(0, 1, 2), FIRST + 3)
    assert world.unpublished.said(FIRST + 3, FIRST + 5) == (wanted(3, 4), FIRST + 5)


def test_what_lies_below_a_gap_is_published() -> None:
    world = PublishingReplica()
    world.say(OWN, 0, 1)
    world.say(PEER, 1, 2)
    assert world.unpublished.said(FIRST, FIRST + 5) == (wanted(0, 1, 2), FIRST + 3)
    with pytest.raises(LogError, match=r"none of .* holds stable bucket 17000003"):
        world.unpublished.said(FIRST + 3, FIRST + 5)
    world.unpublished.check()


@pytest.mark.parametrize("way", RecoveryWay)
def test_a_peer_that_stands_by_will_not_say_what_was_deleted(way: RecoveryWay) -> None:
    """It begins with a newer bucket if it takes over; one that runs, and is behind, will say it."""
    world = PublishingReplica(recovery=RecoveryPlan(way))
    world.say(OWN, 0, 1, 2, 3)
    world.say(PEER, 0)
    world.delete_before(OWN, 2)
    with pytest.raises(LogError):
        world.unpublished.said(FIRST + 1, FIRST + 3)
    if way is RecoveryWay.ACTIVE:
        world.unpublished.check()
    else:
        with pytest.raises(NeverPublished, match="stable bucket 17000001 any more"):
            world.unpublished.check()


def test_a_hole_is_no_loss() -> None:
    """What the own topic has lost lies in the other one, and what that one never had in the own one."""
    world = PublishingReplica(recovery=RecoveryPlan(RecoveryWay.PASSIVE_STANDBY))
    world.say(OWN, 0, 1, 4, 5)
    world.say(PEER, 1, 2, 3, 4)
    world.delete_before(OWN, 2)
    assert world.unpublished.said(FIRST + 1, FIRST + 6) == (wanted(1, 2, 3, 4, 5), FIRST + 6)
    world.unpublished.check()


def test_a_replica_without_peers_has_only_its_own() -> None:
    world = PublishingReplica()
    world.say(0, 0, 1, 2, 3)
    assert world.alone.said(FIRST, FIRST + 4) == (wanted(0, 1, 2, 3), FIRST + 4)
    world.delete_before(0, 3)
    with pytest.raises(LogError):
        world.alone.said(FIRST, FIRST + 4)
    with pytest.raises(NeverPublished):
        world.alone.check()


def test_rows_of_another_schema_are_nothing_that_could_be_published() -> None:
    world, rows = PublishingReplica(), [(BUCKETS.start(FIRST), "row", 5, 0)]
    world.write(OWN, StableBucket(1, FIRST, Output(rows)), schema="another schema")
    with pytest.raises(LogError):
        world.unpublished.said(FIRST, FIRST + 1)
    world.write(OWN, StableBucket(1, FIRST, Output(rows)))
    assert world.unpublished.said(FIRST, FIRST + 1) == ({FIRST: Output(rows)}, FIRST + 1)


def test_a_log_that_does_not_answer_is_no_loss() -> None:
    world = PublishingReplica()
    world.say(OWN, 0, 1)
    world.log.cut("replica")
    with pytest.raises(LogUnreachable):
        world.unpublished.said(FIRST, FIRST + 1)
    world.unpublished.check()
