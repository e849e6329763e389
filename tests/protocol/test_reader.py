"""A reader of all replicas: first stable word wins, cursors wait, zombies are ignored, feeds are awaited."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.protocol.stream_view import StreamView
from sunion.errors import RetentionLost
from sunion.model import GapRange, Kind, Output, RecDone, StableBucket, StableRange, StreamRecord, TentativeBucket, Undo
from sunion.view import Change
from tests.sunion.lists import BUCKETS, W

WAIT = 700_000


def out(value: int) -> Output:
    return Output(((0, value),))


def stable(b: int, value: int = 0, inc: int = 1, held: int = 0) -> StableBucket:
    return StableBucket(inc, b, out(value or b), held)


def tentative(b: int, value: int = -1, inc: int = 1, missing_sources: tuple[str, ...] = ("s1",), held: int = 0):
    return TentativeBucket(
        inc=inc,
        bucket=b,
        output=out(value),
        missing_sources=missing_sources,
        missing=missing_sources,
        waited_us=held,
        completeness=0.5,
        diverged_from=0,
    )


def reader(replicas: int = 2, start: int = 0) -> StreamView:
    return StreamView("delays", replicas, start, BUCKETS, WAIT)


def kinds(changes: list[Change]) -> list[tuple[Kind, int, int]]:
    return [(c.kind, c.bucket, c.end) for c in changes]


def test_a_stable_bucket_is_taken_from_whoever_says_it_first() -> None:
    made = reader()
    assert kinds(made.read(0, [(1, stable(0)), (0, stable(0)), (0, stable(1))])) == [
        (Kind.STABLE, 0, 1),
        (Kind.STABLE, 1, 2),
    ]
    assert made.read(1, [(1, stable(1))]) == []


def test_a_range_is_stable_and_empty_and_may_overlap_what_is_known() -> None:
    made = reader()
    made.read(0, [(0, StableRange(1, 0, 3))])
    assert kinds(made.read(0, [(1, StableRange(1, 1, 6))])) == [(Kind.BOUNDARY, 3, 6)]


def test_a_cursor_beyond_the_next_bucket_waits_while_the_others_go_on() -> None:
    made = reader()
    assert made.read(0, [(0, stable(2)), (0, tentative(3))]) == []
    assert kinds(made.read(1, [(1, stable(0)), (1, StableRange(1, 1, 2))])) == [
        (Kind.STABLE, 0, 1),
        (Kind.BOUNDARY, 1, 2),
        (Kind.STABLE, 2, 3),
    ]


def test_when_every_cursor_waits_retention_has_eaten_the_bucket() -> None:
    made = reader()
    made.read(0, [(0, stable(5))])
    with pytest.raises(RetentionLost, match="stream delays: retention has deleted bucket 0"):
        made.read(1, [(1, StableRange(1, 4, 6))])


def test_marks_of_replicas_are_not_passed_on() -> None:
    made = reader()
    assert made.read(0, [(0, Undo(1, 0)), (0, RecDone(1, 0))]) == []
    assert made.show(10**12) == []


def test_undo_comes_before_the_first_correction_and_rec_done_after_the_last() -> None:
    made = reader(1)
    made.read(0, [(0, tentative(0)), (0, tentative(1))])
    assert kinds(made.show(10)) == [(Kind.TENTATIVE, 0, 1), (Kind.TENTATIVE, 1, 2)]
    changes = made.read(20, [(0, stable(0)), (0, stable(1))])
    assert kinds(changes) == [(Kind.UNDO, 0, 0), (Kind.STABLE, 0, 1), (Kind.STABLE, 1, 2), (Kind.REC_DONE, 2, 2)]


def test_a_feed_that_may_still_say_it_stably_is_awaited() -> None:
    made = reader()
    made.read(0, [(0, tentative(0, held=0))])
    at = made.ready_at()
    assert at is not None
    assert at > 0
    assert made.show(at - 1) == []
    assert kinds(made.read(at - 1, [(1, stable(0))])) == [(Kind.STABLE, 0, 1)]  # no needless tentative


def test_an_awaited_feed_is_given_up_after_d_and_then_late() -> None:
    made = reader()
    made.read(0, [(0, tentative(0, held=300_000))])
    assert made.ready_at() == -300_000 + WAIT  # end of the bucket as upstream saw it, plus D
    assert kinds(made.show(WAIT - 300_000)) == [(Kind.TENTATIVE, 0, 1)]
    made.read(WAIT, [(0, tentative(1))])
    assert kinds(made.show(WAIT)) == [(Kind.TENTATIVE, 1, 2)]  # replica 1 is late: not waited for again


def test_waiting_counts_from_the_bucket_s_end_although_upstream_did_not_wait() -> None:
    made = reader()
    made.read(10 * W, [(0, tentative(0))])
    assert made.ready_at() == 10 * W + WAIT


def test_who_spoke_while_it_was_late_is_awaited_again_once_all_is_stable() -> None:
    made = reader()
    made.read(0, [(0, tentative(0, held=300_000))])
    made.show(WAIT - 300_000)
    now = WAIT
    for said in ((0, stable(0)), (1, stable(0)), (0, stable(1))):
        made.read(now, [said])
    assert made.live == made.next == 2
    made.read(now, [(0, tentative(2))])
    assert made.show(now) == [], "replica 1 may say it stably"


def test_who_corrects_the_last_tentative_bucket_is_awaited_again_at_once() -> None:
    made = reader()
    made.read(0, [(0, tentative(0, held=300_000))])
    made.show(WAIT - 300_000)
    made.read(WAIT, [(1, stable(0)), (0, tentative(1))])
    assert made.live == made.next == 1
    assert made.show(WAIT) == []
    assert kinds(made.read(WAIT + 1, [(1, stable(1))])) == [(Kind.STABLE, 1, 2)]


def test_who_is_silent_stays_late_when_all_is_stable() -> None:
    made = reader()
    made.read(0, [(0, tentative(0, held=300_000))])
    made.show(WAIT - 300_000)
    made.read(WAIT, [(0, stable(0)), (0, stable(1)), (0, tentative(2))])
    assert kinds(made.show(WAIT)) == [(Kind.TENTATIVE, 2, 3)]


def lost_from_1_to_3() -> StreamView:
    """Replica 0 said bucket 0 and ended; replica 1 has begun with bucket 3, and buckets 1 and 2 are lost."""
    made = reader()
    assert kinds(made.read(0, [(0, stable(0)), (1, GapRange(1, 1, 3))])) == [(Kind.STABLE, 0, 1), (Kind.GAP, 1, 3)]
    return made


def test_what_stands_on_lost_buckets_is_shown_at_once() -> None:
    made = lost_from_1_to_3()
    made.read(0, [(1, replace(tentative(b), completeness=0.0, diverged_from=1)) for b in (3, 4)])
    assert kinds(made.show(0)) == [(Kind.TENTATIVE, 3, 4), (Kind.TENTATIVE, 4, 5)]
    assert kinds(made.read(1, [(1, GapRange(1, 3, 5)), (1, stable(5))])) == [(Kind.GAP, 3, 5), (Kind.STABLE, 5, 6)]


def test_what_stands_on_a_missing_input_alone_waits_behind_a_gap_too() -> None:
    made = lost_from_1_to_3()
    made.read(0, [(1, replace(tentative(3), diverged_from=3))])
    assert made.show(0) == [], "replica 0 may say it stably"


def test_once_a_bucket_is_stable_behind_a_gap_tentative_ones_wait_again() -> None:
    made = lost_from_1_to_3()
    made.read(0, [(1, stable(3)), (1, replace(tentative(4), diverged_from=1))])
    assert made.show(0) == [], "replica 0 may say it stably"


def test_a_replica_that_speaks_tentatively_is_not_awaited() -> None:
    made = reader()
    made.read(0, [(0, tentative(0)), (1, tentative(0))])
    assert kinds(made.show(0)) == [(Kind.TENTATIVE, 0, 1)]
    made.read(0, [(0, tentative(1))])
    assert kinds(made.show(0)) == [(Kind.TENTATIVE, 1, 2)], "its last word was tentative"


def test_a_bucket_that_no_replica_has_is_passed_over() -> None:
    made = reader(1)
    made.read(0, [(0, tentative(0)), (0, tentative(2))])
    assert kinds(made.show(1)) == [(Kind.TENTATIVE, 0, 1)]
    end = W + WAIT
    assert kinds(made.show(end)) == [(Kind.TENTATIVE, 2, 3)]
    assert made.live == 3


def test_the_tentative_bucket_that_lacks_least_is_shown() -> None:
    made = reader(3)
    made.read(0, [(0, tentative(0, 10, missing_sources=("a", "b"))), (1, tentative(0, 11, missing_sources=("a",)))])
    made.read(0, [(2, tentative(0, 12, missing_sources=("b",)))])
    (change,) = made.show(0)
    assert (change.output, change.missing_sources, change.completeness, change.diverged_from) == (
        out(11),
        ("a",),
        0.5,
        0,
    )


@pytest.mark.parametrize(
    "newer",
    [stable(0, inc=2), StableRange(2, 0, 1), Undo(2, 0), tentative(0, inc=2)],
    ids=["stable", "range", "undo", "tentative"],
)
def test_tentative_records_of_a_zombie_are_ignored_whatever_its_successor_wrote(newer: StreamRecord) -> None:
    made = reader(1)
    made.read(0, [(0, newer), (0, tentative(1, inc=1))])
    assert [c for c in made.show(10**9) if c.bucket == 1 and c.kind is Kind.TENTATIVE] == []


def test_stable_records_of_a_zombie_are_as_good_as_any() -> None:
    made = reader(1)
    assert kinds(made.read(0, [(0, Undo(2, 0)), (0, stable(0, inc=1))])) == [(Kind.STABLE, 0, 1)]


def test_tentative_rows_of_a_bucket_that_became_stable_are_dropped() -> None:
    made = reader()
    made.read(0, [(0, tentative(0)), (1, stable(0))])
    assert made.live == 1
    assert made.show(10**12) == []


def test_end_creates_no_bucket() -> None:
    made = reader(1)
    made.read(0, [(0, StableRange(1, 0, BUCKETS.last))])
    assert (made.next, made.ready_at()) == (BUCKETS.last, None)


@st.composite
def topics(draw: st.DrawFn) -> list[list[StreamRecord]]:
    """What replicas of one stream may say: stable in order with repeats, tentative anywhere ahead."""
    made = []
    for _ in range(draw(st.integers(1, 3))):
        at, live, topic = 0, 0, []
        for _ in range(draw(st.integers(0, 14))):
            what = draw(st.sampled_from(["stable", "range", "tentative", "again"]))
            if what == "stable":
                topic.append(stable(at, at + 1))
                at += 1
            elif what == "range":
                end = at + draw(st.integers(1, 3))
                topic += [stable(b, b + 1) for b in range(at, end)]
                at = end
            elif what == "tentative":
                live = max(live, at)
                topic.append(tentative(live, -live - 1))
                live += 1
            elif at:
                again = draw(st.integers(0, at - 1))
                topic += [stable(b, b + 1) for b in range(again, at)]
        made.append(topic)
    return made


@given(topics(), st.randoms(use_true_random=False))
def test_the_picture_is_the_same_whatever_order_the_topics_are_read_in(
    said: list[list[StreamRecord]], random: object
) -> None:
    made, now = reader(len(said)), 0
    pending, picture, stable_rows = [list(topic) for topic in said], {}, []
    changes: list[Change] = []
    while any(pending):
        k = random.choice([i for i, topic in enumerate(pending) if topic])  # type: ignore[attr-defined]
        now += random.choice([0, 10_000, 300_000])  # type: ignore[attr-defined]
        changes += made.read(now, [(k, pending[k].pop(0))])
        changes += made.show(now)
    for change in changes:
        if change.kind in (Kind.STABLE, Kind.BOUNDARY):
            stable_rows.append((change.bucket, change.output))
            picture[change.bucket] = "stable"
        elif change.kind is Kind.TENTATIVE:
            assert picture.get(change.bucket) is None, "a bucket was shown twice, or below the stable frontier"
            picture[change.bucket] = "tentative"
    end = max((r.bucket + 1 for t in said for r in t if isinstance(r, StableBucket)), default=0)
    assert stable_rows == [(b, out(b + 1)) for b in range(end)]
    assert all(what == "stable" for b, what in picture.items() if b < end)


def test_a_bucket_on_its_way_is_not_given_up_just_before_it_comes() -> None:
    """Found by the simulator (seed 17): replicas and clients wait the same D, so the client was a moment too early."""
    made = reader(replicas=1)
    made.read(0, [(0, stable(0))])  # creates bucket 1
    too_early = W + WAIT + 1
    assert made.show(too_early) == []
    made.read(too_early + 50_000, [(0, tentative(1, held=WAIT))])
    assert kinds(made.show(too_early + 50_000)) == [(Kind.TENTATIVE, 1, 2)]
