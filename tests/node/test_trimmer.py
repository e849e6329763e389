"""How far one replica lets its own topic, and the sources that its node trims, be deleted, by the log (R16)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from borealis_py.log.acks import ack_record, audit_record, forget_record
from borealis_py.log.base import Feed, Log, LogError, LogUnreachable, Lookup, NewRecord, Record, TopicSpec
from borealis_py.log.description import OtherLife
from borealis_py.log.records import BatchHeader, ClaimHeader, RangeHeader, pack
from borealis_py.node.input_reader import OWN_TAIL
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.trimmer import Trimmer, Trims
from borealis_py.protocol.settings import Delays, Timing
from borealis_py.protocol.trimming import Graph, Need, NodeReads, ReplicaName, Retain, Trimming
from borealis_py.query.spec import Serves
from borealis_py.simulation.cluster.processes import LocalClock
from sunion.bucket import Buckets
from sunion.model import Input
from sunion.units import Bucket, Offset
from tests.support.simulated_app import SimulatedApp

BUCKETS = Buckets(100_000)
FIRST = 17_000_000
LENGTH = 100
GRAPH = Graph({"q": NodeReads(2, ("s",)), "r": NodeReads(1, ("s",), ("q",))})
OWN, SOURCE, ACKS = Feed("app.q.r0"), Feed("app.s"), Feed("app.acks")
NEEDED, ALL = Retain(0), Retain(None)


class TrimmedNode(SimulatedApp):
    """Node `q` has two replicas and reads source `s`, which node `r` reads, too. Each log has one record a bucket."""

    def __init__(self, node: str = "q") -> None:
        names = (OWN.topic, "app.q.r1", "app.r.r0", SOURCE.topic, ACKS.topic, "app.settings")
        super().__init__(*names, start_us=BUCKETS.start(FIRST))
        self.describe("a1", FIRST)
        self.spec = ReplicaSpec(
            app="app", app_uid="a1", node=node, replica=0, inputs=(Input.source("s"),), bucket_us=BUCKETS.width_us,
            origin=FIRST, partition=0, query_hash="h", app_json="", delays={"q": Delays(3_000_000)},
            log=cast(Log, None), data_dir=Path("/data"), timing=Timing(), serves=(Serves(query="q"),), position=1,
            corrected=True, replicas=2, host="m1", trimming=Trimming(GRAPH),
        )  # fmt: skip
        trimming = Trimming(GRAPH, audits={"s": ("q", "r")})
        self.trimmer = Trimmer(self.spec, trimming, LocalClock(self.scheduler, 0))
        self.lookup = self.log.client("q").lookup()
        self.put(SOURCE, pack(ClaimHeader("a1", 1, "p", 0)), FIRST)
        for n in range(LENGTH):
            at = FIRST + n
            self.put(OWN, pack(RangeHeader("a1", 1, at, at + 1, 0)), at)
            batch = BatchHeader("a1", 1, "p", n, b"", BUCKETS.start(at + 1), "json", n)
            self.put(SOURCE, pack(batch), at)

    def put(self, feed: Feed, value: bytes, bucket: int) -> None:
        self.append(NewRecord(feed, value, None, BUCKETS.timestamp_ms(bucket)))

    def says(self, node: str, index: int, upto: int, published: int | None = None, **changed: Any) -> None:
        """A replica may start from bucket FIRST + upto, and reads the source from offset upto."""
        said = None if published is None else FIRST + published
        need = Need(inc=1, uid="u", number=1, bucket=FIRST + upto, offsets={"s": upto}, published=said, place="m1")
        self.append(ack_record("app", "a1", ReplicaName(node, index), replace(need, **changed)))

    def all_say(self, upto: int, published: int) -> None:
        for node, index in (("q", 0), ("q", 1), ("r", 0)):
            self.says(node, index, upto, published)

    def audited(self, query: str, offset: int, source: str = "s") -> None:
        """The next audit of a query reads the source from this offset on."""
        self.append(audit_record("app", "a1", query, Bucket(FIRST), {source: Offset(offset)}))

    def decide(self, retain: Retain = NEEDED, frontier: int = LENGTH) -> Trims:
        return self.trimmer.decide(self.lookup, FIRST + frontier, (), lambda name: retain)

    def held_by(self, retain: Retain = NEEDED) -> list[tuple[str, ...]]:
        return [trim.limit.held_by for trim in self.decide(retain).found]


def test_what_nobody_reads_and_is_published_goes() -> None:
    world = TrimmedNode()
    world.all_say(40, published=60)
    assert world.decide().deletions == {OWN: 40, SOURCE: 40}
    assert world.held_by() == [("q.r0", "q.r1", "r.r0")] * 2
    world.says("r", 0, 30, number=2)
    assert world.decide().deletions == {OWN: 30, SOURCE: 30}


def test_what_is_not_published_yet_stays_in_the_topics_of_replicas() -> None:
    world = TrimmedNode()
    world.all_say(40, published=20)
    assert world.decide().deletions == {OWN: 20, SOURCE: 40}


def test_only_what_the_own_replica_has_acknowledged_as_published_counts() -> None:
    """It is in the log then, so that every take-over finds it (R10.7)."""
    world = TrimmedNode()
    world.all_say(40, published=60)
    world.says("q", 0, 40, number=2)
    assert world.decide().deletions == {SOURCE: 40}
    assert world.held_by()[0] == ("progress of q",)


def test_what_retention_keeps_stays() -> None:
    world = TrimmedNode()
    world.all_say(40, published=60)
    assert world.decide(Retain(75 * BUCKETS.width_us)).deletions == {OWN: 25, SOURCE: 26}, "a claim lies before it"
    assert world.decide(ALL) == Trims()


def test_one_of_its_topics_may_be_kept_whole() -> None:
    world = TrimmedNode()
    world.all_say(40, published=60)
    trims = world.trimmer.decide(world.lookup, FIRST + LENGTH, (), lambda name: ALL if name == "s" else NEEDED)
    assert trims.deletions == {OWN: 40}
    assert trims.found[1].limit.held_by == ("retain",)


def test_the_own_topic_keeps_the_end_that_the_next_start_reads() -> None:
    world = TrimmedNode()
    world.all_say(LENGTH - 1, published=LENGTH)
    assert world.decide().deletions[OWN] == LENGTH - OWN_TAIL


def test_a_source_keeps_a_record_from_which_its_publisher_resumes() -> None:
    """The last one of its owner says so of all from where it has read, and a stranger's record tells nothing."""
    world = TrimmedNode()
    world.put(SOURCE, b"garbage", FIRST + LENGTH)
    world.all_say(LENGTH + 1, published=LENGTH)
    assert world.decide().deletions[SOURCE] == LENGTH - 1
    for n in range(70):
        world.put(SOURCE, b"garbage", FIRST + LENGTH + n)
    assert world.decide().deletions[SOURCE] == LENGTH - 1, "found further back"


