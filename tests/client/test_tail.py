"""The end of a source's log tells its whole fold, and never another one (A2.4, B5)."""

from __future__ import annotations

import random

import pytest

from borealis_py.client.claim import Claim
from borealis_py.client.tail import TAIL_RECORDS, SourceEnd, advanced, fold_at_end, source_end
from borealis_py.client.target import StreamFenced, StreamTaken, Target
from borealis_py.log.base import Record
from borealis_py.log.description import Life
from borealis_py.log.records import BatchHeader, ClaimHeader, pack, pack_stimes
from borealis_py.log.source_tail import TailEntry, entry_of, resumable
from borealis_py.simulation.log.network import CutDirection, cut_of
from sunion.model import FOREVER
from sunion.source import SourceFold
from tests.client.folded import AHEAD_MAX_US, T0, PublishedSource, W, row

TARGET = Target("a", "a1", "s", W, T0 // W, ahead_max_us=AHEAD_MAX_US)


def entries(*headers: ClaimHeader | BatchHeader) -> list[TailEntry]:
    found = [entry_of(Record(TARGET.feed, i, 0, None, pack(h), ()), Life("a1")) for i, h in enumerate(headers)]
    return [e for e in found if e is not None]


def whole(log: list[TailEntry]) -> SourceFold:
    state = SourceFold(T0)
    for entry in log:
        state = advanced(state, entry, TARGET)
    return state


def idle(epoch: int, uid: str, seq: int, boundary: int, read_to: int) -> BatchHeader:
    return BatchHeader("a1", epoch, uid, seq, b"", boundary, "json", read_to)


def test_one_boundary_tells_all_where_its_writer_had_read_what_lies_before() -> None:
    log = entries(ClaimHeader("a1", 1, "a"), idle(1, "a", 7, T0 + W, 1), idle(1, "a", 7, T0 + 2 * W, 2))
    assert fold_at_end(log[2:], 2, TARGET) == SourceFold(T0 + 2 * W, 1, "a", 6)


@pytest.mark.parametrize("boundary", [FOREVER + 1, 2 * FOREVER - 1, FOREVER - 1])
def test_a_boundary_that_none_can_reach_is_no_publishers(boundary: int) -> None:
    log = entries(ClaimHeader("a1", 1, "a"), idle(1, "a", 7, boundary, 1), idle(1, "a", 7, T0 + W, 1))
    assert fold_at_end(log, 0, TARGET) == SourceFold(T0 + W, 1, "a", -1)


def test_a_boundary_tells_nothing_where_a_claim_may_hide_before_it() -> None:
    log = entries(ClaimHeader("a1", 1, "a"), ClaimHeader("a1", 2, "b"), idle(1, "a", 7, T0 + W, 1))
    assert fold_at_end(log[2:], 2, TARGET) is None
    assert fold_at_end(log, 0, TARGET) == whole(log) == SourceFold(T0, 2, "b")


def test_a_zombie_whose_successor_can_be_seen_does_not_count() -> None:
    log = entries(
        ClaimHeader("a1", 1, "a"),
        BatchHeader("a1", 1, "a", 0, pack_stimes([T0] * 3), T0 + W, "json", 1),
        ClaimHeader("a1", 3, "b"),
        idle(1, "a", 9, T0 + 9 * W, 2),
        idle(3, "b", 3, T0 + 2 * W, 3),
    )
    assert fold_at_end(log[1:], 1, TARGET) == whole(log) == SourceFold(T0 + 2 * W, 3, "b", 2)
    assert fold_at_end(log[3:], 3, TARGET) == whole(log)


def test_a_record_without_a_boundary_does_not_tell() -> None:
    log = entries(ClaimHeader("a1", 1, "a"), BatchHeader("a1", 1, "a", 0, pack_stimes([T0]), None, "json", 1))
    assert fold_at_end(log[1:], 1, TARGET) is None


@pytest.mark.parametrize("seed", range(60))
def test_the_tail_says_what_the_whole_log_says_or_nothing(seed: int) -> None:
    """Publishers that fence each other, zombies that do not know it, and cut off ones that cannot: every suffix."""
    rng = random.Random(seed)
    world = PublishedSource(seed)
    live = {}
    for i in range(4):
        uid = f"p{i}"
        live[uid] = world.publisher(uid, take_over=True)
        for _ in range(rng.randrange(6)):
            world.run(rng.random() / 4)
            for other in live.values():
                if other.ready and not other.stopped:
                    other.send(row(1)) if rng.random() < 0.7 else other.reject(b"", "bad")
        if rng.random() < 0.4:
            world.memory.add_cut(uid, cut_of(way=CutDirection.IN))
    world.run(1)
    found = [entry_of(r, Life("a1")) for r in world.memory.committed(world.target.feed)]
    log = [e for e in found if e is not None]
    state = SourceFold(T0)
    for entry in log:
        state = advanced(state, entry, world.target)
    told = [fold_at_end(log[begin:], begin, world.target) for begin in range(len(log))]
    for fold in told:
        assert fold is None or (fold.boundary, fold.epoch, fold.owner, fold.last_seq) == (
            state.boundary,
            state.epoch,
            state.owner,
            state.last_seq,
        )
    assert sum(fold is not None for fold in told) > 1
    last = max(begin for begin, fold in enumerate(told) if fold is not None)
    for begin, fold in enumerate(told):
        assert resumable(log[begin:], begin) == (None if fold is None else last)


def test_a_start_reads_the_end_of_a_long_log_and_not_all_of_it() -> None:
    world = PublishedSource()
    first = world.ready("p")
    first.send(row(0))
    world.run(40)
    end = world.memory.broker.partition(world.target.feed).stable_end
    assert end > 4 * TAIL_RECORDS
    world.memory.kill("p")
    first.stop()
    second = world.publisher("q")
    assert second.session.source.claim.begin == end - TAIL_RECORDS
    world.run(3)
    assert second.ready
    assert second.session.source.claim.begin == end - TAIL_RECORDS
    assert second.last_seq == 0


def test_a_claim_is_numbered_above_the_logs_end() -> None:
    claim = Claim(TARGET, "u", 0, 0)
    claim.read([], 0, 0)
    (claimed,) = claim.claims(0)
    assert claim.epoch == 1
    assert claimed.timestamp_ms == T0 // 1000, "that of the first bucket that is open, whatever the clock says"
    later = Claim(TARGET, "v", 0, 3, take_over=True)
    log = [pack(ClaimHeader("a1", 1, "u")), pack(idle(1, "u", 0, T0 + W, 1)), b"garbage"]
    later.read([Record(TARGET.feed, i, 0, None, value, ()) for i, value in enumerate(log)], 3, 0)
    later.claims(0)
    assert later.epoch == 4


def own(claim: Claim, offset: int, *headers: ClaimHeader | BatchHeader) -> int:
    """The claim reads these records, which begin at an offset. Returns the offset after them."""
    records = [Record(TARGET.feed, offset + n, 0, None, pack(header), ()) for n, header in enumerate(headers)]
    claim.read(records, offset + len(records), 0)
    return offset + len(records)


def test_a_take_over_that_others_are_faster_than_is_tried_again_and_not_for_ever() -> None:
    claim, at = Claim(TARGET, "u", 0, 0, take_over=True), 0
    claim.read([], 0, 0)
    for _ in range(4):
        assert len(claim.claims(0)) == 1
        at = own(claim, at, ClaimHeader("a1", claim.epoch, "faster"), ClaimHeader("a1", claim.epoch, "u"))
        assert not claim.ready
    assert len(claim.claims(0)) == 1
    with pytest.raises(StreamTaken, match="uid faster"):
        own(claim, at, ClaimHeader("a1", claim.epoch, "faster"), ClaimHeader("a1", claim.epoch, "u"))


def test_an_owner_is_fenced_by_a_newer_claim_unless_its_own_end_lies_before_it() -> None:
    def owner() -> Claim:
        claim = Claim(TARGET, "u", 0, 0)
        claim.read([], 0, 0)
        claim.claims(0)
        own(claim, 0, ClaimHeader("a1", 1, "u"))
        assert claim.ready
        return claim

    newer = ClaimHeader("a1", 3, "v")
    with pytest.raises(StreamFenced, match="uid v"):
        own(owner(), 1, idle(1, "u", 0, T0 + W, 1), newer)
    with pytest.raises(StreamFenced, match="uid v"):
        own(owner(), 1, idle(2, "zombie", 0, FOREVER, 1), newer)
    done = owner()
    own(done, 1, idle(1, "u", 0, FOREVER, 1), newer)
    assert done.ready


def copied(epoch: int, uid: str, read_to: int, *at: tuple[int, int]) -> BatchHeader:
    return BatchHeader("a1", epoch, uid, 0, b"", T0, "arrow", read_to, (), at)


def test_the_last_record_that_counts_tells_how_far_an_ingress_has_copied() -> None:
    log = entries(
        ClaimHeader("a1", 1, "a"),
        copied(1, "a", 1, (0, 5), (1, 9)),
        ClaimHeader("a1", 3, "b"),
        copied(1, "a", 2, (0, 50), (1, 90)),  # a zombie's
        copied(3, "b", 3, (0, 6), (1, 9)),
        idle(3, "b", 0, T0, 3),  # not an ingress's
    )
    ends = [source_end(log[begin:], begin, TARGET) for begin in range(len(log))]
    assert [end and end.at for end in ends] == [{0: 6, 1: 9}] * 4 + [None, None]
    assert source_end(log[:4], 0, TARGET) == SourceEnd(SourceFold(T0, 3, "b"), {0: 5, 1: 9})
    assert source_end(log[:1], 0, TARGET) == SourceEnd(SourceFold(T0, 1, "a"), None)
