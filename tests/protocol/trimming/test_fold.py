"""What acknowledgements mean, read one after the other (R16.10), and what is said of doubts."""

from __future__ import annotations

from borealis_py.protocol.trimming.fold import SENT_MAX, SILENCE_US, AckFold
from borealis_py.protocol.trimming.limit import Graph, NodeReads, Retain, TrimLimit, source_limit, stream_limit
from borealis_py.protocol.trimming.need import KeptCheckpoint, Need, Needs, ReplicaName, least
from sunion.bucket import Buckets
from sunion.model import FOREVER

A, B, C = ReplicaName("a", 0), ReplicaName("a", 1), ReplicaName("b", 0)
GRAPH = Graph({"a": NodeReads(2, ("s",)), "b": NodeReads(1, (), ("a",))})


def need(bucket: int, inc: int = 1, number: int = 1, uid: str = "u", place: str = "m1") -> Need:
    offsets = {"s": 10 * bucket}
    return Need(inc=inc, uid=uid, number=number, bucket=bucket, offsets=offsets, place=place)


def fold(*said: tuple[ReplicaName, Need]) -> AckFold:
    it = AckFold(A)
    for name, one in said:
        it.read(name, one, 0)
    return it


def limits(needs: Needs) -> tuple[TrimLimit, TrimLimit]:
    return stream_limit(GRAPH, needs, "a", 100, 100), source_limit(GRAPH, needs, "s", 1_000, 1_000)


def test_the_least_decides_and_is_named() -> None:
    needs = fold((A, need(7)), (B, need(5)), (C, need(6))).needs()
    assert limits(needs) == (TrimLimit(5, ("a.r1",)), TrimLimit(50, ("a.r1",)))
    assert stream_limit(GRAPH, needs, "a", 4, 100) == TrimLimit(4, ("progress of a",))
    assert stream_limit(GRAPH, needs, "a", 5, 3) == TrimLimit(3, ("retain",))
    assert source_limit(GRAPH, needs, "s", 49, 1_000) == TrimLimit(49, ("publisher of s",))


def test_of_the_highest_incarnation_the_last_word_counts_whatever_arrives_when() -> None:
    it = fold((A, need(7, inc=2, number=2)))
    for old in (need(9, inc=1, number=9), need(8, inc=2, number=1), need(9, inc=2, number=3, uid="another")):
        it.read(A, old, 0)
        assert it.needs().said[A].bucket == 7
    it.read(A, need(3, inc=3), 0)
    assert it.needs().said[A].bucket == 3, "a new start may know of fewer checkpoints"


def test_who_is_not_believed_since_another_spoke_first_by_its_number_starts_again() -> None:
    """The other one may have ended for good: the log had deleted what both would have known each other by."""
    it = AckFold(A)
    mine = need(9, inc=2, uid="mine")
    it.sent(mine, 0)
    for word in (need(7, inc=2, uid="x"), mine):
        assert it.number_shared is None
        it.read(A, word, 1)
    assert it.number_shared == "replica 0: x has incarnation 2, too"


def test_who_reads_what_others_said_by_older_numbers_goes_on() -> None:
    it = AckFold(A)
    mine = need(9, inc=2, uid="mine")
    it.sent(mine, 0)
    for word in (need(7, inc=1, uid="x"), need(8, inc=1, uid="y"), mine, need(8, inc=2, uid="x")):
        it.read(A, word, 1)
    assert it.number_shared is None