def test_without_such_a_record_nothing_of_it_goes() -> None:
    world = TrimmedNode()
    world.all_say(LENGTH + 1, published=LENGTH)
    world.log.delete_before(SOURCE, LENGTH)  # of another kind of retention
    world.put(SOURCE, b"garbage", FIRST + LENGTH)
    world.log.delete_before(SOURCE, LENGTH + 1)
    assert SOURCE not in world.decide().deletions
    assert world.held_by()[1] == ("publisher of s",)


def test_of_a_source_that_is_kept_as_audited_only_what_all_audits_have_verified_goes() -> None:
    """Whatever else is not needed; streams of replicas are no matter of audits."""
    world, kept = TrimmedNode(), Retain(0, audited=True)
    world.all_say(40, published=60)
    assert world.decide(kept).deletions == {OWN: 40}
    assert world.held_by(kept)[1] == ("audit of q (none has ended with --advance yet)",)
    world.audited("q", 20)
    assert world.held_by(kept)[1] == ("audit of r (none has ended with --advance yet)",)
    world.audited("r", 30)
    assert world.decide(kept).deletions == {OWN: 40, SOURCE: 20}
    assert world.held_by(kept)[1] == ("audit of q",)
    assert world.decide(NEEDED).deletions[SOURCE] == 40, "it asks no audit"
    world.audited("q", 90)
    world.audited("r", 95)
    assert world.decide(kept).deletions[SOURCE] == 40, "replicas read from there"


def test_an_audit_that_does_not_tell_holds_the_source() -> None:
    world, kept = TrimmedNode(), Retain(0, audited=True)
    world.all_say(40, published=60)
    world.audited("q", 20)
    world.audited("r", 20, source="t")
    assert world.held_by(kept)[1] == ("audit of r (says nothing of s)",)
    world.log.broker.append(NewRecord(ACKS, b"garbage", b"q/audit"))
    assert world.held_by(kept)[1] == ("audit of q (what it said cannot be used)",)
    assert SOURCE not in world.decide(kept).deletions


