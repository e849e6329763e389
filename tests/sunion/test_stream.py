"""Reading a replicated stream: first stable word wins, cursors wait, tentative ones are picked by what they lack."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunion.errors import RetentionLost
from sunion.model import Input, Output, RecDone, StableBucket, StableRange, StreamRecord, TentativeBucket, Undo
from sunion.stream_fold import FeedProgress, Stable, StreamFold
from sunion.union import SUnion
from tests.sunion.lists import AHEAD_US, BUCKETS, OPS, W, batch, claim


def out(value: int) -> Output:
    return Output(((value * W, value),))


def stable(bucket: int, inc: int = 1, held: int = 0) -> StableBucket:
    return StableBucket(inc, bucket, out(bucket), held)


def tentative(
    bucket: int, *missing_sources: str, inc: int = 1, completeness: float = 0.5, value: int = 77
) -> TentativeBucket:
    return TentativeBucket(
        inc=inc,
        bucket=bucket,
        output=Output(((bucket * W, value),)),
        missing_sources=missing_sources,
        missing=missing_sources,
        waited_us=0,
        completeness=completeness,
        diverged_from=bucket,
    )


def test_a_stable_bucket_is_taken_from_whoever_says_it_first() -> None:
    fold = StreamFold("s", 2, 0)
    said = fold.read([(1, stable(0)), (0, stable(0)), (0, stable(1))])
    assert [s for s in said if isinstance(s, Stable)] == [Stable(0, 1, out(0)), Stable(1, 2, out(1))]
    words = {s for s in said if isinstance(s, FeedProgress)}
    assert words == {FeedProgress(1, 0, False, 0), FeedProgress(0, 0, False, 0), FeedProgress(0, 1, False, 0)}
    assert fold.next == 2


def test_what_a_repeat_was_held_does_not_count() -> None:
    """A replica that was away says late what a peer has said in time: its own wait says nothing of the next bucket."""
    said = StreamFold("s", 2, 0).read([(0, stable(0, held=30)), (1, stable(0, held=900_000))])
    assert [(s.replica, s.waited_us) for s in said if isinstance(s, FeedProgress)] == [(0, 30), (1, 0)]


def test_what_has_no_rows_weighs_nothing() -> None:
    fold = StreamFold("s", 1, 0, len)
    assert [fold.count(record) for record in (StableRange(1, 0, 9), StableBucket(1, 0, Output()), stable(0))] == [
        0,
        0,
        1,
    ]
    assert StreamFold("s", 1, 0).count(stable(0)) == 0


def test_a_cursor_beyond_the_next_bucket_waits_for_the_others() -> None:
    fold = StreamFold("s", 2, 0)
    assert fold.read([(0, stable(2))]) == []
    assert fold.waits(0)
    assert not fold.waits(1)
    fold.read([(1, StableRange(1, 0, 2))])
    assert fold.next == 3
    assert not fold.waits(0)


def test_rows_at_a_waiting_cursor_count_until_they_are_taken() -> None:
    fold = StreamFold("s", 2, 0, len)
    fold.read([(0, stable(b)) for b in (3, 4, 5)])
    assert fold.waiting_rows == 3
    fold.read([(0, stable(6)), (1, StableRange(1, 0, 3))])
    assert (fold.next, fold.waiting_rows) == (7, 0)
    fold.read([(0, stable(9))])
    assert fold.waiting_rows == 1


def test_a_bucket_that_was_dropped_is_read_again_when_it_is_next() -> None:
    fold = StreamFold("s", 1, 0, len)
    fold.read([(0, replace(tentative(b, "a"), offset=b)) for b in range(4)])
    fold.drop(2)
    fold.passed(2)
    assert fold.again(2) == [(0, 2)]
    fold.drop(3)
    fold.passed(4)
    assert fold.again(3) == [], "it has run"


def test_all_cursors_beyond_the_next_bucket_are_an_error() -> None:
    fold = StreamFold("s", 2, 0)
    with pytest.raises(RetentionLost, match="stream s: retention has deleted bucket 0 from every replica's topic"):
        fold.read([(0, stable(2)), (1, StableRange(1, 1, 9))])


def test_the_tentative_bucket_that_lacks_least_is_used_then_the_lowest_replica() -> None:
    fold = StreamFold("s", 3, 0)
    fold.read([(2, tentative(0, "a", value=2)), (1, tentative(0, "a", value=1)), (0, tentative(0, "a", "b", value=0))])
    picked = fold.pick(0)
    assert picked is not None
    assert picked.output.rows == ((0, 1),)


def test_the_most_complete_tentative_bucket_is_used_whatever_it_names() -> None:
    fold = StreamFold("s", 2, 0)
    fold.read([(0, tentative(0, "a", completeness=0.25)), (1, tentative(0, "a", "b", completeness=0.75, value=1))])
    picked = fold.pick(0)
    assert picked is not None
    assert picked.output.rows == ((0, 1),)


def test_stable_words_and_the_owners_frontier_drop_tentative_rows() -> None:
    fold = StreamFold("s", 1, 0)
    fold.read([(0, tentative(b, "a")) for b in range(4)])
    fold.passed(2)
    assert sorted(fold.tentative) == [2, 3]
    fold.read([(0, StableRange(1, 0, 3))])
    assert sorted(fold.tentative) == [3]


def one_each(rows: object) -> int:
    return len(rows)  # type: ignore[arg-type]


def test_what_is_dropped_is_told_when_its_turn_comes() -> None:
    fold = StreamFold("s", 2, 0, one_each)
    fold.read([(k, replace(tentative(b, "a"), offset=100 * k + b)) for b in range(6) for k in (0, 1)])
    assert fold.tentative_rows == 12
    assert [fold.drop(b) for b in (5, 4, 3, 2)] == [2] * 4
    assert (fold.tentative_rows, sorted(fold.tentative)) == (4, [0, 1])
    assert fold.again(1) == []
    assert fold.again(2) == [(0, 2), (1, 102)]
    assert fold.again(2) == [], "asked for once"
    fold.drop(1)
    fold.drop(0)
    assert fold.again(1) == [(0, 0), (1, 100)], "the highest of those that were dropped since is one of them"


def test_what_became_stable_meanwhile_is_not_read_again() -> None:
    fold = StreamFold("s", 1, 0, one_each)
    fold.read([(0, replace(tentative(b, "a"), offset=b)) for b in range(6)])
    for bucket in (5, 4, 3, 2):
        fold.drop(bucket)
    fold.read([(0, StableRange(1, 0, 4))])
    assert (fold.again(3), fold.again(4)) == ([], [(0, 2)])
    fold.read([(0, tentative(4, "a")), (0, StableRange(1, 4, 6))])
    assert (fold.again(5), fold.tentative_rows) == ([], 0)


def test_what_is_read_again_is_no_zombies_if_it_was_none_before() -> None:
    """Its writer has died since, and its successor has not said that bucket yet."""
    fold = StreamFold("s", 1, 0, one_each)
    log = [
        replace(tentative(b, "a", inc=inc), offset=at) for at, (inc, b) in enumerate([(1, 4), (1, 5), (2, 1), (1, 3)])
    ]
    fold.read([(0, record) for record in log])
    fold.drop(5)
    fold.drop(4)
    assert fold.again(4) == [(0, 0)]
    fold.read([(0, record) for record in log])
    assert sorted(fold.tentative) == [1, 4, 5], "what the dead one said of bucket 3 after that is still nothing"


def test_the_farthest_tentative_rows_are_dropped_and_never_those_that_are_used_next() -> None:
    """Bucket 0 of the first stream takes nearly all there is room for."""
    union = SUnion([Input("s", 3, ("a",)), Input("t", 1, ("b",))], 0, BUCKETS, OPS, ahead_max_us=AHEAD_US)
    union.feed_stream(0, [(k, tentative(0, "a")) for k in range(3)])
    union.feed_stream(1, [(0, tentative(b, "b")) for b in range(4)])
    union.drop_ahead(0, 5)
    assert [sorted(s.fold.tentative) for s in union.streams.values()] == [[0], [0, 1]]
    union.drop_ahead(0, 1)
    assert [sorted(s.fold.tentative) for s in union.streams.values()] == [[0], [0]]
    assert union.again(2) == [(1, 0, -1)]


def test_what_is_said_again_counts_once() -> None:
    fold = StreamFold("s", 1, 0, one_each)
    fold.read([(0, tentative(1, "a")), (0, tentative(1, "b", inc=2))])
    assert fold.tentative_rows == 1


def test_rows_that_wait_at_a_cursor_count_until_they_are_taken() -> None:
    union = SUnion([Input("s", 2, ("a",))], 0, BUCKETS, OPS, ahead_max_us=AHEAD_US)
    union.feed_stream(0, [(0, stable(2)), (0, stable(3)), (1, tentative(0, "a"))])
    assert (union.waiting, union.kept_rows) == ({(0, 0)}, 3)
    union.feed_stream(0, [(1, StableRange(1, 0, 2))])
    assert (union.waiting, union.kept_rows) == (frozenset(), 2)
    union.forget(4)
    assert union.kept_rows == 0


def test_a_zombies_tentative_words_are_ignored() -> None:
    fold = StreamFold("s", 1, 0)
    assert fold.read([(0, Undo(2, 0)), (0, tentative(0, "a", inc=1))]) == []
    assert fold.pick(0) is None


def test_nobody_has_spoken_of_anything_at_first_and_the_end_opens_nothing() -> None:
    union = SUnion([Input("s", 1, ("a",))], 5, BUCKETS, OPS, ahead_max_us=AHEAD_US)
    assert union.top == -1
    union.feed_stream(0, [(0, tentative(7, "a"))])
    assert (union.top, union.complete) == (7, 5)
    union.feed_stream(0, [(0, StableRange(1, 5, BUCKETS.last))])
    assert (union.top, union.complete) == (7, BUCKETS.last)


def test_a_streams_rows_stand_at_its_place_in_the_order() -> None:
    union = SUnion(
        [Input.source("a"), Input("s", 2, ("b",))], 0, BUCKETS, OPS, ahead_max_us=AHEAD_US, unpack={1: tuple}
    )
    union.feed(0, claim(0))
    union.feed(0, batch(1, 0, [(0, 10), (5, 11)], boundary=W))
    assert union.complete == 0
    union.feed_stream(1, [(1, StableBucket(1, 0, Output([(0, 20), (5, 21)])))])
    assert union.complete == 1
    assert [value for *_, value in union.ordered(0, 1)[0]] == [10, 20, 11, 21]
    assert union.count(0) == 4
    assert union.kept_rows == 4
    assert len(union.marks(0)) == 1  # of the source: a stream is found by its buckets


def test_a_live_run_takes_tentative_rows_where_there_are_no_stable_ones() -> None:
    union = SUnion([Input.source("a"), Input("s", 1, ("b",))], 0, BUCKETS, OPS, ahead_max_us=AHEAD_US)
    union.feed(0, claim(0))
    union.feed(0, batch(1, 0, [(0, 10)]))
    union.feed_stream(1, [(0, tentative(0, "b"))])
    assert [value for *_, value in union.ordered_live(0)[0]] == [10, 77]
    assert [union.count_live(bucket) for bucket in (0, 1)] == [2, 0]
    union.feed_stream(1, [(0, stable(0))])
    assert [value for *_, value in union.ordered_live(0)[0]] == [10, 0]
    assert union.count_live(0) == 2


def test_a_stream_keeps_its_name_and_counts_the_rows_of_its_stable_buckets() -> None:
    union = SUnion([Input("s", 2, ("a",))], 0, BUCKETS, OPS, ahead_max_us=AHEAD_US)
    rows = Output(((0, 1), (1, 2)))
    union.feed_stream(0, [(0, StableBucket(1, 0, rows)), (1, StableBucket(1, 0, rows)), (1, stable(1))])
    (stream,) = union.inputs
    assert (stream.name, stream.tuples) == ("s", 3)


def test_evicted_rows_of_a_stream_are_counted_and_gone() -> None:
    union = SUnion([Input("s", 1, ("a",))], 0, BUCKETS, OPS, ahead_max_us=AHEAD_US)
    union.feed_stream(0, [(0, stable(0)), (0, stable(1))])
    union.evict(1)
    union.feed_stream(0, [(0, stable(2))])
    assert (union.kept_rows, union.count(0), sorted(union.ordered(0, 3))) == (2, 1, [1, 2])
    union.forget(3)
    assert (union.kept_rows, union.busy(0, 9)) == (0, [])


RECORDS: list[StreamRecord] = [
    StableRange(1, 0, 2),
    stable(2),
    stable(3),
    RecDone(1, 3),
    StableRange(1, 4, 6),
    stable(6),
]


@given(st.data())
def test_whoever_dies_lags_or_repeats_the_stream_is_read_once_and_whole(data: st.DataObject) -> None:
    """Replicas say the same stable buckets, from wherever they begin again; whatever the interleaving of their topics,
    each bucket comes out once, in order, with its rows."""
    topics = []
    for k in range(3):
        again = data.draw(st.integers(0, len(RECORDS)), f"replica {k} restarts after")
        back = data.draw(st.integers(0, again), "and says again from")
        topics.append([*RECORDS[:again], *RECORDS[back : data.draw(st.integers(again, len(RECORDS)), "up to")]])
    topics[data.draw(st.integers(0, 2), "one goes to the end")] = list(RECORDS)
    fold, stables, at = StreamFold("s", 3, 0), [], [0, 0, 0]
    while any(at[k] < len(topics[k]) for k in range(3)):
        k = data.draw(st.sampled_from([k for k in range(3) if at[k] < len(topics[k])]))
        stables += [s for s in fold.read([(k, topics[k][at[k]])]) if isinstance(s, Stable)]
        at[k] += 1
    assert fold.next == 7
    assert [s.first for s in stables] == [0, *(s.end for s in stables[:-1])]
    assert {s.end - 1: s.output for s in stables if s.output.rows is not None} == {b: out(b) for b in (2, 3, 6)}


def test_the_end_opens_no_bucket_and_closes_none_that_was_open() -> None:
    """Else what waited before the end, read in one turn with it, would be said as if nobody had waited (R1.2, B12)."""
    fold = StreamFold("s", 1, 0, last=100)
    fold.read([(0, stable(0)), (0, StableRange(1, 1, 4)), (0, StableRange(1, 4, 100))])
    assert (fold.next, fold.top) == (100, 4)


def test_only_rows_that_wait_are_weighed() -> None:
    weighed: list[object] = []

    def weigh(rows: object) -> int:
        weighed.append(rows)
        return 1

    fold = StreamFold("s", 2, 0, weigh)
    fold.read([(0, stable(b)) for b in range(3)])
    assert (weighed, fold.waiting_rows) == ([], 0)
    fold.read([(0, stable(4))])
    fold.read([(0, stable(5))])
    assert (len(weighed), fold.waiting_rows) == (2, 2), "each once, however often the cursor is looked at"
    fold.read([(1, stable(3))])
    assert fold.waiting_rows == 0
