"""The fold of a source's log, row by row of its table (A2.2)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunion.model import FOREVER, Reject, SourceRecord
from sunion.source import NOTHING, Accepted, SourceFold, fold
from tests.sunion.lists import AHEAD_US, BUCKETS, OPS, W, bad, batch, claim, end

OWNED = SourceFold(boundary=2 * W, epoch=3, owner="a", last_seq=9)


def judge(state: SourceFold, record: SourceRecord, ahead: int = AHEAD_US) -> tuple[SourceFold, Accepted]:
    return fold(state, record, BUCKETS, OPS, "s0", ahead)


def test_a_higher_claim_takes_the_stream_and_keeps_seq_and_boundary() -> None:
    after, accepted = judge(OWNED, claim(0, 4, "b"))
    assert after == replace(OWNED, epoch=4, owner="b")
    assert accepted == NOTHING


@pytest.mark.parametrize(("epoch", "uid"), [(3, "b"), (3, "a"), (2, "b")])
def test_a_claim_that_is_not_higher_changes_nothing(epoch: int, uid: str) -> None:
    assert judge(OWNED, claim(0, epoch, uid)) == (OWNED, NOTHING)


@pytest.mark.parametrize(("epoch", "uid"), [(2, "a"), (3, "b"), (4, "a"), (0, "")])
def test_a_record_of_anybody_but_the_owner_is_fenced_after_its_end_too(epoch: int, uid: str) -> None:
    record = batch(0, 10, [(2 * W, 1), (2 * W, 2)], boundary=9 * W, epoch=epoch, uid=uid)
    for state in (OWNED, replace(OWNED, boundary=FOREVER)):
        assert judge(state, record) == (state, Accepted(fenced=2))


def test_a_source_that_nobody_has_claimed_has_no_owner() -> None:
    """An epoch of 0 and no uid are what the fold begins with: not even who writes just those owns it."""
    new = SourceFold(boundary=2 * W)
    assert judge(new, batch(0, 0, [(2 * W, 1)], boundary=9 * W, epoch=0, uid="")) == (new, Accepted(fenced=1))


@pytest.mark.parametrize("state", [OWNED, replace(OWNED, boundary=FOREVER), SourceFold(boundary=0)])
def test_a_record_of_another_life_says_nothing_whatever_it_is(state: SourceFold) -> None:
    said = batch(0, 10, [(2 * W, 1)], boundary=9 * W, epoch=3, uid="a")
    for record in (claim(0, 99, "b"), said, bad(0)):
        assert judge(state, replace(record, foreign=True)) == (state, Accepted(foreign=1))


def test_a_tuple_of_the_owner_is_taken_once() -> None:
    record = batch(0, 10, [(2 * W, 7)], epoch=3)
    after, accepted = judge(OWNED, record)
    assert after.last_seq == 10
    assert accepted.rows == ((2, ((2 * W, 7),), 1),)
    again, repeated = judge(after, record)
    assert again == after
    assert (repeated.rows, repeated.duplicates) == ((), 1)


def test_seq_decides_what_is_a_duplicate_and_stime_does_not() -> None:
    after, accepted = judge(OWNED, batch(0, 9, [(5 * W, 7), (5 * W, 8)], epoch=3))
    assert accepted.duplicates == 1
    assert accepted.rows == ((5, ((5 * W, 8),), 1),)
    assert after.last_seq == 10


def test_a_late_tuple_is_a_dead_letter_and_does_not_use_its_seq_up() -> None:
    after, accepted = judge(OWNED, batch(0, 10, [(2 * W - 1, 7)], epoch=3))
    assert after == OWNED
    assert (accepted.late, accepted.rows, accepted.reject_bucket) == (1, (), 2)
    assert accepted.rejects[0].reason.startswith("late: tuple 10")


@pytest.mark.parametrize(("stime", "taken"), [(2 * W + 499, True), (2 * W + 500, False)])
def test_a_tuple_too_far_ahead_is_a_dead_letter_and_uses_its_seq_up(stime: int, taken: bool) -> None:
    after, accepted = judge(OWNED, batch(0, 10, [(stime, 7)], epoch=3), ahead=500)
    assert after.last_seq == 10
    assert bool(accepted.rows) is taken
    assert [r.reason.partition(":")[0] for r in accepted.rejects] == ([] if taken else ["future"])


@pytest.mark.parametrize(("boundary", "closed"), [(2 * W + 1, 2), (3 * W - 1, 2), (3 * W, 3), (W, 2), (2 * W, 2)])
def test_a_boundary_only_rises(boundary: int, closed: int) -> None:
    after, _ = judge(OWNED, batch(0, 10, boundary=boundary, epoch=3))
    assert after.boundary == max(OWNED.boundary, boundary)
    assert BUCKETS.closed_by(after.boundary) == closed


def test_a_records_own_boundary_does_not_make_its_tuples_late() -> None:
    after, accepted = judge(OWNED, batch(0, 10, [(2 * W + 5, 1)], boundary=3 * W, epoch=3))
    assert accepted.rows == ((2, ((2 * W + 5, 1),), 1),)
    assert after.boundary == 3 * W


def test_end_closes_the_source() -> None:
    after, _ = judge(OWNED, replace(end(0), epoch=3))
    assert after.ended
    assert not OWNED.ended
    assert after.boundary == FOREVER


def test_a_batch_over_several_buckets_is_split_and_keeps_its_order() -> None:
    record = batch(0, 10, [(2 * W, 1), (2 * W + 1, 2), (4 * W, 3)], epoch=3)
    after, accepted = judge(OWNED, record)
    assert accepted.rows == ((2, ((2 * W, 1), (2 * W + 1, 2)), 2), (4, ((4 * W, 3),), 1))
    assert (after.last_seq, accepted.top) == (12, 4)


def test_what_is_no_record_of_ours_is_a_dead_letter_of_the_first_open_bucket() -> None:
    after, accepted = judge(OWNED, bad(5))
    assert after == OWNED
    assert (accepted.rejects, accepted.reject_bucket, accepted.top) == (bad(5).rejects, 2, 2)


def test_a_batch_of_nothing_but_bad_tuples_still_carries_its_boundary() -> None:
    wrong = (Reject("s0", 0, "malformed: tuple 10"),)
    after, accepted = judge(OWNED, batch(0, 10, boundary=3 * W, epoch=3, rejects=wrong))
    assert (after.boundary, accepted.rejects, accepted.reject_bucket) == (3 * W, wrong, 2)


@pytest.mark.parametrize(
    "record", [bad(7), batch(7, 10, [(5 * W, 1)], epoch=3), batch(7, 10, epoch=3, rejects=(Reject("s0", 7, "x"),))]
)
def test_nothing_that_follows_end_belongs_to_a_bucket(record: SourceRecord) -> None:
    """After END no bucket is open: a replica may have said all of them already, so filing one would split replicas."""
    ended = replace(OWNED, boundary=FOREVER)
    after, accepted = judge(ended, record)
    assert after == ended
    assert (accepted.rows, accepted.rejects, accepted.top) == ((), (), None)
    assert accepted.after_end == 1


rows = st.lists(st.tuples(st.integers(0, 6 * W), st.integers(0, 99)), max_size=4)
records = st.lists(
    st.one_of(
        st.builds(claim, st.just(0), st.integers(1, 4), st.sampled_from("ab")),
        st.builds(
            batch,
            st.just(0),
            st.integers(0, 12),
            rows,
            st.none() | st.integers(0, 6 * W),
            st.integers(1, 4),
            st.sampled_from("ab"),
        ),
        st.builds(bad, st.just(0)),
    ),
    max_size=20,
)


@given(records)
def test_the_fold_never_goes_back_and_never_takes_a_seq_twice(log: list[SourceRecord]) -> None:
    state, seen = SourceFold(boundary=0), 0
    for record in log:
        after, accepted = judge(state, record)
        assert after.boundary >= state.boundary
        assert after.epoch >= state.epoch
        assert after.last_seq >= state.last_seq
        for bucket, taken, count in accepted.rows:
            assert len(taken) == count
            assert all(BUCKETS.of(stime) == bucket and stime >= state.boundary for stime, _ in taken)
            seen += count
        state = after
    assert seen <= state.last_seq + 1


@given(records)
def test_reading_a_log_in_one_go_or_resuming_at_any_offset_is_the_same(log: list[SourceRecord]) -> None:
    states, contributions = [SourceFold(boundary=0)], []
    for record in log:
        after, accepted = judge(states[-1], record)
        states.append(after)
        contributions.append(accepted)
    middle = len(log) // 2
    state = states[middle]
    for record, expected in zip(log[middle:], contributions[middle:], strict=True):
        state, accepted = judge(state, record)
        assert accepted == expected
    assert state == states[-1]