def test_a_source_is_trimmed_by_the_first_node_that_reads_it() -> None:
    world = TrimmedNode("r")
    world.all_say(40, published=60)
    assert [trim.name for trim in world.decide().found] == ["app.r.r0"]


def test_on_any_doubt_nothing_goes_and_it_is_said_why() -> None:
    world = TrimmedNode()
    world.says("q", 0, 40, 60)
    world.says("q", 1, 40, 60)
    assert world.decide().deletions == {}
    assert world.held_by() == [("r.r0 (has said nothing yet)",)] * 2
    world.says("r", 0, 40)
    assert world.decide().deletions == {OWN: 40, SOURCE: 40}
    world.log.broker.append(NewRecord(ACKS, b"garbage", b"q/1"))
    assert world.decide().deletions == {}
    assert world.held_by() == [("q.r1 (acknowledgement is garbage)",)] * 2


def test_a_replica_that_was_given_up_holds_nothing_until_it_speaks() -> None:
    world = TrimmedNode()
    world.all_say(40, published=60)
    world.says("q", 1, 10, number=2)
    assert world.decide().deletions == {OWN: 10, SOURCE: 10}
    world.log.broker.append(forget_record("app", "a1", ReplicaName("q", 1)))
    assert world.decide().deletions == {OWN: 40, SOURCE: 40}
    world.says("q", 1, 20, inc=2)
    assert world.decide().deletions == {OWN: 20, SOURCE: 20}


def test_acknowledgements_are_read_on_from_where_it_stopped_and_anew_in_a_topic_made_again() -> None:
    world = TrimmedNode()
    world.all_say(40, published=60)
    world.decide()
    world.log.broker.delete(ACKS.topic)
    world.log.broker.create(TopicSpec(ACKS.topic))
    assert world.decide().deletions == {}
    world.all_say(30, published=60)
    assert world.decide().deletions == {OWN: 30, SOURCE: 30}


def test_a_log_that_does_not_answer_is_an_error_and_deletes_nothing() -> None:
    world = TrimmedNode()
    world.all_say(40, published=60)
    world.log.cut("q")
    with pytest.raises(LogError):
        world.decide()


def test_topics_of_another_life_are_not_trimmed_by_offsets_of_this_one() -> None:
    """The topics were made again under the same names, and have grown as long as the old ones."""
    world = TrimmedNode()
    world.all_say(40, published=60)
    world.decide()
    world.describe("b2", FIRST)
    with pytest.raises(OtherLife):
        world.decide()


def test_what_was_decided_is_told_with_what_the_log_refused() -> None:
    world = TrimmedNode()
    world.all_say(40, published=60)
    own, source = world.decide().statuses({SOURCE: "not allowed"}, (), 7)
    assert (own.topic, own.below, own.held_by, own.refused) == (OWN.topic, FIRST + 40, ("q.r0", "q.r1", "r.r0"), "")
    assert (source.topic, source.below, source.refused) == ("s", 40, "not allowed")
    assert own.waits_since_wall_us == source.waits_since_wall_us == 0


def test_it_is_told_since_when_trimming_waits() -> None:
    world = TrimmedNode()
    first = world.decide().statuses({}, (), 7)
    second = world.decide().statuses({}, first, 9)
    assert [said.waits_since_wall_us for said in (*first, *second)] == [7] * 4
    world.all_say(40, published=60)
    assert [said.waits_since_wall_us for said in world.decide().statuses({}, second, 11)] == [0, 0]


class Failing:
    """A lookup that fails once, after so many records of a feed."""

    def __init__(self, of: Lookup, feed: Feed, after: int) -> None:
        self._of, self._feed, self._after, self._failed = of, feed, after, False

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        for n, record in enumerate(self._of.read(feed, first, end)):
            if feed == self._feed and n == self._after and not self._failed:
                self._failed = True
                raise LogUnreachable("cut off")
            yield record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def test_what_was_read_before_the_log_failed_is_not_taken_again() -> None:
    """Else one that was given up, and has spoken since, would be given up again: its word is not new any more."""
    world = TrimmedNode()
    world.all_say(40, published=60)
    world.log.broker.append(forget_record("app", "a1", ReplicaName("q", 1)))
    world.says("q", 1, 30, number=2)
    world.says("r", 0, 40, number=2)
    failing: Any = Failing(world.lookup, ACKS, 5)
    with pytest.raises(LogUnreachable):
        world.trimmer.decide(failing, Bucket(FIRST + LENGTH), (), lambda name: NEEDED)
    assert world.decide().deletions[SOURCE] == 30, "q.r1 reads from there"