def test_nothing_goes_while_anything_is_in_doubt_and_it_is_said_of_whom() -> None:
    unsaid = fold((A, need(7)), (C, need(6))).needs()
    assert limits(unsaid) == (TrimLimit(None, ("a.r1 (has said nothing yet)",)),) * 2
    garbage = fold((A, need(7)), (B, need(5)), (C, need(6)))
    garbage.doubt(B, "no acknowledgement")
    assert limits(garbage.needs()) == (TrimLimit(None, ("a.r1 (no acknowledgement)",)),) * 2
    garbage.read(B, need(6, number=2), 0)
    assert limits(garbage.needs())[0] == TrimLimit(6, ("a.r1", "b.r0"))
    stranger = fold((A, need(7)), (B, need(5)), (C, need(6)), (ReplicaName("a", 2), need(9))).needs()
    assert limits(stranger) == (TrimLimit(None, ("a.r2 (unknown replica)",)),) * 2
    fewer = fold((A, need(7)), (B, need(5)), (C, need(6)), (ReplicaName("a", 2), need(3)))
    fewer.forget(ReplicaName("a", 2))
    assert limits(fewer.needs())[0] == TrimLimit(5, ("a.r1",)), "the node has fewer replicas now, and a user said so"
    wordless = fold((A, need(7)), (B, Need(inc=1, uid="u", number=1, bucket=5, offsets={})), (C, need(6))).needs()
    assert limits(wordless)[1] == TrimLimit(None, ("a.r1 (says nothing of s)",))
    known = fold((A, need(7)), (B, need(5)), (C, need(6))).needs()
    assert stream_limit(GRAPH, known, "a", None, 100) == TrimLimit(None, ("progress of a",))
    assert source_limit(GRAPH, known, "s", None, 100) == TrimLimit(None, ("publisher of s",))
    assert source_limit(GRAPH, known, "other", 9, 9) == TrimLimit(None, ("readers of other",))


def silent(place: str, read_back_us: int) -> AckFold:
    """B was heard at 0 and keeps its checkpoints at `place`; A has read back what it sent at `read_back_us`."""
    it = fold((A, need(7)), (B, need(5, place=place)), (C, need(6)))
    said = need(8, number=2)
    it.sent(said, read_back_us)
    it.read(A, said, read_back_us + 10**12)
    return it


def test_after_an_hour_of_silence_a_live_peer_stands_for_a_replica_that_can_read_its_checkpoints() -> None:
    assert limits(silent("m1", SILENCE_US).needs())[1] == TrimLimit(80, ("a.r0",))
    assert limits(silent("m2", SILENCE_US).needs())[1] == TrimLimit(50, ("a.r1",)), "it could not read them"
    assert limits(silent("", SILENCE_US).needs())[1] == TrimLimit(50, ("a.r1",))


def test_silence_counts_only_up_to_what_was_sent_and_read_back() -> None:
    """A was away: what it sent before it went is no proof that B has been silent since."""
    assert silent("m1", SILENCE_US - 1).needs().silent == frozenset()
    assert limits(silent("m1", SILENCE_US - 1).needs())[1] == TrimLimit(50, ("a.r1",))


def test_a_replica_that_was_given_up_holds_nothing_until_it_speaks_or_nobody_else_lives() -> None:
    it = silent("m2", 0)
    it.forget(B)
    assert limits(it.needs())[1] == TrimLimit(80, ("a.r0",))
    it.forget(A)
    assert limits(it.needs())[1] == TrimLimit(50, ("a.r1",)), "nobody lives: all hold"
    it.read(A, need(9, number=3), 0)
    it.read(B, need(6, number=2), 0)
    assert limits(it.needs())[1] == TrimLimit(60, ("a.r1",))


def test_a_start_may_need_the_origin_unless_enough_checkpoints_are_kept() -> None:
    kept = [KeptCheckpoint(9, (30, 5)), KeptCheckpoint(7, (20, 6)), KeptCheckpoint(8, (25, 6))]
    assert least(kept, 2, 2, 3) == KeptCheckpoint(7, (20, 5))
    assert least(kept[:2], 2, 2, 3) == KeptCheckpoint(2, (0, 0))


def test_a_duration_keeps_whole_buckets_behind_the_frontier() -> None:
    buckets = Buckets(100_000)
    assert [Retain(us).bucket(50, buckets) for us in (None, 0, 1, 100_000, 250_000)] == [None, 50, 49, 49, 47]


def test_what_never_comes_back_is_not_remembered_for_ever() -> None:
    it = AckFold(A)
    for number in range(1, 10 * SENT_MAX):
        it.sent(need(7, number=number), number)
    assert len(it._sent_us) == SENT_MAX
    it.read(A, need(7, number=10 * SENT_MAX - 1), 10**9)
    assert it._read_back_us == 10 * SENT_MAX - 1


def test_after_end_what_is_kept_by_time_stays_and_the_rest_goes_as_ever() -> None:
    buckets = Buckets(100_000)
    end = buckets.of(FOREVER)
    assert Retain(3_600_000_000).bucket(end - 1, buckets) == end - 1 - 36_000
    assert Retain(3_600_000_000).bucket(end, buckets) is None
    assert Retain(0).bucket(end, buckets) == end
