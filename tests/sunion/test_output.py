"""SOutput: no holes, no repeats, acknowledged frontiers, what is not yet published."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunion.errors import IllegalTransition
from sunion.model import Output, RecDone, Reject, StableBucket, StableRange, TentativeBucket, Undo
from sunion.output import SOutput
from sunion.portion import Most
from tests.sunion.unions import output_of


def rows(n: int) -> Output:
    return Output(tuple((i, i) for i in range(n)))


def tentative(bucket: int) -> TentativeBucket:
    return TentativeBucket(
        inc=1,
        bucket=bucket,
        output=Output(),
        missing_sources=("s1",),
        missing=("s1",),
        waited_us=0,
        completeness=0.5,
        diverged_from=0,
    )


def test_buckets_with_output_are_records_and_the_empty_ones_between_them_ranges() -> None:
    said = output_of(1, 3).stable_run(3, 10, {5: rows(1), 6: rows(2)}, waited_us=lambda bucket: bucket)
    assert [record for _, record in said] == [
        StableRange(1, 3, 5, 4),
        StableBucket(1, 5, rows(1), 5),
        StableBucket(1, 6, rows(2), 6),
        StableRange(1, 7, 10, 9),
    ]
    assert [token for token, _ in said] == [1, 2, 3, 4]


@given(st.lists(st.tuples(st.integers(1, 6), st.sets(st.integers(0, 5))), max_size=8))
def test_what_is_said_covers_every_bucket_once_and_in_order(runs: list[tuple[int, set[int]]]) -> None:
    output, at = output_of(1, 0), 0
    for width, busy in runs:
        said = output.stable_run(at, at + width, {at + b: rows(1) for b in busy if b < width})
        for _, record in said:
            first, end = (
                (record.bucket, record.bucket + 1)
                if isinstance(record, StableBucket)
                else (getattr(record, "first"), getattr(record, "end"))  # noqa: B009
            )
            assert first == at < end
            at = end
    assert at == output.stable


@pytest.mark.parametrize(("first", "end"), [(4, 5), (2, 5), (3, 3)])
def test_a_run_that_leaves_a_hole_or_repeats_is_illegal(first: int, end: int) -> None:
    output = output_of(1, 3)
    with pytest.raises(IllegalTransition, match="stable frontier 3"):
        output.stable_run(first, end, {})
    assert (output.stable, output.waiting) == (3, 0)


@pytest.mark.parametrize("bucket", [2, 5, 9])
def test_an_output_outside_its_run_is_illegal(bucket: int) -> None:
    with pytest.raises(IllegalTransition, match=f"output of bucket {bucket} "):
        output_of(1, 3).stable_run(3, 5, {bucket: rows(1)})


def test_a_tentative_bucket_below_the_stable_frontier_is_illegal() -> None:
    output = output_of(1, 3)
    with pytest.raises(IllegalTransition, match="below stable frontier 3"):
        output.tentative(tentative(2))
    assert output.tentative(tentative(3))[0] == 1


def test_marks_name_the_stable_frontier() -> None:
    output = output_of(4, 3)
    assert output.undo()[1] == Undo(4, 3)
    output.stable_run(3, 5, {})
    assert output.rec_done()[1] == RecDone(4, 5)


def test_frontiers_count_only_what_the_log_holds() -> None:
    output = output_of(1, 3)
    output.stable_run(3, 6, {4: rows(1)})  # tokens 1 to 3
    output.tentative(tentative(8))
    assert (output.ack_s, output.ack_l, output.waiting) == (3, 3, 4)
    output.acknowledged(1)
    assert (output.ack_s, output.ack_l) == (4, 4)
    output.acknowledged(1)
    assert (output.ack_s, output.waiting) == (4, 3)
    output.acknowledged(4)
    assert (output.ack_s, output.ack_l, output.waiting) == (6, 9, 0)


ALL = Most(99, 99, 9_999)


def kept(output: SOutput, first: int, end: int) -> list[int]:
    found = output.unpublished(first, end, ALL)
    assert found is not None
    assert found[1] == end
    return list(found[0])


def test_published_rows_are_dropped_and_the_others_kept() -> None:
    output = output_of(1, 0)
    output.stable_run(0, 4, {0: rows(1), 2: rows(2), 3: Output(None, (Reject("q", -1, "bad"),))})
    output.publish_to(1)
    assert kept(output, 1, 4) == [2, 3]
    assert kept(output, 1, 3) == [2]
    output.publish_to(0)
    assert output.published == 1
    output.stable_run(4, 5, {})
    assert output.unpublished(4, 5, ALL) == ({}, 5)


def test_beyond_its_budget_it_says_that_rows_lie_only_in_the_own_topic() -> None:
    output = output_of(1, 0, rows_max=3)
    output.stable_run(0, 3, {0: rows(2), 1: rows(1), 2: rows(2)})
    assert output.kept_from == 1
    assert output.unpublished(0, 3, ALL) is None
    assert kept(output, 1, 3) == [1, 2]
    output.stable_run(3, 4, {3: rows(9)})
    assert output.kept_from == 4
    assert output.unpublished(3, 4, ALL) is None


def test_bytes_count_as_rows_do() -> None:
    """A dead letter keeps up to 64 KiB."""
    output = output_of(1, 0, bytes_max=1_000)
    letter = Output(None, (Reject("q", -1, "bad", b"x" * 600),))
    output.stable_run(0, 3, {0: letter, 1: rows(2), 2: letter})
    assert (output.kept_from, kept(output, 1, 3)) == (1, [1, 2])
    output.publish_to(2)
    output.stable_run(3, 4, {3: rows(2)})
    assert (output.kept_from, kept(output, 2, 4)) == (1, [2, 3])


LETTERS = Output(None, tuple(Reject("q", -1, "bad", b"x" * 97) for _ in range(2)))


@pytest.mark.parametrize(
    ("most", "buckets"),
    [(ALL, [0, 2, 3, 5]), (Most(2, 99, 9_999), [0, 2]), (Most(99, 4, 9_999), [0, 2]), (Most(99, 2, 9_999), [0]),
     (Most(99, 6, 9_999), [0, 2, 3]), (Most(99, 99, 48), [0, 2]), (Most(99, 99, 247), [0, 2]),
     (Most(99, 99, 248), [0, 2, 3]), (Most(1, 1, 1), [0])],
)  # fmt: skip
def test_a_portion_is_bounded_by_buckets_rows_and_bytes_and_holds_one_bucket_at_least(
    most: Most, buckets: list[int]
) -> None:
    """Rows of 16 bytes, dead letters of 100: buckets of 2 rows, 1 row, 2 letters, 3 rows."""
    output = output_of(1, 0)
    output.stable_run(0, 9, {0: rows(2), 2: rows(1), 3: LETTERS, 5: rows(3)})
    found = output.unpublished(0, 9, most)
    assert found is not None
    assert list(found[0]) == buckets
    assert found[1] == ([*(b for b in (0, 2, 3, 5) if b > buckets[-1]), 9])[0], "the empty buckets between go with it"


def test_what_is_published_already_is_not_kept() -> None:
    output = output_of(1, 0)
    output.publish_to(2)
    output.stable_run(0, 3, {1: rows(1), 2: rows(1)})
    assert kept(output, 2, 3) == [2]
    assert kept(output, 0, 3) == [2]
